"""Prefill is told from decode, and what is no server is not called one."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from perfzero.series.serving import _viterbi, find_serving
from perfzero.sources.synthetic import Phase, observe
from perfzero.values import Samples

START = 1_700_000_000_000_000_000
ROOF = 4.2e12
PERIOD_S = 0.002

PREFILL = {"gr_active": 1.0, "tensor_active": 0.6, "dram_read_bytes": 0.9e12, "dram_write_bytes": 0.2e12}
DECODE = {"gr_active": 1.0, "tensor_active": 0.06, "dram_read_bytes": 2.9e12, "dram_write_bytes": 0.05e12}
NOTHING = {"gr_active": 0.0}
OPTIMIZER = {"gr_active": 1.0, "tensor_active": 0.0, "dram_read_bytes": 1.5e12, "dram_write_bytes": 1.1e12}
COLUMNS = tuple(PREFILL)


def server(
    seed=0,
    *,
    seconds=8.0,
    noise=0.08,
    prefill_s=0.04,
    decode_s=0.12,
    idle_s=0.0,
    prefill=PREFILL,
    decode=DECODE,
    period_s=0.002,
) -> tuple[Samples, float, int]:
    """Samples of a server whose runs have exponential lengths; with the true prefill share and changes."""
    rng = np.random.default_rng(seed)
    knots, levels, changes = [0.0], [], 0
    while knots[-1] < seconds:
        for level, mean in ((prefill, prefill_s), (decode, decode_s), (NOTHING, idle_s)):
            if mean > 0:
                knots.append(knots[-1] + 0.3 * mean + 0.7 * rng.exponential(mean))
                levels.append(level)
                changes += level is not NOTHING and knots[-1] < seconds
    edges = PERIOD_S * np.arange(int(seconds / PERIOD_S) + 1)
    length = np.diff(np.minimum(knots, seconds))
    columns = {}
    for name in COLUMNS:
        integral = np.r_[0.0, np.cumsum([level.get(name, 0.0) for level in levels] * np.diff(knots))]
        value = np.diff(np.interp(edges, knots, integral))
        value = value / PERIOD_S if name.endswith("active") else value
        columns[name] = np.maximum(value * (1 + noise * rng.standard_normal(len(value))), 0.0)
    columns["gr_active"] = np.minimum(columns["gr_active"], 1.0)
    begin = START + np.round(edges * 1e9).astype(np.int64)
    share = sum(part for part, level in zip(length, levels, strict=True) if level is prefill) / seconds
    return Samples(begin[:-1], begin[1:], columns), share, changes


def test_prefill_and_decode_get_their_shares():
    samples, prefill, changes = server(seconds=20)

    found = find_serving(samples, dram_roof=ROOF)

    assert found is not None
    assert found.prefill_share == pytest.approx(prefill, abs=0.01)
    assert found.decode_share == pytest.approx(1 - prefill, abs=0.01)
    assert found.alternations == pytest.approx(changes, rel=0.05)


def test_states_learnt_from_some_blocks_are_those_of_the_whole(monkeypatch):
    samples, prefill, changes = server(seconds=60, idle_s=0.05)
    whole = find_serving(samples, dram_roof=ROOF)
    monkeypatch.setattr("perfzero.series.serving.LEARNT_FROM", 6_000)

    found = find_serving(samples, dram_roof=ROOF)

    assert found is not None
    assert whole is not None
    assert found.prefill_share == pytest.approx(whole.prefill_share, abs=0.002)
    assert found.prefill_share == pytest.approx(prefill, abs=0.01)
    assert found.alternations == pytest.approx(changes, rel=0.05)


def test_a_server_that_waits_for_requests_is_idle_in_between():
    samples, prefill, _ = server(seconds=20, idle_s=0.1)

    found = find_serving(samples)

    assert found is not None
    assert found.idle_share == pytest.approx(0.1 / 0.26, abs=0.06)
    assert found.prefill_share == pytest.approx(prefill, abs=0.02)
    assert found.prefill_share + found.decode_share + found.idle_share == pytest.approx(1.0)


def test_training_is_no_server_though_it_alternates():
    samples, _, _ = server(decode=OPTIMIZER, decode_s=0.02, prefill_s=0.1)

    assert find_serving(samples, dram_roof=ROOF) is None


@pytest.mark.parametrize("level", [PREFILL, DECODE])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_one_kind_of_work_alone_is_no_server(level, noise):
    assert find_serving(observe([Phase(1.0, level)], noise=noise).pm, dram_roof=ROOF) is None


def test_an_idle_gpu_is_no_server():
    assert find_serving(observe([Phase(1.0)]).pm) is None
    assert find_serving(Samples.empty()) is None


def test_a_single_change_of_work_is_no_server():
    """Two jobs one after the other."""
    samples, _, _ = server(seconds=8, prefill_s=4.0, decode_s=8.0)

    assert find_serving(samples) is None


@pytest.mark.parametrize("draw", ["normal", "uniform"])
def test_one_broad_state_is_not_cut_in_two(draw):
    """Where the tensor cores do more the memory does less, in a single cloud of samples."""
    rng = np.random.default_rng(8)
    where = rng.standard_normal(4000) / 2 if draw == "normal" else rng.uniform(-1, 1, 4000)
    start = START + 2_000_000 * np.arange(4000)
    values = {
        "gr_active": np.ones(4000),
        "tensor_active": np.maximum(0.35 + 0.25 * where, 0),
        "dram_read_bytes": 3e9 * (1 - 0.5 * where),
        "dram_write_bytes": np.zeros(4000),
    }

    assert find_serving(Samples(start, start + 2_000_000, values)) is None


def test_states_that_both_leave_the_tensor_cores_alone_are_no_server():
    slow, slower = {**PREFILL, "tensor_active": 0.1}, {**DECODE, "tensor_active": 0.02}

    assert success(trials=3, noise=0.05, seconds=4, prefill=slow, decode=slower)[0] == 0


def test_a_pause_between_products_that_reads_nothing_is_no_decode():
    assert success(trials=3, noise=0.05, seconds=4, decode={**DECODE, "dram_read_bytes": 0.3e12})[0] == 0


def test_the_states_found_are_the_most_likely_ones_of_all():
    """Against all sequences of ten samples in two chains, of which each begins anew after a hole."""
    rng = np.random.default_rng(9)
    follows = np.array([False, *[True] * 5, False, *[True] * 3])
    every = np.array(list(product([0, 1], repeat=10)))
    for _ in range(50):
        density, stay = rng.normal(0, 1.5, (10, 2)), rng.uniform(0.5, 0.95, 2)
        stays = every[:, 1:] == every[:, :-1]
        changes = np.where(stays, np.log(stay)[every[:, :-1]], np.log(1 - stay)[every[:, :-1]])
        likely = density[np.arange(10), every].sum(axis=1) + (changes * follows[1:]).sum(axis=1)

        assert _viterbi(density, follows, stay).tolist() == every[np.argmax(likely)].astype(bool).tolist()


def test_a_change_across_a_hole_is_not_counted():
    """Seconds of one, seconds of the other, and windows of 50 ms: no window sees a change."""
    samples, _, _ = server(seconds=60, prefill_s=1.5, decode_s=1.5)
    at = (samples.start_ns - START) / 1e9
    found = find_serving(samples.where(at % 1.0 < 0.05))

    assert found is None


def test_without_write_counters_a_server_cannot_be_told_from_training():
    samples, _, _ = server()
    columns = {name: value for name, value in samples.columns.items() if name != "dram_write_bytes"}

    assert find_serving(Samples(samples.start_ns, samples.end_ns, columns)) is None


def hysteresis_changes(samples: Samples) -> int:
    """Alternations by two limits between the 10 % and 90 % quantiles of the tensor activity."""
    tensor = samples.column("tensor_active")
    low, high = np.quantile(tensor, [0.1, 0.9])
    up, down = low + 0.6 * (high - low), low + 0.4 * (high - low)
    state, changes = bool(tensor[0] > up), 0
    for value in tensor:
        if (state and value < down) or (not state and value > up):
            state, changes = not state, changes + 1
    return changes


def success(*, trials: int, noise: float, **arguments) -> tuple[float, float, float]:
    """How often shares come out within 0.03 and alternations within a fifth; and found over true changes."""
    right, ours, simple = 0, [], []
    for seed in range(trials):
        samples, prefill, changes = server(seed, noise=noise, **arguments)
        found = find_serving(samples, dram_roof=ROOF)
        simple.append(hysteresis_changes(samples) / changes)
        if found is None:
            continue
        ours.append(found.alternations / changes)
        right += abs(found.prefill_share - prefill) <= 0.03 and abs(ours[-1] - 1) <= 0.2
    return right / trials, float(np.mean(ours)) if ours else math.nan, float(np.mean(simple))


@pytest.mark.parametrize("noise", [0.08, 0.25])
def test_states_are_told_in_spite_of_noise(noise):
    right, found_changes, _ = success(trials=12, noise=noise, seconds=6)

    assert right >= 0.9
    assert found_changes == pytest.approx(1.0, abs=0.02)


def test_a_server_whose_decode_uses_tensor_cores_too_is_told():
    """Decode of large batches: tensor cores at a fifth."""
    batched = {**DECODE, "tensor_active": 0.2}

    right, found_changes, two_limits = success(trials=8, noise=0.2, seconds=6, decode=batched)

    assert right >= 0.9
    assert found_changes == pytest.approx(1.0, abs=0.05)
    assert two_limits > 1.2
