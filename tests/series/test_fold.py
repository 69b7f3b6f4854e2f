"""Steps laid over each other show the step that was put in, and its phases by name."""

from __future__ import annotations

import numpy as np
import pytest

from perfzero.series.fold import Folded, fold, phases
from perfzero.values import Samples

MS = 1_000_000
START = 1_700_000_000_000_000_000

DRAM_ROOF, PCIE_ROOF = 4.2e12, 55e9

IDLE = {"gr_active": 0.0}
COPY = {"gr_active": 0.02, "pcie_rx_bytes": 10e9}
MATRIX = {"gr_active": 1.0, "sm_active": 0.95, "tensor_active": 0.8, "dram_read_bytes": 8e11, "launches": 1e3}
MEMORY = {
    "gr_active": 1.0,
    "sm_active": 0.9,
    "tensor_active": 0.02,
    "dram_read_bytes": 2.4e12,
    "dram_write_bytes": 0.6e12,
}
UPDATE = {
    "gr_active": 1.0,
    "sm_active": 0.9,
    "dram_read_bytes": 1.5e12,
    "dram_write_bytes": 1.1e12,
    "launches": 1e4,
}
LAUNCHES = {"gr_active": 0.6, "sm_active": 0.05, "launches": 1.5e5}

COLUMNS = (
    "gr_active",
    "sm_active",
    "tensor_active",
    "dram_read_bytes",
    "dram_write_bytes",
    "pcie_rx_bytes",
    "launches",
)

TRAINING = [(0.15, IDLE), (0.05, COPY), (0.40, MATRIX), (0.20, MEMORY), (0.20, UPDATE)]


