"""The arithmetic of the benchmarks, on data whose answer is known."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import random
import sys
import time
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from perfzero.store.writer import RecordingWriter
from perfzero.values import Gpu, Process, Samples

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SECOND = 1_000_000_000
MS = 1_000_000
H200 = Gpu(0, "GPU-0", "NVIDIA H200", compute_capability=(9, 0), sm_count=132)


def load(monkeypatch: pytest.MonkeyPatch, path: str) -> ModuleType:
    """The script benchmarks/*path*, under a name of its own, with its folder on the path."""
    file = BENCHMARKS / path
    for folder in (file.parent, BENCHMARKS.parent / "tools"):
        monkeypatch.syspath_prepend(str(folder))
    name = "benchmark_" + path.replace("/", "_").removesuffix(".py")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    for imported in ("known", "checkout", "estimate", "session"):
        sys.modules.pop(imported, None)
    return module


@pytest.fixture
def estimate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load(monkeypatch, "overhead/estimate.py")


@pytest.fixture
def accuracy(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load(monkeypatch, "accuracy/run.py")


# --- overhead --------------------------------------------------------------------------------


def steps_of(lengths_ms: np.ndarray) -> np.ndarray:
    rows = np.empty(len(lengths_ms), [("end_ns", "<i8"), ("ms", "<f8")])
    rows["end_ns"], rows["ms"] = np.cumsum((lengths_ms * MS).astype(np.int64)), lengths_ms
    return rows


def alternating(estimate: ModuleType, *, slower: float, drift: float = 0.0, noise: float = 0.0):
    """Steps of 10 ms in blocks of 2 s; those of "sampling" are *slower* by this ratio. Groups run ABBA."""
    rng = np.random.default_rng(1)
    lengths, blocks, now = [], [], 0.0
    for group in range(10):
        order = ["sampling", "bare"] if group % 2 == 0 else ["bare", "sampling"]
        for treatment in order:
            begin = now
            while now < begin + 2.0:
                level = 10 * (1 + drift * now) * (1 + (slower if treatment == "sampling" else 0))
                lengths.append(level * (1 + noise * rng.standard_normal()))
                now += lengths[-1] / 1e3
            blocks.append(estimate.Block(group, treatment, int(begin * SECOND), int(now * SECOND)))
    return steps_of(np.array(lengths)), blocks


def test_a_slowdown_is_found_as_large_as_it_was_made(estimate: ModuleType) -> None:
    steps, blocks = alternating(estimate, slower=0.004, noise=0.01)
    found = estimate.slowdown(steps, blocks, treatment="sampling", rng=np.random.default_rng(0))

    assert found.n == 10
    assert found.low < 0.004 < found.high
    assert found.high - found.low < 0.004


def test_no_slowdown_is_none_with_zero_in_the_interval(estimate: ModuleType) -> None:
    steps, blocks = alternating(estimate, slower=0.0, noise=0.01)
    found = estimate.slowdown(steps, blocks, treatment="sampling", rng=np.random.default_rng(0))

    assert found.low < 0 < found.high


def test_a_drift_is_not_taken_for_a_slowdown(estimate: ModuleType) -> None:
    """The program itself becomes 1 % slower over the whole run."""
    steps, blocks = alternating(estimate, slower=0.0, drift=0.01 / 40)
    found = estimate.slowdown(steps, blocks, treatment="sampling", rng=np.random.default_rng(0))

    assert abs(found.value) < 2e-5


def test_a_treatment_that_was_never_given_has_no_estimate(estimate: ModuleType) -> None:
    steps, blocks = alternating(estimate, slower=0.1)
    found = estimate.slowdown(steps, blocks, treatment="open", rng=np.random.default_rng(0))

    assert found.n == 0
    assert math.isnan(found.value)


def test_the_time_lost_to_a_cycle_is_found(estimate: ModuleType) -> None:
    """Steps of 1 ms; each of five cycles stretches two of them by 4 ms."""
    lengths = np.ones(10_000)
    cycles = []
    for first in range(1000, 6000, 1000):
        lengths[[first + 10, first + 300]] += 4
        start = int(lengths[:first].sum() * MS)
        cycles.append((start, start + 500 * MS))
    losses = estimate.cycle_losses(steps_of(lengths), cycles)

    assert losses == pytest.approx(np.full(5, 0.008))


def test_cycles_that_stall_nothing_cost_nothing(estimate: ModuleType) -> None:
    cycles = [(start * SECOND, start * SECOND + SECOND // 2) for start in (1, 2, 3)]

    assert estimate.cycle_losses(steps_of(np.ones(5_000)), cycles) == pytest.approx(np.zeros(3))


def test_without_a_quiet_stretch_no_loss_is_claimed(estimate: ModuleType) -> None:
    assert np.isnan(estimate.cycle_losses(steps_of(np.ones(2_000)), [(0, 2 * SECOND)])).all()


def test_the_policy_pays_for_its_duty_and_its_openings(estimate: ModuleType) -> None:
    exactly = {
        name: estimate.bootstrap(np.array([value, value]), rng=np.random.default_rng(0))
        for name, value in (("sampling", 0.004), ("open", 0.002), ("cycle", 0.009))
    }
    found = estimate.policy_cost(exactly, sampling_share=0.1, open_share=0.6, sessions=3, run_s=300)

    assert found.value == pytest.approx(0.1 * 0.004 + 0.5 * 0.002 + 3 * 0.009 / 300)
    assert found.low == pytest.approx(found.high)


def test_the_plan_of_the_default_policy_is_the_products_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 10 % sampled, in few sessions, where nothing holds it back; rare, short ones at the cap."""
    session = load(monkeypatch, "overhead/session.py")
    free, capped = session.plan_of(capped=False, run_s=300), session.plan_of(capped=True, run_s=300)

    assert 0.03 < free.sampling_share <= 0.1
    assert free.open_share > 0.9
    assert free.sessions <= 4
    assert capped.open_share < 0.05
    assert 4 <= capped.sessions <= 9


def test_a_log_cut_in_the_middle_of_a_row_is_read_to_its_last_whole_one(
    estimate: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "steps").write_bytes(steps_of(np.ones(3)).tobytes()[:-5])

    assert estimate.read_steps(tmp_path / "steps")["ms"].tolist() == [1.0, 1.0]


class Recorder:
    """Stands in for a session: notes what it is told, and refuses what makes no sense."""

    def __init__(self) -> None:
        self.state, self.told = "none", []

    def _tell(self, verb: str, *, before: str, after: str) -> None:
        assert self.state == before, f"{verb} while {self.state}"
        self.state = after
        self.told.append(verb)

    def open(self) -> None:
        self._tell("open", before="none", after="open")

    def start(self) -> None:
        self._tell("start", before="open", after="sampling")

    def stop(self) -> None:
        self._tell("stop", before="sampling", after="open")

    def close(self) -> None:
        self._tell("close", before="open", after="none")


class NoCap:
    def look(self) -> None: ...


def test_treatments_alternate_forwards_and_backwards_and_end_bare(monkeypatch: pytest.MonkeyPatch) -> None:
    run = load(monkeypatch, "overhead/run.py")
    monkeypatch.setattr(run, "GUARD_S", 0.0)
    session = Recorder()
    plan = run.Plan(groups=6, block_s=0.002)
    far = time.monotonic() + 100
    blocks = list(run.alternate(session, NoCap(), plan=plan, rng=random.Random(3), until=far))
    orders = [[b.treatment for b in blocks if b.group == group] for group in range(6)]

    assert session.state == "none"
    assert session.told.count("open") == session.told.count("close") > 1
    assert all(sorted(order) == ["bare", "open", "sampling"] for order in orders)
    assert all(orders[i] == orders[i + 1][::-1] for i in (0, 2, 4))
    assert all(a.end_ns <= b.start_ns for a, b in itertools.pairwise(blocks))


def test_no_block_is_begun_without_time_for_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    run = load(monkeypatch, "overhead/run.py")
    session = Recorder()
    soon = time.monotonic() + 1
    blocks = run.alternate(session, NoCap(), plan=run.Plan(), rng=random.Random(3), until=soon)

    assert (list(blocks), session.told) == ([], [])


def test_five_minutes_are_the_short_run_its_quiet_rate_and_the_windows_to_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    overhead = load(monkeypatch, "overhead/run.py")
    short = {"wall_s": 60.0, "total_s": 3.0, "quiet_share": 0.005}

    share = overhead.five_minutes(short, 0.3, planned=4)

    assert share == pytest.approx((3.0 + 240 * 0.005 + 4 * 0.3) / 300)


# --- accuracy --------------------------------------------------------------------------------


def burst_of(case: str, **amounts: float) -> dict:
    return {"case": case, "start_ns": SECOND, "end_ns": 2 * SECOND, "count": 1, "amounts": amounts}


def sampled(**columns: float) -> Samples:
    """Samples of 1 ms over three seconds; the columns hold their value in the second one, else 0."""
    start = np.arange(3000, dtype=np.int64) * MS
    busy = (start >= SECOND) & (start < 2 * SECOND)
    return Samples(start, start + MS, {name: np.where(busy, value, 0.0) for name, value in columns.items()})


def test_totals_that_agree_give_a_ratio_of_one(accuracy: ModuleType) -> None:
    [row] = accuracy.compare(
        [burst_of("copy", dram_read_bytes=5e9)] * 3,
        samples=sampled(dram_read_bytes=5e6),
        gpu=H200,
        payload=256,
    )

    assert (row.ratio, row.interval, row.repeats) == (pytest.approx(1.0), pytest.approx(0.0), 3)
    assert row.ok


def test_lost_samples_show_as_a_ratio_that_fails(accuracy: ModuleType) -> None:
    samples = sampled(launches=20.0)
    kept = samples.where(np.arange(3000) % 20 != 0)
    [row] = accuracy.compare([burst_of("launches", launches=20_000)], samples=kept, gpu=H200, payload=256)

    assert row.ratio == pytest.approx(0.95)
    assert not row.ok


def test_a_missing_value_in_the_burst_is_no_agreement(accuracy: ModuleType) -> None:
    samples = sampled(launches=20.0)
    samples.columns["launches"][1500] = np.nan
    [row] = accuracy.compare([burst_of("launches", launches=20_000)], samples=samples, gpu=H200, payload=256)

    assert math.isnan(row.ratio)
    assert not row.ok


def test_headers_explain_what_pcie_counts_beyond_the_payload(accuracy: ModuleType) -> None:
    """1.047 was measured from host to device: 12 bytes of header on 256."""
    [row] = accuracy.compare(
        [burst_of("h2d", pcie_rx_bytes=1e9)], samples=sampled(pcie_rx_bytes=1.047e6), gpu=H200, payload=256
    )

    assert row.raw == pytest.approx(1.047)
    assert row.ratio == pytest.approx(1.0, abs=2e-4)
    assert row.ok


def test_flops_follow_from_tensor_activity_and_the_measured_clock(accuracy: ModuleType) -> None:
    """Half of all cycles of 132 SMs at 1.5 GHz, for one second, at 4096 FLOP each."""
    [row] = accuracy.compare(
        [burst_of("product", flops=0.5 * 1.5e9 * 132 * 4096)],
        samples=sampled(tensor_active=0.5, gpc_clock=1.5e9),
        gpu=H200,
        payload=256,
    )

    assert row.ratio == pytest.approx(1.0)


def test_the_interval_over_repeats_is_students(accuracy: ModuleType) -> None:
    mean, interval = accuracy.mean_and_interval([1.0, 2.0, 3.0])

    assert mean == 2.0
    assert interval == pytest.approx(4.303 / math.sqrt(3))
    assert math.isnan(accuracy.mean_and_interval([1.0])[1])


def config_space(capability: bytes) -> bytes:
    space = bytearray(256)
    space[0x34] = 0x60
    space[0x60:0x62] = bytes([0x05, 0x78])  # MSI, then the next capability
    space[0x78 : 0x78 + len(capability)] = capability
    return bytes(space)


def test_the_maximal_payload_is_read_from_device_control(accuracy: ModuleType) -> None:
    """Bits 7 to 5 of Device Control hold the exponent: 1 is 256 bytes, 2 is 512."""
    pcie = bytes([0x10, 0, 0, 0, 0, 0, 0, 0, 0b0011_0111, 0])

    assert accuracy.payload_of(config_space(pcie)) == 256
    assert accuracy.payload_of(config_space(pcie[:8] + bytes([0b0101_0000, 0]))) == 512


@pytest.mark.parametrize("config", [b"", bytes(64), bytes(256), config_space(bytes([0x05, 0x60]))])
def test_a_configuration_without_the_capability_has_no_payload(accuracy: ModuleType, config: bytes) -> None:
    """Cut short for an unprivileged reader, empty, or a chain that runs in circles."""
    assert accuracy.payload_of(config) is None


def test_a_recording_is_evaluated_from_its_folder(accuracy: ModuleType, tmp_path: Path, capsys) -> None:
    """One case is true, one is off by half: both rows are written, and the exit code says that one failed."""
    with RecordingWriter(
        tmp_path / "r", gpus=[H200], process=Process(), settings={}, tiers={0: "pm"}, tier_reasons={}
    ) as writer:
        writer.append("pm", 0, sampled(launches=20.0, dram_read_bytes=5e6))
    bursts = [burst_of("launches", launches=20_000), burst_of("copy", dram_read_bytes=1e10)]
    log = tmp_path / "bursts.jsonl"
    log.write_text("".join(json.dumps(burst) + "\n" for burst in bursts))
    code = accuracy.main(
        ["--from-recording", str(tmp_path / "r"), "--log", str(log), "--out", str(tmp_path / "out")]
    )

    rows = json.loads((tmp_path / "out" / "accuracy.json").read_text())["rows"]
    assert code == 1
    assert [(row["case"], row["ok"]) for row in rows] == [("launches", True), ("copy", False)]
    assert rows[1]["raw"] == pytest.approx(0.5)
    assert "FAIL" in capsys.readouterr().out


def test_a_burst_from_before_the_first_sample_is_left_out(accuracy: ModuleType) -> None:
    early = {**burst_of("launches", launches=20_000), "start_ns": -5 * SECOND, "end_ns": -4 * SECOND}
    rows = accuracy.compare(
        [early, burst_of("launches", launches=20_000)],
        samples=sampled(launches=20.0),
        gpu=H200,
        payload=256,
    )

    assert [row.repeats for row in rows] == [1]
