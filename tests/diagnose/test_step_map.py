"""The map of the step: known programs in, phases with names out; and where there is none, why."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from perfzero.diagnose.evidence import Evidence, collect
from perfzero.diagnose.fingerprints import CERTAINTY
from perfzero.diagnose.step_map import FEW_STEPS, NOT_ALIKE, TOGETHER, _largest, mean_step, step_map_of
from perfzero.diagnose.verdict import StepMap
from perfzero.sources.synthetic import START_NS, Phase, observe, signal
from perfzero.store.reader import open_recording
from perfzero.values import Observation, Samples

RECORDINGS = Path(__file__).parents[1] / "recordings"

BUSY = {"gr_active": 1.0, "sm_active": 0.98}
GEMM = {**BUSY, "tensor_active": 0.85, "dram_read_bytes": 5e11, "dram_write_bytes": 2e11, "launches": 2e3}
COPIES = {**BUSY, "dram_read_bytes": 2e12, "dram_write_bytes": 2e12, "launches": 2e3}
ADAM = {**BUSY, "dram_read_bytes": 2.1e12, "dram_write_bytes": 1.6e12, "launches": 2e3}
NORMS = {**BUSY, "fma_active": 0.2, "sm_issue": 0.6, "dram_read_bytes": 5e11, "launches": 2e3}
READS = {**BUSY, "dram_read_bytes": 2.9e12, "dram_write_bytes": 6e11, "launches": 2e3}
STEP = (Phase(0.050, GEMM), Phase(0.010, ADAM), Phase(0.015, READS), Phase(0.025))


def turns(products_s: float, copies_s: float, rounds: int) -> list[Phase]:
    """Products and copies in turn, of these mean lengths and all of different ones."""
    lengths = np.random.default_rng(5).uniform(0.5, 1.5, (rounds, 2)) * (products_s, copies_s)
    return [Phase(float(s), levels) for row in lengths for s, levels in zip(row, (GEMM, COPIES), strict=True)]


def map_of(e: Evidence) -> tuple[StepMap | None, str]:
    return step_map_of(e, mean_step(e))


def mapped(seen: Observation) -> StepMap:
    found, why = map_of(collect(seen))
    assert found is not None, why
    assert why == ""
    return found


def test_of_two_kinds_that_take_as_long_the_first_names_the_phase() -> None:
    """Not the one that a set has first, which is another one in the next process."""
    for group in TOGETHER:
        for kinds in permutations(group):
            made_of = {"idle": 0.2, **dict.fromkeys(kinds, 0.8 / len(kinds))}
            assert _largest(made_of) == (kinds[0], pytest.approx(0.8 / len(kinds)))


def why_not(seen: Observation) -> str:
    found, why = map_of(collect(seen))
    assert found is None
    return why


def turned(found: StepMap) -> list[tuple[str, float]]:
    """Names and shares of the phases, the products first: where a step begins is not known."""
    named = [(phase.kind, phase.share) for phase in found.phases]
    if named[0][0] == named[-1][0]:
        named = [(named[0][0], named[0][1] + named[-1][1]), *named[1:-1]]
    first = [kind for kind, _ in named].index("gemm")
    return named[first:] + named[:first]


def test_the_step_is_told_phase_by_phase():
    found = turned(mapped(observe(STEP, noise=0.02)))

    assert [kind for kind, _ in found] == ["gemm", "optimizer", "memory", "idle"]
    assert [share for _, share in found] == pytest.approx([0.5, 0.1, 0.15, 0.25], abs=0.03)


def test_a_phase_says_how_long_it_takes_and_what_says_so():
    found = mapped(observe(STEP))
    products = max((p for p in found.phases if p.kind == "gemm"), key=lambda p: p.share)

    assert products.seconds == pytest.approx(products.share * 0.1, rel=0.02)
    assert products.because[:2] == ("tensor cores 85 %", "DRAM 16 %")
    assert products.levels["tensor_active"] == pytest.approx(0.85, abs=0.02)
    assert products.seen > 0.95


def test_without_a_roof_nothing_is_said_of_the_memory():
    seen = observe(STEP)
    found = mapped(replace(seen, gpu=replace(seen.gpu, memory_clock_max_hz=None)))

    assert {p.kind for p in found.phases} >= {"gemm", "idle"}
    assert not any("DRAM" in word for p in found.phases for word in p.because)


def test_bursts_say_what_a_phase_of_short_kernels_is_made_of():
    """Products of 0.3 ms and copies of 0.1 ms take turns: no sample of 1 ms holds one of them."""
    found = mapped(observe([*turns(0.0003, 0.0001, 100), Phase(0.030)]))
    busy = next(p for p in found.phases if p.kind == "gemm")

    assert busy.resolved
    assert busy.share == pytest.approx(4 / 7, abs=0.03)
    assert busy.made_of["gemm"] == pytest.approx(0.75, abs=0.05)
    assert busy.made_of["memory"] == pytest.approx(0.25, abs=0.05)


def in_turn(**seconds: float) -> StepMap:
    """The map of a step of products, copies and norms in turn, of these mean lengths and all of others."""
    levels = {"gemm": GEMM, "memory": COPIES, "elementwise": NORMS}
    lengths = np.random.default_rng(5).uniform(0.5, 1.5, (100, len(seconds))) * tuple(seconds.values())
    rounds = [zip(row, seconds, strict=True) for row in lengths.tolist()]
    return mapped(observe([*(Phase(s, levels[kind]) for row in rounds for s, kind in row), Phase(0.030)]))


def test_a_phase_that_two_kinds_share_has_the_name_of_the_larger_and_is_as_sure_as_its_own_share():
    """Though products take more than either: together the two take most of it."""
    found = in_turn(gemm=0.00016, memory=0.00014, elementwise=0.0001)
    [busy] = [p for p in found.phases if p.kind != "idle"]

    assert next(iter(busy.made_of)) == "gemm"
    assert busy.kind == "memory"
    assert busy.confidence == pytest.approx(CERTAINTY["memory"][0] * busy.made_of["memory"])
    assert busy.confidence < 0.35


def test_a_phase_is_named_after_what_takes_a_little_more_than_half_of_it():
    [busy] = [p for p in in_turn(gemm=0.00017, memory=0.0002).phases if p.kind != "idle"]

    assert busy.kind == "memory"
    assert 0.5 < busy.made_of["memory"] < 0.58
    assert busy.confidence == pytest.approx(CERTAINTY["memory"][0] * busy.made_of["memory"])


def test_without_bursts_such_a_phase_is_mixed():
    """Products for 0.35 of the time give a mean of 0.3 of tensor activity, which slow products have, too."""
    e = collect(observe([*turns(0.00014, 0.00026, 100), Phase(0.030)]))
    fine, _ = map_of(e)
    coarse, _ = map_of(replace(e, zoom=Samples.empty()))

    assert fine is not None
    assert coarse is not None
    assert [p.kind for p in fine.phases if p.kind != "idle"] == ["memory"]
    assert [(p.kind, p.resolved) for p in coarse.phases if p.kind != "idle"] == [("mixed", False)]
    assert max(p.confidence for p in coarse.phases if p.kind == "mixed") < 0.6


def test_a_step_that_multiplies_nothing_has_no_optimizer():
    stream = {**COPIES, "dram_read_bytes": 8e11, "dram_write_bytes": 8e11}
    found = mapped(observe([Phase(0.060, stream), Phase(0.010, ADAM), Phase(0.030)]))

    assert "optimizer" not in {p.kind for p in found.phases}


def test_what_comes_twice_in_a_step_is_no_optimizer():
    long, short = Phase(0.050, GEMM), Phase(0.030, GEMM)
    found = mapped(observe([long, Phase(0.010, ADAM), Phase(0.02), short, Phase(0.010, ADAM), Phase(0.04)]))

    assert "optimizer" not in {p.kind for p in found.phases}
    assert [p.kind for p in found.phases].count("memory") == 2


def test_writes_as_many_as_reads_are_no_optimizer():
    found = mapped(observe([Phase(0.060, GEMM), Phase(0.010, COPIES), Phase(0.030)]))

    assert "optimizer" not in {p.kind for p in found.phases}


def test_most_of_a_step_is_no_optimizer():
    found = mapped(observe([Phase(0.050, GEMM), Phase(0.040, ADAM), Phase(0.010)]))

    assert "optimizer" not in {p.kind for p in found.phases}


def test_what_moves_now_more_and_now_less_is_no_optimizer():
    """Same shares of writes, half of the rate: an optimizer does the same to every weight."""
    slower = {**ADAM, "dram_read_bytes": 1.15e12, "dram_write_bytes": 0.9e12}
    parts = [Phase(0.050, GEMM), Phase(0.010, ADAM), Phase(0.010, slower), Phase(0.030)]

    assert "optimizer" not in {p.kind for p in mapped(observe(parts)).phases}
    assert "optimizer" in {p.kind for p in mapped(observe([*parts[:2], *parts[3:]])).phases}


def test_what_has_products_in_it_is_no_optimizer():
    """Slow products for 15 % of its time: their mean activity is as low as that of none."""
    slow = {**ADAM, "tensor_active": 0.25}
    rows = np.random.default_rng(5).uniform(0.5, 1.5, (50, 2)) * (0.00003, 0.00017)
    pairs = [Phase(float(s), levels) for row in rows for s, levels in zip(row, (slow, ADAM), strict=True)]
    found = mapped(observe([Phase(0.050, GEMM), *pairs, Phase(0.030)]))
    moving = next(p for p in found.phases if p.kind not in ("gemm", "idle"))

    assert moving.resolved
    assert moving.levels["tensor_active"] < 0.05
    assert moving.kind == "memory"


def test_windows_that_resolve_kernels_need_no_bursts():
    e = collect(observe([*turns(0.0003, 0.0001, 100), Phase(0.030)]))
    length_s = sum(p.seconds for p in turns(0.0003, 0.0001, 100)) + 0.030
    starts = START_NS + np.round(np.arange(11) * length_s * 1e9).astype(np.int64)
    fine = signal(
        [*turns(0.0003, 0.0001, 100), Phase(0.030)],
        start_ns=START_NS, end_ns=int(starts[-1]), period_ns=20_000,
    )  # fmt: skip
    steps = replace(e.steps, starts_ns=starts)  # type: ignore[type-var]
    found, _ = map_of(replace(e, long=fine, zoom=Samples.empty(), steps=steps))

    assert found is not None
    busy = next(p for p in found.phases if p.kind == "gemm")
    assert busy.resolved
    assert busy.made_of["gemm"] == pytest.approx(0.75, abs=0.06)


def test_a_staged_copy_is_a_copy_though_its_engine_rests_in_between():
    staged = [Phase(0.0004, {"pcie_rx_bytes": 2.5e10, "ce_active": 1.0}), Phase(0.0006)] * 40
    found = turned(mapped(observe([Phase(0.050, GEMM), *staged])))

    assert [kind for kind, _ in found] == ["gemm", "copy"]


def test_a_program_without_steps_has_no_map_and_the_reason_is_that_of_the_steps():
    e = collect(observe((Phase(0.01, GEMM),)))

    assert map_of(e) == (None, e.steps.reason)  # type: ignore[union-attr]


def test_counters_that_are_averages_of_seconds_take_no_part():
    e = collect(observe(STEP))
    of_gpm = e.long.with_columns({"fp64_active": np.full(len(e.long), 0.5)})
    found, _ = map_of(replace(e, long=of_gpm, borrowed=("fp64_active",)))

    assert found is not None
    assert all("fp64_active" not in p.levels for p in found.phases)


def test_too_few_steps_have_no_map():
    e = collect(observe(STEP))
    few = replace(e.steps, starts_ns=e.steps.starts_ns[:5])  # type: ignore[type-var, union-attr]

    assert map_of(replace(e, steps=few)) == (None, FEW_STEPS)


def test_steps_that_change_their_course_have_no_map():
    e = collect(observe(STEP, zoom=False))
    late = np.arange(len(e.long)) > len(e.long) // 2
    rolled = {name: np.where(late, np.roll(column, 30), column) for name, column in e.long.columns.items()}
    long = Samples(e.long.start_ns, e.long.end_ns, rolled)

    assert map_of(replace(e, long=long)) == (None, NOT_ALIKE)


def test_nothing_but_nvml_has_no_map():
    assert why_not(observe(STEP, tier="nvml"))


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("bf16_gemm_capped", ["gemm"]),
        ("fp32_gemm", ["fp32_gemm"]),
        ("elementwise_chain", ["memory"]),
        ("decode", ["memory"]),
        ("pageable_copies", ["copy"]),
        ("optimizer_unfused", ["tiny_kernels"]),
        ("jittered", ["memory", "gemm"]),
        ("transformer_healthy", ["optimizer", "gemm"]),
        ("gradient_accumulation", ["gemm"]),
    ],
)
def test_real_programs_are_told_as_they_are_written(name, kinds):
    recording = open_recording(RECORDINGS / name)
    found = mapped(recording.observation(recording.gpus[0].index))

    assert [p.kind for p in found.phases] == kinds
    assert sum(p.share for p in found.phases) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["launch_blocking", "variable_batches", "never_steady", "tiny_kernels"])
def test_real_programs_whose_steps_are_unknown_or_unlike_have_no_map(name):
    recording = open_recording(RECORDINGS / name)

    assert why_not(recording.observation(recording.gpus[0].index))


def test_what_phases_are_made_of_is_what_the_traced_kernels_say(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a look into a ResNet-50: its own steps, mapped by the counters beside it."""
    file = RECORDINGS.parents[1] / "benchmarks" / "step_map" / "agree.py"
    spec = importlib.util.spec_from_file_location("benchmark_step_map_agree", file)
    assert spec is not None
    assert spec.loader is not None
    agree = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(agree)
    # The script takes fewer steps than a map needs; after the test they are as they were.
    monkeypatch.setattr("perfzero.series.fold.FEWEST_STEPS", agree.FEWEST_TRACED)
    monkeypatch.setattr("perfzero.series.phases.FEWEST", agree.MOST_TRACED)

    assert agree.main([str(RECORDINGS / "_looks" / "resnet50_fp32")]) == 0

    found = re.search(r"products: off by ([0-9.]+) in the ([0-9.]+)", capsys.readouterr().out)
    assert found is not None
    assert float(found[1]) < 0.05
    assert float(found[2]) > 0.5