def program(
    parts, *, step_s=0.027, steps=60, jitter=0.0, noise=0.0, period_ms=2.0, seed=0, windows=True
) -> tuple[Samples, np.ndarray]:
    """Samples of a program whose step is made of *parts*, and the onsets of its steps."""
    rng = np.random.default_rng(seed)
    length = step_s * (1 + jitter * rng.standard_normal(steps)).clip(0.5, 1.5)
    starts_s = np.r_[0.0, np.cumsum(length)]
    share = np.array([part[0] for part in parts])
    inner = np.r_[0.0, np.cumsum(share)[:-1]]
    knots = np.r_[(starts_s[:-1, None] + length[:, None] * inner).ravel(), starts_s[-1]]
    period = round(period_ms * MS)
    begin = rng.integers(0, period) + period * np.arange(int(starts_s[-1] * 1e9) // period)
    edges = np.r_[begin, begin[-1] + period] / 1e9
    columns = {}
    for name in COLUMNS:
        level = np.tile([part[1].get(name, 0.0) for part in parts], steps)
        integral = np.r_[0.0, np.cumsum(level * np.diff(knots))]
        value = np.diff(np.interp(edges, knots, integral))
        if not name.endswith("bytes") and name != "launches":
            value = value / (period / 1e9)
        columns[name] = np.maximum(value * (1 + noise * rng.standard_normal(len(value))), 0.0)
    start = START + begin
    samples = Samples(start, start + period, columns)
    if windows:
        samples = samples.where((begin // (500 * MS)) % 3 != 2)
    return samples, START + np.round(starts_s * 1e9).astype(np.int64)


def folded_of(parts, **arguments) -> Folded:
    samples, starts = program(parts, **arguments)
    folded = fold(samples, starts)
    assert folded is not None
    return folded


def test_the_mean_step_holds_as_much_as_the_samples():
    folded = folded_of(TRAINING)

    for name in COLUMNS:
        truth = sum(share * levels.get(name, 0.0) for share, levels in TRAINING)
        assert folded.mean[name].mean() == pytest.approx(truth, rel=0.02)


def test_many_steps_show_more_than_the_samples_of_one():
    """A pulse of 0.5 ms under samples of 2 ms: steps of 27.3 ms put it anywhere in a sample."""
    pulse = [(0.5, IDLE), (0.5 / 27.3, MATRIX), (0.5 - 0.5 / 27.3, IDLE)]
    folded = folded_of(pulse, step_s=0.0273, steps=300, windows=False)

    above = np.flatnonzero(folded.mean["gr_active"] > 0.3)
    assert len(above) <= 3
    assert above.mean() / 64 == pytest.approx(0.5 + 0.25 / 27.3, abs=0.02)


def test_each_bin_says_on_how_many_steps_it_rests():
    folded = folded_of(TRAINING, steps=60, windows=False)

    assert folded.steps == 60
    assert folded.counts.min() >= 59
    assert folded.step_s == pytest.approx(0.027)


def test_the_spread_is_that_of_the_steps_not_of_the_mean():
    """Every tenth step works at half the level."""
    samples, starts = program([(1.0, MATRIX)], step_s=0.02, period_ms=1.0, windows=False)
    tenth = ((samples.start_ns - START) // (20 * MS)) % 10 == 1
    halved = samples.with_columns({"tensor_active": np.where(tenth, 0.4, 0.8)})

    folded = fold(halved, starts)

    assert folded is not None
    assert np.median(folded.mean["tensor_active"]) == pytest.approx(0.76, abs=0.02)
    assert np.median(folded.low["tensor_active"]) == pytest.approx(0.4)
    assert np.median(folded.high["tensor_active"]) == pytest.approx(0.8)


def test_of_many_steps_some_from_all_over_are_folded(monkeypatch):
    """The first half of the steps works at half the level: 40 of 400 show as much of it as all do."""
    samples, starts = program([(1.0, MATRIX)], step_s=0.02, steps=400, period_ms=1.0, windows=False)
    early = samples.start_ns < starts[200]
    monkeypatch.setattr("perfzero.series.fold.MOST_STEPS", 40)

    folded = fold(samples.with_columns({"tensor_active": np.where(early, 0.4, 0.8)}), starts)

    assert folded is not None
    assert folded.steps == 40
    assert np.median(folded.mean["tensor_active"]) == pytest.approx(0.6, abs=0.02)


def test_a_step_with_a_checkpoint_in_it_is_left_out():
    samples, starts = program(TRAINING, windows=False)
    longer = np.delete(starts, [10, 11, 30])

    folded = fold(samples, longer)

    assert folded is not None
    assert folded.left_out == 2
    assert folded.step_s == pytest.approx(0.027)


def test_a_missing_value_is_no_zero():
    samples, starts = program([(1.0, MATRIX)], windows=False)
    holes = np.where(np.arange(len(samples)) % 3 == 0, np.nan, samples.column("tensor_active"))

    folded = fold(samples.with_columns({"tensor_active": holes, "ce_active": holes * np.nan}), starts)

    assert folded is not None
    assert folded.mean["tensor_active"] == pytest.approx(np.full(64, 0.8))
    assert "ce_active" not in folded.mean


def test_a_handful_of_steps_is_not_folded():
    samples, starts = program(TRAINING, steps=7)

    assert fold(samples, starts) is None
    assert fold(samples, starts[:0]) is None
    assert fold(Samples.empty(), starts) is None


def test_the_phases_of_a_step_are_found_where_they_were_put():
    found = phases(folded_of(TRAINING, noise=0.02), dram_roof=DRAM_ROOF, pcie_roof=PCIE_ROOF)

    assert [phase.label for phase in found] == ["idle", "copy", "matrix", "memory", "update"]
    assert [phase.start for phase in found] == pytest.approx([0, 0.15, 0.2, 0.6, 0.8], abs=0.025)
    assert sum(phase.share for phase in found) == pytest.approx(1.0)
    assert found[2].levels["tensor_active"] == pytest.approx(0.8, rel=0.1)


def test_an_optimizer_that_launches_each_tensor_alone_is_an_update():
    found = phases(
        folded_of([(0.7, MATRIX), (0.3, LAUNCHES)], noise=0.02), dram_roof=DRAM_ROOF, pcie_roof=PCIE_ROOF
    )

    assert [phase.label for phase in found] == ["matrix", "update"]


def test_a_program_that_only_launches_has_no_update():
    found = phases(folded_of([(1.0, LAUNCHES)], noise=0.02), dram_roof=DRAM_ROOF, pcie_roof=PCIE_ROOF)

    assert [phase.label for phase in found] == ["launches"]


def test_what_comes_twice_a_step_is_no_update():
    parts = [(0.4, MATRIX), (0.1, UPDATE), (0.4, MATRIX), (0.1, UPDATE)]
    found = phases(folded_of(parts, noise=0.02), dram_roof=DRAM_ROOF, pcie_roof=PCIE_ROOF)

    assert [phase.label for phase in found] == ["matrix", "memory", "matrix", "memory"]


def test_weights_that_are_read_over_and_over_are_no_update():
    parts = [(0.7, MATRIX), (0.3, MEMORY)]
    found = phases(folded_of(parts, noise=0.02), dram_roof=DRAM_ROOF, pcie_roof=PCIE_ROOF)

    assert [phase.label for phase in found] == ["matrix", "memory"]


def test_a_constant_load_is_one_phase():
    found = phases(folded_of([(1.0, MATRIX)], noise=0.08), dram_roof=DRAM_ROOF, pcie_roof=PCIE_ROOF)

    assert [(phase.label, phase.share) for phase in found] == [("matrix", 1.0)]


def test_noise_is_not_cut_into_phases():
    """Ten steps with 60 % of noise, just above the limit of matrix work: all of it is one phase."""
    steady = [(1.0, {**MATRIX, "tensor_active": 0.43})]
    folded = folded_of(steady, step_s=0.128, period_ms=1.0, steps=10, noise=0.6, windows=False)

    assert len(phases(folded, dram_roof=DRAM_ROOF, pcie_roof=PCIE_ROOF)) == 1


def test_without_activity_there_are_no_phases():
    samples, starts = program(TRAINING)
    folded = fold(Samples(samples.start_ns, samples.end_ns, {"launches": samples.column("launches")}), starts)

    assert folded is not None
    assert phases(folded) == ()


def phase_success(*, trials: int, jitter: float, noise: float, steps: int, step_s: float = 0.027) -> float:
    """How often five phases come out with the right names and edges within 3 % of the step."""
    right = 0
    for seed in range(trials):
        folded = folded_of(TRAINING, jitter=jitter, noise=noise, steps=steps, step_s=step_s, seed=seed)
        found = phases(folded, dram_roof=DRAM_ROOF, pcie_roof=PCIE_ROOF)
        names = [phase.label for phase in found]
        edges = np.array([phase.start for phase in found])
        right += names == ["idle", "copy", "matrix", "memory", "update"] and bool(
            np.abs(edges - [0, 0.15, 0.2, 0.6, 0.8]).max() <= 0.03
        )
    return right / trials


@pytest.mark.parametrize(("jitter", "noise"), [(0.0, 0.0), (0.05, 0.08), (0.15, 0.08)])
def test_phases_come_out_right_in_spite_of_jitter_and_noise(jitter, noise):
    assert phase_success(trials=15, jitter=jitter, noise=noise, steps=60) >= 0.9
