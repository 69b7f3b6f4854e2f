"""Two recordings of an H200, before and after a known fix, side by side."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from perfzero.diagnose.evidence import collect
from perfzero.diagnose.judge import judge
from perfzero.diagnose.verdict import Event
from perfzero.errors import UnlikeMachines, UsageError
from perfzero.report.ledger import measure
from perfzero.report.ledger.build import build, limits_of
from perfzero.report.ledger.measure import Iteration, iteration
from perfzero.report.ledger.model import Ledger
from perfzero.report.ledger.terminal import words
from perfzero.series import compare
from perfzero.store.reader import open_recording

RECORDINGS = Path(__file__).parents[2] / "recordings"


def recorded(name: str) -> Iteration:
    return iteration(name, [RECORDINGS / name])


def on(one: Iteration, **changed: object) -> Iteration:
    """The same iteration from a machine whose GPU differs."""
    first = one.first
    gpu = dataclasses.replace(first.gpu, gpu=dataclasses.replace(first.gpu.gpu, **changed))
    return dataclasses.replace(one, taken=(dataclasses.replace(first, gpu=gpu),))


def test_the_step_of_each_iteration_is_the_one_of_its_report(before: Iteration, after: Iteration) -> None:
    for one in (before, after):
        assert one.means["step_time"].value == pytest.approx(one.first.diagnosis.step_s, rel=1e-6)


def test_levels_are_those_of_the_report(before: Iteration) -> None:
    facts = before.first.diagnosis.facts
    for key, fact in (
        ("sm_active", "sm_active"),
        ("dram_read", "dram_read_bytes_per_s"),
        ("l2_hit", "l2_hit"),
    ):
        assert before.means[key].value == pytest.approx(facts[fact].value, rel=1e-3), key


def test_what_windows_saw_is_not_mixed_with_what_gpm_lends(before: Iteration) -> None:
    """GPM counts only the FP32 arithmetic of the FMA pipe; half of the windows did not sample that pipe."""
    facts = before.first.diagnosis.facts
    for name, value in (("fma_active", 0.076), ("fp32_active", 0.0224)):
        assert before.means[name].value == pytest.approx(value, abs=0.001)
        assert facts[name].value == pytest.approx(value, abs=0.001)


def test_the_time_classes_of_a_step_add_up_to_it(before: Iteration) -> None:
    shares = before.first.diagnosis.shares
    for name, share in shares.items():
        assert before.means[f"time_{name}"].value == pytest.approx(share, abs=1e-9)
    whole = sum(before.means[f"step_{name}"].value for name in shares)
    assert whole == pytest.approx(before.means["step_time"].value)


def test_channels_last_is_faster_as_it_was_promised(ledger: Ledger) -> None:
    promise = ledger.promises[0]

    assert 1.9 < promise.achieved_low < promise.value < promise.achieved_high < 1.95
    assert promise.low < promise.value < promise.high
    assert promise.kept == "kept"
    assert promise.came is True


def test_the_other_way_round_it_is_slower_and_more_than_was_promised(
    before: Iteration, after: Iteration
) -> None:
    found = build([after, before])
    line = found.line("step_rate")

    assert line is not None
    assert line.before[1] is not None
    assert line.before[1].word == "less"
    assert found.promises[0].kept == "less"


def test_rare_stalls_are_spread_over_all_steps() -> None:
    """A fifth of the time in four stalls: the program does a fifth fewer steps a second."""
    recording = open_recording(RECORDINGS / "resnet50_nchw")
    e = collect(recording.observation(recording.gpus[0].index))
    diagnosis = judge(e.observation)
    assert diagnosis.rhythm is not None
    stall = Event("stall", 4, 0.2, 1.0, None, None)
    stalled = dataclasses.replace(diagnosis, rhythm=dataclasses.replace(diagnosis.rhythm, events=(stall,)))
    series, also = measure.series_of(e, stalled)
    step = series["step_time"]

    assert np.average(step.values, weights=step.weights) == pytest.approx(diagnosis.rhythm.step_s / 0.8)
    assert also["step_time"] == pytest.approx((0.2 / 2 / 0.8) ** 2)


def test_what_fell_is_told_as_fallen_with_its_interval(ledger: Ledger) -> None:
    line = ledger.line("step_dram_read")

    assert line is not None
    assert line.before[1] is not None
    assert line.before[1].word == "less"
    assert -0.2 < line.before[1].low < line.before[1].high < -0.1


def test_a_recording_against_itself_shows_no_difference(before: Iteration) -> None:
    found = build([before, before])

    assert {d.word for line in found.lines for d in line.before if d is not None} <= {"same", "unknown"}
    line = found.line("step_rate")
    assert line is not None
    assert line.before[1] is not None
    assert line.before[1].word == "same"


def test_three_iterations_are_held_against_the_one_before_and_the_first(
    before: Iteration, after: Iteration
) -> None:
    line = build([before, after, after]).line("step_rate")

    assert line is not None
    assert [None if d is None else d.word for d in line.before] == [None, "more", "same"]
    assert line.first[2] is not None
    assert line.first[2].word == "more"


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"name": "NVIDIA A100"}, "GPU: NVIDIA H200 (A), NVIDIA A100 (B)"),
        ({"power_limit_w": 500.0}, "power limit: 700 W (A), 500 W (B)"),
        ({"mig": True}, "MIG: no (A), yes (B)"),
        ({"driver": "570.1"}, "driver: "),
        ({"memory_clock_max_hz": 2.6e9}, "highest memory clock: "),
    ],
)
def test_unlike_machines_are_refused_by_the_name_of_what_differs(
    before: Iteration, after: Iteration, changed: dict[str, object], named: str
) -> None:
    with pytest.raises(UnlikeMachines, match="--force") as raised:
        build([before, on(after, **changed)])

    assert named in str(raised.value)
    assert raised.value.exit_code == 11


def test_unlike_machines_are_compared_when_forced_and_it_is_said(before: Iteration, after: Iteration) -> None:
    found = build([before, on(after, power_limit_w=500.0)], force=True)

    assert found.unlike == ("power limit: 700 W (A), 500 W (B)",)
    assert "Unlike machines" in words(found)


def test_another_gpu_of_the_same_kind_is_told_and_not_refused(before: Iteration, after: Iteration) -> None:
    found = build([before, on(after, uuid="GPU-another")])

    assert any("GPU's UUID" in fact for fact in found.told)


def test_a_fact_that_only_one_recording_knows_is_told_and_not_refused(
    before: Iteration, after: Iteration
) -> None:
    found = build([before, on(after, power_limit_w=None)])

    assert "power limit: 700 W (A), unknown (B)" in found.told


def test_logs_with_other_names_do_not_make_another_program(before: Iteration) -> None:
    process = dataclasses.replace(before.first.manifest.process, command=("python3", "t.py", "--log", "b"))
    manifest = dataclasses.replace(before.first.manifest, process=process)
    one = dataclasses.replace(before, taken=(dataclasses.replace(before.first, manifest=manifest),))
    process = dataclasses.replace(process, command=("python3", "t.py", "--log", "other"))
    manifest = dataclasses.replace(manifest, process=process)
    other = dataclasses.replace(before, taken=(dataclasses.replace(before.first, manifest=manifest),))

    assert not any(fact.startswith("program") for fact in build([one, other]).told)


def test_a_gpu_that_was_not_watched_is_refused() -> None:
    with pytest.raises(UsageError, match="GPU 7"):
        measure.iteration("x", [RECORDINGS / "resnet50_nchw"], gpu=7)


def test_the_screen_says_it_in_a_sentence_and_fits_its_width(ledger: Ledger) -> None:
    for width in (80, 100):
        shown = words(ledger, width=width)

        assert "B is 1.93× as fast as A (1.92–1.93×), as foreseen (1.1–2.3×)." in " ".join(shown.split())
        assert max(map(len, shown.splitlines())) <= width


def test_the_screen_speaks_chinese(ledger: Ledger) -> None:
    assert "B 的速度是 A 的 1.93 倍" in words(ledger, language="zh")


def test_without_a_step_time_nothing_is_claimed_of_the_speed(before: Iteration) -> None:
    found = build([before, recorded("gpm_only")])

    assert found.promises[0].kept == "unknown"
    assert "How fast B is against A cannot be told: no step time was found in B." in words(found)


def test_the_names_of_a_recording_cannot_move_the_cursor(before: Iteration, after: Iteration) -> None:
    hostile = dataclasses.replace(after, name="[red]\x1b[2Jx")
    shown = words(build([before, hostile]))

    assert "\x1b" not in shown
    assert "[red]" in shown


def test_a_limit_is_the_largest_class_and_what_the_verdict_names(after: Iteration) -> None:
    assert limits_of(after.first.diagnosis) == ("memory bandwidth",)


def series_without(share: float) -> dict[str, measure.Series]:
    """The series of a recording of which *share* of the samples, spread evenly, have lost their counters."""
    recording = open_recording(RECORDINGS / "resnet50_nchw")
    e = collect(recording.observation(recording.gpus[0].index))
    lost = np.random.default_rng(1).random(len(e.long)) < share
    columns = {
        name: np.where(lost & (name in ("dram_read_bytes", "gpc_clock", "launches")), np.nan, column)
        for name, column in e.long.columns.items()
    }
    holed = dataclasses.replace(e, long=dataclasses.replace(e.long, columns=columns))
    return measure.series_of(holed, judge(e.observation))[0]


@pytest.mark.parametrize("key", ["step_cycles", "step_dram_read", "step_launches"])
def test_what_was_not_counted_is_no_zero(key: str) -> None:
    """A tenth of the samples missing once made a tenth fewer bytes."""
    whole, holed = series_without(0.0)[key], series_without(0.1)[key]
    means = [np.average(s.values, weights=s.weights) for s in (whole, holed)]

    assert means[1] == pytest.approx(means[0], rel=0.01)


def test_what_was_never_counted_says_nothing() -> None:
    assert "step_dram_read" not in series_without(1.0)
    assert "step_dram_read" in series_without(0.9)


def test_a_temperature_differs_by_degrees(ledger: Ledger) -> None:
    line = ledger.line("temperature")

    assert line is not None
    found = line.before[1]
    assert found is not None
    assert found.value == pytest.approx(line.cells[1].value - line.cells[0].value)
    assert found.margin == 1.0
    assert "+4.2 °C  (" in words(ledger)


def test_no_share_changes_by_more_than_all_of_the_time(before: Iteration, after: Iteration) -> None:
    """Of a few values of nvidia-smi's number nothing may be known, which is not more than all."""
    mean = compare.Measured(0.9, "points", np.array([4.0]), np.array([1.0]), 2.0, 1)
    low, high = mean.interval()
    unsure = dataclasses.replace(after, means={**after.means, "smi_utilization": mean})
    line = build([before, unsure]).line("smi_utilization")

    assert low < 0.0
    assert high > 1.0
    assert line is not None
    assert line.before[1] is not None
    assert (line.before[1].low, line.before[1].high) == (-1.0, 1.0)
    assert (line.cells[1].low, line.cells[1].high) == (0.0, 1.0)


def test_times_of_a_step_have_no_such_bounds(ledger: Ledger) -> None:
    line = ledger.line("step_latency")

    assert line is not None
    assert line.before[1] is not None
    assert line.before[1].low == pytest.approx(-0.037, abs=0.002)
