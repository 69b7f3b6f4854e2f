"""What is told of a program's steps and phases: known programs in, figures out."""

from __future__ import annotations

import pytest

from perfzero.diagnose.evidence import collect
from perfzero.diagnose.judge import UNSETTLED, judge
from perfzero.diagnose.rhythm import rhythm_of, stages_of
from perfzero.diagnose.step_map import mean_step, step_map_of
from perfzero.series.steady import Stretch
from perfzero.sources.synthetic import Phase, observe

MATRIX = {
    "gr_active": 1.0, "sm_active": 0.99, "tensor_active": 0.8, "dram_read_bytes": 4e11,
    "dram_write_bytes": 2e11, "launches": 2000.0,
}  # fmt: skip
UPDATE = {  # Adam: four numbers read per weight, three written
    "gr_active": 1.0, "sm_active": 0.98, "dram_read_bytes": 2.1e12, "dram_write_bytes": 1.6e12,
    "launches": 2000.0,
}  # fmt: skip
STEP = (Phase(0.060, MATRIX), Phase(0.010, UPDATE), Phase(0.030))


def test_a_step_is_told_with_its_length_and_its_parts() -> None:
    e = collect(observe(STEP))
    rhythm = rhythm_of(e, step_map_of(e, mean_step(e))[0])

    assert rhythm is not None
    assert rhythm.step_s == pytest.approx(0.1, rel=0.01)
    assert rhythm.low_s <= rhythm.step_s <= rhythm.high_s
    shares = {name: 0.0 for name, _ in rhythm.parts}
    for name, share in rhythm.parts:
        shares[name] += share
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["matrix"] == pytest.approx(0.6, abs=0.04)
    assert shares["update"] == pytest.approx(0.1, abs=0.04)
    assert shares["idle"] == pytest.approx(0.3, abs=0.04)


def test_a_program_without_steps_has_no_rhythm_and_a_reason() -> None:
    diagnosis = judge(observe((Phase(0.01, MATRIX),)))

    assert diagnosis.rhythm is None
    assert diagnosis.step_s is None
    assert diagnosis.no_rhythm


def test_programs_that_take_turns_on_the_gpu_show_no_steps() -> None:
    alone, shared = observe(STEP), observe([Phase(p.seconds, {**p.levels, "ctxsw": 0.08}) for p in STEP])

    assert judge(alone).step_s is not None
    assert judge(shared).step_s is None
    assert "takes turns" in judge(shared).no_rhythm


def test_the_phases_of_the_recording_are_told_in_order() -> None:
    warm = observe(STEP, warm_up=(Phase(0.1, {"gr_active": 0.2}), Phase(0.1)), warm_up_s=12.0)
    stages = stages_of(collect(warm))

    assert [s.label for s in stages] == [0, 1]
    assert (stages[0].end_ns - stages[0].start_ns) / 1e9 == pytest.approx(12.0, abs=1.1)
    assert stages[0].gr_active < 0.2 < stages[1].gr_active


def test_nothing_measured_has_no_phases() -> None:
    assert stages_of(collect(observe(STEP, tier="nvml"))) == ()


@pytest.mark.parametrize("kind", ["steady", "cyclic", "slow_down", "never"])
def test_a_stretch_that_is_not_what_it_was_is_doubted(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    seen = observe(STEP)
    stretch = Stretch(seen.start_ns, seen.end_ns, 0.0, "stable", 0.0, kind, 0.0)  # type: ignore[arg-type]
    monkeypatch.setattr("perfzero.diagnose.evidence.find_steady", lambda *_, **__: stretch)
    diagnosis = judge(seen)

    assert diagnosis.steady.kind == kind
    assert (UNSETTLED.get(kind) in diagnosis.doubts) == (kind in UNSETTLED)
