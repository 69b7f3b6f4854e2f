"""The arithmetic of the benchmarks, on data whose answer is known."""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from hand_written_look import Look
from perfzero.store.kineto import read_trace
from perfzero.store.reader import open_recording
from perfzero.store.stacks import read_stacks
from perfzero.store.writer import RecordingWriter
from perfzero.values import Cost, Gpu, Process, Samples, Window

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
    ours = "known checkout estimate session watched step_log programs loop decoder cases hold truth"
    for imported in ours.split():
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


def short_run(folder: Path, *kinds: str) -> Path:
    """A recording with a window of a second of each of *kinds*."""
    with RecordingWriter(
        folder, gpus=[H200], process=Process(), settings={}, tiers={0: "pm"}, tier_reasons={}
    ) as writer:
        for at, kind in enumerate(kinds):
            writer.window(Window(0, kind, at * SECOND, (at + 1) * SECOND, 2 * MS, 500, 0))
        writer.update(cost=Cost(45.0, 1.5, 3.0, 0.1, 2, None, None, None, ""))
    return folder


def test_a_short_run_is_evaluated_over_its_loop_and_its_quiet_end(monkeypatch, tmp_path: Path) -> None:
    """3 s of CPU before the loop, 1 s in its first half minute, then 0.2 % of a core; 0.5 s at the end."""
    overhead = load(monkeypatch, "overhead/run.py")
    curve = [(100.0 + t, 3.0 + min(t, 30) / 30 + max(0.0, t - 30) * 0.002) for t in range(45)]
    found = overhead.evaluated(
        curve, {1: 1.4, 2: 2.7}, recorder=1, seconds=40, folder=short_run(tmp_path / "r", "regular", "dense")
    )

    assert found["wall_s"] == 40
    assert found["quiet_share"] == pytest.approx(0.002)
    assert found["share"] == pytest.approx(1.02 / 40)
    assert found["sampled_share"] == pytest.approx(2 / 40)
    assert found["total_s"] == 4.5  # as the recorder itself counted: more than was seen from outside
    assert not found["capped"]


def test_a_run_without_a_dense_stretch_was_at_the_power_cap(monkeypatch, tmp_path: Path) -> None:
    overhead = load(monkeypatch, "overhead/run.py")
    folder = short_run(tmp_path / "r", "regular", "zoom")
    curve = [(float(t), 0.01 * t) for t in range(41)]

    assert overhead.evaluated(curve, {1: 9.0}, recorder=1, seconds=40, folder=folder)["capped"]


def test_the_worse_of_the_two_programs_counts(monkeypatch, tmp_path: Path) -> None:
    overhead = load(monkeypatch, "overhead/run.py")
    run = {"wall_s": 40.0, "total_s": 3.0, "quiet_share": 0.001, "share": 0.05, "sampled_share": 0.2}
    document = {
        "gpu": "g", "driver": "d", "programs": {}, "failures": {},
        "window_cpu_s": {"capped": 0.3, "uncapped": 0.05},
        "cpu": {
            "default, at the cap": {**run, "capped": True},
            "default, far from it": {**run, "capped": False, "total_s": 4.5},
            "continuous": {**run, "capped": False, "quiet_share": 0.08},
        },
    }  # fmt: skip
    text = overhead.save(document, out=tmp_path, work=tmp_path, seed=0)

    later = overhead.windows_after(40.0, run_s=300.0, capped=False)
    shares = {name: cpu["share_run"] for name, cpu in document["cpu"].items()}
    assert document["cpu_share_default_run"] == max(v for n, v in shares.items() if n != "continuous")
    assert shares["default, far from it"] == pytest.approx((4.5 + 260 * 0.001 + 0.05 * later) / 300)
    assert shares["continuous"] == pytest.approx((3.0 + 260 * 0.08) / 300)
    assert f"{shares['default, at the cap']:.2%} of a core" in text


def test_the_time_of_a_process_is_read_as_it_reads_its_own(monkeypatch) -> None:
    overhead = load(monkeypatch, "overhead/run.py")
    before, seen, after = time.process_time(), overhead.cpu_seconds(os.getpid()), time.process_time()

    assert before <= seen <= after
    with pytest.raises(OSError, match="Invalid argument"):
        overhead.cpu_seconds(2**22 + 1)  # above the highest process id


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
    samples = sampled(dram_read_bytes=20.0)
    samples.columns["dram_read_bytes"][1500] = np.nan
    [row] = accuracy.compare(
        [burst_of("copy", dram_read_bytes=20_000)], samples=samples, gpu=H200, payload=256
    )

    assert math.isnan(row.ratio)
    assert not row.ok


@pytest.mark.parametrize(("unknown", "ratio"), [([1500], 1.0), ([1200, 1500], 1.0), ([1500, 1501], math.nan)])
def test_launches_under_a_read_out_are_those_of_its_neighbours(
    accuracy: ModuleType, unknown: list[int], ratio: float
) -> None:
    samples = sampled(launches=20.0)
    samples.columns["launches"][unknown] = np.nan
    [row] = accuracy.compare([burst_of("launches", launches=20_000)], samples=samples, gpu=H200, payload=256)

    assert row.ratio == pytest.approx(ratio, nan_ok=True)


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


# --- what the benchmarks of the analysis share -----------------------------------------------


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load(monkeypatch, "watched.py")


FAKE = """
import json, os, sys
words = sys.argv[1:]
folder, command = words[words.index("-o") + 1], words[words.index("--") + 1 :]
if "autotuned" in command:
    sys.exit("no GPU")
os.mkdir(folder)
with open(command[command.index("--log") + 1], "w") as log:
    json.dump({"begun_ns": 0, "warm_ns": 4_000_000_000}, log)
steady = {"start_ns": 5_000_000_000, "end_ns": 9_000_000_000, "how": "stable"}
with open(os.path.join(folder, "report.json"), "w") as report:
    json.dump({"start_ns": 0, "gpus": [{"steady": steady}]}, report)
"""
"""Plays perfzero: the program is warm after 4 s, and 5 s are reported. One program fails."""


def test_a_program_that_fails_does_not_stop_the_others(monkeypatch, tmp_path: Path) -> None:
    """Nor does one for which no time is left; all three are in the results, and the exit code is 1."""
    warmup = load(monkeypatch, "warmup/run.py")
    monkeypatch.setattr(warmup.watched.checkout, "PERFZERO", (sys.executable, "-c", FAKE))

    assert warmup.main(["--out", str(tmp_path), "--only", "autotuned,compiled"]) == 1
    found = json.loads((tmp_path / "warmup.json").read_text())
    assert [(r["program"], r["error_s"], r["ok"]) for r in found["rows"]] == [("compiled", 1.0, True)]
    assert "no GPU" in found["failures"]["autotuned"]
    assert "autotuned               FAIL" in (tmp_path / "warmup.txt").read_text()
    assert warmup.main(["--out", str(tmp_path), "--only", "compiled"]) == 0
    assert warmup.main(["--out", str(tmp_path), "--only", "compiled", "--budget", "9"]) == 1
    assert "not run: out of time" in (tmp_path / "warmup.txt").read_text()


def test_a_program_that_does_not_exist_is_refused_with_those_that_do(monkeypatch, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        load(monkeypatch, "warmup/run.py").main(["--only", "hibernation"])

    assert ended.value.code == 2
    assert "no such program: hibernation. There are: compiled, autotuned" in capsys.readouterr().err


def test_children_are_ended_with_theirs_even_if_stopped(watched: ModuleType, tmp_path: Path) -> None:
    program = "import subprocess as s; p = s.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"
    log = tmp_path / "log"
    with watched.child(["python3", "-c", program], log=log) as process:
        while not log.read_text().endswith("\n"):
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGSTOP)
        begun = time.monotonic()

    assert process.poll() is not None
    assert time.monotonic() - begun < 5
    assert gone(int(log.read_text()))


def gone(pid: int) -> bool:
    """Whether the process ends within 5 s; one that is dead but not yet waited for counts as gone."""
    for _ in range(500):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def test_a_benchmark_that_is_terminated_takes_its_program_along(tmp_path: Path) -> None:
    told = str(tmp_path / "pid")
    program = f"import os, time; open({told!r}, 'w').write(f'{{os.getpid()}} '); time.sleep(60)"
    runner = (
        f"import sys; sys.path.insert(0, {str(BENCHMARKS / 'warmup')!r}); import run\n"
        f"run.watched.checkout.PERFZERO = ('python3', '-c', {program!r})\n"
        f"run.main(['--out', {str(tmp_path)!r}, '--only', 'compiled'])"
    )
    process = subprocess.Popen([sys.executable, "-c", runner], stdout=subprocess.DEVNULL)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().endswith(" "):
        time.sleep(0.02)
    process.terminate()

    assert process.wait(15) == 128 + signal.SIGTERM
    assert gone(int((tmp_path / "pid").read_text()))


# --- warm-up ---------------------------------------------------------------------------------


def judged(start_s: float, end_s: float, *, how: str) -> dict:
    steady = {"start_ns": round(start_s * SECOND), "end_ns": round(end_s * SECOND), "how": how}
    return {"steady": steady, "recording_start_ns": 0}


@pytest.mark.parametrize(
    ("found_s", "how", "ok"),
    [
        (13.9, "stable", True),
        (10.1, "fallback", True),
        (14.1, "stable", False),
        (9.9, "stable", False),
        (12, "none", False),
    ],
)
def test_the_end_of_warm_up_may_be_two_seconds_off(monkeypatch, found_s: float, how: str, ok: bool) -> None:
    warmup = load(monkeypatch, "warmup/run.py")
    truth = {"begun_ns": 5 * SECOND, "warm_ns": 12 * SECOND}
    row = warmup.compare("compiled", judged(found_s, 30, how=how), truth)

    assert (row.warm_up_s, row.truth_s) == (7, 12)
    assert row.error_s == pytest.approx(found_s - 12)
    assert row.ok == ok


# --- gains -----------------------------------------------------------------------------------


def told(rule: str | None, **time_: float) -> dict:
    def gain(low: float, high: float) -> dict:
        return {"low": low, "high": high, "assumption": ""}

    remedies = [{"text": "Allow TF32.", "gain": gain(3, 7)}, {"text": "Run it in bfloat16.", "gain": None}]
    verdict = {"rule": rule, "gain": gain(2, 9), "remedies": remedies, "next_limit": "the tensor cores"}
    return {"verdict": verdict if rule else None, "time": time_}


def test_a_promise_is_the_remedys_own_or_else_the_verdicts(monkeypatch) -> None:
    promise_of = load(monkeypatch, "gains/run.py").promise_of
    own, shared = (promise_of(told("fp32_path"), words) for words in ("TF32", "bfloat16"))

    assert (own.named, own.low, own.high, own.next_limit) == (True, 3, 7, "the tensor cores")
    assert (shared.named, shared.low, shared.high) == (True, 2, 9)


def test_a_fix_that_is_not_named_was_not_promised(monkeypatch) -> None:
    gains = load(monkeypatch, "gains/run.py")
    other, nothing = gains.promise_of(told("fp32_path"), "CUDA graph"), gains.promise_of(told(None), "TF32")
    row = gains.Row("x", other, 4.0, (4.0, 4.0), (1.0, 1.0), None, ())

    assert (other.named, nothing.named, nothing.low) == (False, False, None)
    assert (row.inside, row.ok) == (True, False)
    assert not gains.Row("x", nothing, 4.0, (4.0,), (1.0,), None, ()).inside


@pytest.mark.parametrize(
    ("fixed_ms", "inside"),
    [((5.0, 5.0), True), ((2.5, 3.0), False), ((9.0, 15.0), False), ((2.0, 8.0), True)],
)
def test_the_gain_achieved_is_that_over_the_steps_that_were_watched(
    monkeypatch, fixed_ms: tuple[float, ...], inside: bool
) -> None:
    """However fast the host has become since: 3 to 7 times were promised of steps of 20 ms."""
    gains = load(monkeypatch, "gains/run.py")
    promise = gains.promise_of(told("fp32_path"), "TF32")
    row = gains.Row("fp32_gemm", promise, 20.0, (30.0, 34.0), fixed_ms, None, ())

    assert row.inside == inside
    assert (row.gain, row.pace) == (pytest.approx(20.0 / np.mean(fixed_ms)), pytest.approx(1.6))


def test_a_report_without_the_programs_own_step_is_not_known(monkeypatch, tmp_path: Path) -> None:
    gains = load(monkeypatch, "gains/run.py")
    (tmp_path / "fp32_gemm").mkdir()
    (tmp_path / "fp32_gemm" / "report.json").write_text(json.dumps({"gpus": [told("fp32_path")]}))

    assert gains.known("fp32_gemm", tmp_path) is None
    (tmp_path / "fp32_gemm" / "own_step.json").write_text('{"step_ms": 2.7}')
    assert gains.known("fp32_gemm", tmp_path) == (told("fp32_path"), 2.7)
    (tmp_path / "fp32_gemm" / "own_step.json").write_text('{"step_ms": null}')
    assert gains.known("fp32_gemm", tmp_path) is None
    assert gains.known("tiny_kernels", tmp_path) is None


def test_the_limit_met_is_the_largest_part_of_the_time_or_what_the_verdict_names(
    monkeypatch,
) -> None:
    gains = load(monkeypatch, "gains/run.py")

    assert gains.limits_of(told("well_used", tensor=0.7, idle=0.3)) == ("the tensor cores",)
    assert gains.limits_of(told("transfer_bound", idle=0.6, memory=0.4)) == ("the host", "the PCIe link")
    assert gains.limits_of(told(None)) == ()


def test_each_turn_has_the_mean_of_the_steps_in_it(monkeypatch) -> None:
    """The fixed program's steps are half as long; a step that began before its turn does not count."""
    gains = load(monkeypatch, "gains/run.py")
    before, after = steps_of(np.full(100, 20.0)), steps_of(np.array([900.0] + [10.0] * 100))
    turns = [(0, 0, SECOND), (1, 500 * MS, 2 * SECOND), (1, SECOND, 2 * SECOND), (0, SECOND, 2 * SECOND)]

    assert gains.means_of([before, after], turns) == (
        pytest.approx((20.0, 20.0)),
        pytest.approx((10.0, 10.0)),
    )
    with pytest.raises(ValueError, match="no step of the fixed program"):
        gains.means_of([before, after], [(1, 0, 500 * MS)])


LOGS_STEPS = """
import struct, sys, time
log, length = open(sys.argv[sys.argv.index("--log") + 1], "wb", buffering=0), float(sys.argv[1])
while True:
    begun = time.perf_counter()
    time.sleep(length)
    log.write(struct.pack("<qd", time.time_ns(), (time.perf_counter() - begun) * 1e3))
"""


def test_two_programs_take_turns_and_are_ended(monkeypatch, tmp_path: Path) -> None:
    """Steps of 40 and 10 ms, each while the other program is stopped; afterwards nobody logs any more."""
    gains = load(monkeypatch, "gains/run.py")
    monkeypatch.setattr(gains, "TURN_S", 0.5)
    monkeypatch.setattr(gains, "SETTLE_S", 0.1)
    base, fixed = (["python3", "-c", LOGS_STEPS, str(length)] for length in (0.040, 0.010))
    found = gains.in_turns(base, fixed, folder=tmp_path)

    assert [len(turns) for turns in found] == [2, 2]
    assert all(2 < before / fixed < 5 for before, fixed in zip(*found, strict=True))
    sizes = {path: path.stat().st_size for path in tmp_path.glob("*.steps")}
    pauses = {path.stem: np.diff(gains.step_log.read_steps(path)["end_ns"]).max() / 1e9 for path in sizes}
    assert pauses["base"] > 0.8
    assert pauses["fixed"] > 0.4
    time.sleep(0.1)
    assert {path: path.stat().st_size for path in sizes} == sizes


def test_a_program_without_steps_is_an_error_that_says_what_it_printed(monkeypatch, tmp_path: Path) -> None:
    gains = load(monkeypatch, "gains/run.py")
    broken = ["python3", "-c", "raise SystemExit('no GPU here')"]

    with pytest.raises(RuntimeError, match="no GPU here"):
        gains.in_turns(broken, broken, folder=tmp_path)


def test_every_pair_is_a_case_with_that_fix(monkeypatch) -> None:
    zoo = BENCHMARKS.parent / "zoo"
    gains = load(monkeypatch, "gains/run.py")
    for name, pair in gains.PAIRS.items():
        program = Path(*gains.program_of(name)[1:2])

        assert all(
            f'"{word}"' in (zoo / program.name).read_text() for word in pair.fix if word.startswith("--")
        )
        if pair.after is not None:
            assert gains.program_of(pair.after) == [*gains.program_of(name), *pair.fix]


def test_what_a_report_tells_is_not_measured_again(monkeypatch, tmp_path: Path) -> None:
    """One that is not there is; the program after the fix is no case of the zoo, so it is watched as well."""
    gains = load(monkeypatch, "gains/run.py")
    (tmp_path / "fp32_gemm").mkdir()
    (tmp_path / "fp32_gemm" / "report.json").write_text(json.dumps({"gpus": [told("fp32_path")]}))
    (tmp_path / "fp32_gemm" / "own_step.json").write_text('{"step_ms": 9.0}')
    commands: list[list[str]] = []

    def watch(command: list[str], **_: object) -> dict:
        commands.append(command)
        return {**told("well_used", tensor=0.9), "steady": {"start_ns": SECOND, "end_ns": 3 * SECOND}}

    monkeypatch.setattr(gains.watched, "watch", watch)
    monkeypatch.setattr(gains, "in_turns", lambda *_, **__: ((9.0, 9.3), (3.0, 3.1)))
    row = gains.measure("fp32_gemm", tmp_path / "w", argparse.Namespace(reports=tmp_path, seconds=14.0))

    assert (row.promise.verdict, row.watched_ms, row.after) == ("fp32_path", 9.0, "well_used")
    assert commands == [["python3", "zoo/fp32_gemm.py", "--tf32", "--seconds", "14.0"]]

    (tmp_path / "fp32_gemm-before.steps").write_bytes(steps_of(np.r_[[40.0] * 25, [8.0] * 300]).tobytes())
    row = gains.measure("fp32_gemm", tmp_path / "fp32_gemm", argparse.Namespace(reports=None, seconds=14.0))
    assert row.watched_ms == pytest.approx(8.0)
    log = str(tmp_path / "fp32_gemm-before.steps")
    assert commands[1:] == [["python3", "zoo/fp32_gemm.py", "--seconds", "14.0", "--log", log], commands[0]]


def test_the_time_a_pair_needs_is_that_of_what_no_report_tells(monkeypatch, tmp_path: Path) -> None:
    """The fixed tiny_kernels is a case of the zoo as well, the fixed fp32_gemm is none."""
    gains = load(monkeypatch, "gains/run.py")
    for case in ("fp32_gemm", "tiny_kernels", "tiny_kernels_graph"):
        (tmp_path / case).mkdir()
        (tmp_path / case / "report.json").write_text(json.dumps({"gpus": [told("fp32_path")]}))
        (tmp_path / case / "own_step.json").write_text('{"step_ms": 9.0}')

    def needed_s(name: str, reports: Path | None) -> float:
        return gains.needed_s(name, argparse.Namespace(reports=reports, seconds=14.0))

    assert needed_s("fp32_gemm", None) == needed_s("tiny_kernels", None) == 88
    assert needed_s("fp32_gemm", tmp_path) == 60
    assert needed_s("tiny_kernels", tmp_path) == 32
    assert needed_s("pageable_copies", tmp_path) == 88


@pytest.mark.parametrize(("budget", "run"), [("87", False), ("89", True)])
def test_no_pair_is_begun_that_would_end_after_the_budget(
    monkeypatch, tmp_path: Path, budget: str, run: bool
) -> None:
    gains = load(monkeypatch, "gains/run.py")

    def watch(command: list[str], **_: object) -> dict:
        if "--log" in command:
            Path(command[-1]).write_bytes(steps_of(np.full(100, 20.0)).tobytes())
        return {**told("fp32_path", tensor=1.0), "steady": {"start_ns": 0, "end_ns": SECOND}}

    monkeypatch.setattr(gains.watched, "watch", watch)
    monkeypatch.setattr(gains, "in_turns", lambda *_, **__: ((20.0, 20.0), (5.0, 5.0)))

    assert gains.main(["--out", str(tmp_path), "--only", "fp32_gemm", "--budget", budget]) == (
        0 if run else 1
    )
    assert ("out of time" in (tmp_path / "gains.txt").read_text()) != run


def test_a_folder_of_reports_that_does_not_exist_is_refused(monkeypatch, tmp_path: Path, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        load(monkeypatch, "gains/run.py").main(["--reports", str(tmp_path / "none")])

    assert ended.value.code == 2
    assert f"argument --reports: there is no folder {tmp_path / 'none'}" in capsys.readouterr().err


# --- the look inside -------------------------------------------------------------------------


def test_the_time_lost_to_a_look_is_that_beyond_the_usual_steps(monkeypatch) -> None:
    """Ten steps of 100 ms; of the three that a look touches one took 600 and one 150 ms."""
    look = load(monkeypatch, "look/run.py")
    steps = steps_of(np.array([100.0] * 4 + [600.0, 150.0, 100.0] + [100.0] * 3))

    assert look.lost_s(steps, 450 * MS, 1170 * MS) == pytest.approx(0.55)
    assert look.lost_s(steps, 50 * MS, 150 * MS) == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("same", "reason", "lost_s", "stays", "ok"),
    [
        (True, "", 1.9, (0.02, 0.01, 0.03), True),
        (False, "", 0.1, (0.0, 0.0, 0.0), False),
        (True, "no steps", 0.0, (0.0, 0.0, 0.0), False),
        (True, "", 2.1, (0.0, 0.0, 0.0), False),
        (True, "", 0.1, (0.12, 0.04, 0.2), False),
        (True, "", 0.1, (0.12, 0.02, 0.2), True),  # nobody can tell
        (True, "", 0.1, None, False),
    ],
)
def test_a_look_may_cost_two_seconds_and_change_nothing(monkeypatch, same, reason, lost_s, stays, ok) -> None:
    look = load(monkeypatch, "look/run.py")
    row = look.Row("resnet50", same, reason, 3, lost_s, lost_s, 1.0, stays, (0.0, -0.01, 0.01))

    assert row.ok == ok
    assert ("FAIL" in look.table([row])) == (not ok)


@pytest.mark.parametrize("left", [0.0, 0.1])
def test_what_a_look_leaves_is_told_apart_from_a_host_that_slows_down(monkeypatch, left: float) -> None:
    """
    Steps of 50 ms, of which a third goes with the host's pace. It is slow by half more often after the look,
    after 20 s, and what the look left adds a tenth, or nothing.
    """
    look = load(monkeypatch, "look/run.py")
    draw = np.random.default_rng(1)
    slow = np.repeat(draw.random(40) < np.repeat([0.3, 0.7], 20), 20)
    pace = np.where(slow, 1.5, 1.0) * draw.normal(1.0, 0.02, 800)
    steps = np.zeros(800, look.step_log.STEP)
    steps["end_ns"] = (1 + np.arange(800)) * 50 * MS
    steps["ms"] = 50.0 * pace ** (1 / 3) * np.repeat([1.0, 1.0 + left], 400)
    paces = steps.copy()
    paces["ms"] = 0.05 * pace
    rows = look.seconds(steps, paces, 20_000 * MS, 20_000 * MS)
    told, low, high = look.stays_slower(rows)

    assert len(rows) == 35  # not the first three, nor the last, and not that of the look
    assert told == pytest.approx(left, abs=0.005)
    assert low <= told <= high
    assert high - low < 0.03
    naive = np.median(steps["ms"][400:]) / np.median(steps["ms"][:400]) - 1
    assert naive > left + 0.05


def test_nothing_is_told_of_what_a_look_left_where_too_few_seconds_came_after_it(monkeypatch) -> None:
    look = load(monkeypatch, "look/run.py")
    steps = steps_of(np.full(400, 50.0))
    start_ns = int(steps["end_ns"][0])

    def told(after_s: int) -> object:
        at_ns = start_ns + (19 - after_s) * 1000 * MS
        return look.stays_slower(look.seconds(steps, steps, at_ns, at_ns))

    assert told(7) == pytest.approx((0.0, 0.0, 0.0))
    assert told(5) is None
    assert look.stays_slower(look.seconds(steps[:0], steps[:0], 0, 0)) is None


def test_stacks_cost_what_steps_take_longer_meanwhile(monkeypatch) -> None:
    look = load(monkeypatch, "look/run.py")
    wander = np.random.default_rng(0).normal(0, 1, 200)
    share, low, high = look.slower(51 + wander, 50 + wander)

    assert share == pytest.approx(0.02, abs=0.001)
    assert low < share < high
    assert look.slower(np.array([]), 50 + wander) is None


def test_a_program_that_fails_before_its_first_loss_is_told_in_its_own_words(
    monkeypatch, tmp_path: Path
) -> None:
    look = load(monkeypatch, "look/run.py")
    monkeypatch.setattr(look, "command", lambda *_: [sys.executable, "-c", "raise SystemExit('no GPU here')"])

    with pytest.raises(RuntimeError, match="no GPU here"):
        look.measure("resnet50", tmp_path / "w", argparse.Namespace())


# --- bytes per kernel ------------------------------------------------------------------------


def two_kernels(tmp_path: Path) -> tuple[Any, Samples, list[dict[str, Any]]]:
    """
    40 steps of 1 ms with a kernel of 400 us that reads 4 MB and one of 300 us that reads 9 MB.

    Samples of 50 us do not begin with steps.
    """
    look = Look()
    for number in range(40):
        at = 1000.0 * number
        look.step(number, at, at + 990)
        for name, path, start, length in (("one<int>", "a", 100, 400), ("two", "b", 550, 300)):
            look.module(path, "Linear", at + start - 20, at + start - 5)
            look.work(f"void ns::{name}", at + start, at + start + length, at=at + start - 10)
    start_ns = 1_790_000_000_000_000_000 + 3_000 + np.arange(790) * 50_000
    reads = np.zeros(790)
    for number in range(40):
        for start, length, amount in ((100, 400, 4e6), (550, 300, 9e6)):
            begin = 1_790_000_000_000_000_000 + 1000 * (1000 * number + start)
            end = begin + 1000 * length
            overlap = np.minimum(start_ns + 50_000, end) - np.maximum(start_ns, begin)
            reads += np.maximum(overlap, 0) / (end - begin) * amount
    samples = Samples(start_ns, start_ns + 50_000, {"dram_read_bytes": reads, "dram_write_bytes": reads / 2})
    truth = [
        {"name": "ns::one<1>(int)", "read_bytes": 4e6, "write_bytes": 2e6},
        {"name": "<unnamed>::two", "read_bytes": 9e6, "write_bytes": 4.5e6},
    ]
    return look.trace(tmp_path), samples, truth


def test_bytes_per_kernel_are_held_against_the_truth_kernel_by_kernel(monkeypatch, tmp_path) -> None:
    hold = load(monkeypatch, "attribution/hold.py")
    trace, samples, truth = two_kernels(tmp_path)
    held = hold.hold(trace, samples, truth, periods_us=[100.0])

    assert [(h.quantity, h.period_us) for h in held] == [
        ("read_bytes", 50.0), ("write_bytes", 50.0), ("read_bytes", 100.0), ("write_bytes", 100.0),
    ]  # fmt: skip
    assert all(h.total == pytest.approx(1.0, abs=0.01) for h in held)
    assert all(h.kinds < 0.02 and h.module_points < 1 for h in held[:2])


def test_a_truth_that_is_wrong_shows_as_an_error_of_its_size(monkeypatch, tmp_path) -> None:
    """1 of 13 MB moved from one kernel to the other: 2 of 13, and 7.7 points of a module's share."""
    hold = load(monkeypatch, "attribution/hold.py")
    trace, samples, truth = two_kernels(tmp_path)
    truth[0]["read_bytes"], truth[1]["read_bytes"] = 5e6, 8e6
    held = hold.hold(trace, samples, truth, periods_us=[])[0]

    assert held.kinds == pytest.approx(2 / 13, abs=0.02)
    assert held.module_points == pytest.approx(100 / 13, abs=1)


@pytest.mark.parametrize("names", [["ns::one"], ["ns::one", "ns::three"]])
def test_the_kernels_of_another_program_are_no_truth(monkeypatch, tmp_path, names) -> None:
    hold = load(monkeypatch, "attribution/hold.py")
    trace, samples, _ = two_kernels(tmp_path)
    truth = [{"name": name, "read_bytes": 1.0, "write_bytes": 1.0} for name in names]

    with pytest.raises(ValueError, match="no step has the"):
        hold.hold(trace, samples, truth, periods_us=[])


def test_the_table_of_ncu_is_read_in_base_units_and_its_line_of_units_skipped(monkeypatch) -> None:
    truth = load(monkeypatch, "attribution/truth.py")
    output = (
        '==PROF== Connected\n"ID","Kernel Name","dram__bytes_read.sum","dram__bytes_write.sum",'
        '"gpu__time_duration.sum"\n"","","byte","byte","ns"\n"0","void a<1>(int)","1,024","512","2,000.5"\n'
    )

    assert truth.rows(output) == [
        {"name": "void a<1>(int)", "read_bytes": 1024.0, "write_bytes": 512.0, "duration_ns": 2000.5}
    ]


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({}, []),
        ({"kinds": 0.031}, ["kinds"]),
        ({"kinds": 0.05, "period_us": 100.0}, []),
        ({"kinds": 0.09, "period_us": 100.0}, ["kinds"]),
        ({"kinds": 0.3, "period_us": 1000.0}, []),
        ({"module_points": 2.1, "period_us": 1000.0}, ["modules"]),
        ({"offset_error_us": 1.1}, ["clock"]),
        ({"offset_error_us": math.nan}, ["clock"]),
        ({"quantity": "write_bytes", "kinds": 0.2}, []),
    ],
)
def test_what_attribution_misses_is_named(monkeypatch, changes, missed) -> None:
    run = load(monkeypatch, "attribution/run.py")
    good = {
        "quantity": "read_bytes", "period_us": 50.0, "total": 1.0, "kinds": 0.02, "kernels": 0.02,
        "naive_kinds": 0.1, "module_points": 0.1, "offset_us": -1.0, "offset_error_us": 0.1,
    }  # fmt: skip
    one = run.Held(**{**good, **changes})
    row = run.Row("p", 3, 0.5, (one,))

    assert run.misses(one) == missed
    assert row.ok == (not missed)
    assert ("OK" in run.table([row])) == (not missed)


def test_without_nsight_compute_the_truth_is_refused_in_a_sentence(monkeypatch, tmp_path, capsys) -> None:
    truth = load(monkeypatch, "attribution/truth.py")
    monkeypatch.setattr(sys, "argv", ["truth.py", "--out", str(tmp_path), "--only", "gpt_flash"])
    monkeypatch.setattr(truth.shutil, "which", lambda _: None)

    assert truth.main() == 1
    assert "Nsight Compute (ncu) is not on the PATH" in capsys.readouterr().out


def test_the_truth_of_a_program_that_does_not_exist_is_a_usage_error(monkeypatch, tmp_path, capsys) -> None:
    truth = load(monkeypatch, "attribution/truth.py")
    monkeypatch.setattr(sys, "argv", ["truth.py", "--out", str(tmp_path), "--only", "nothing"])

    with pytest.raises(SystemExit, match="2"):
        truth.main()
    assert "no such program: nothing" in capsys.readouterr().err


# --- report: a large recording made of real ones ------------------------------------------------


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ModuleType, Path]]:
    """Half a minute of two GPUs."""
    with pytest.MonkeyPatch.context() as patch:
        module = load(patch, "report/large.py")
        folder = tmp_path_factory.mktemp("large") / "recording"
        module.make(folder, minutes=0.5, gpus=2)
        yield module, folder


def test_a_large_recording_is_one_that_nobody_doubts(large):
    _, folder = large
    recording = open_recording(folder)
    seen = recording.observation(1)

    assert recording.complete
    assert recording.doubts == ()
    assert np.median(seen.pm.end_ns - seen.pm.start_ns) == pytest.approx(MS, rel=0.01)
    # Half a minute but the 2 s before it, 2 s of a gap, and 1.5 s in which the program was looked into.
    assert len(seen.pm) == pytest.approx(24_500, rel=0.01)
    assert (seen.pm.start_ns[1:] >= seen.pm.end_ns[:-1] - 20_000).all()
    assert seen.gaps[0].reason == "another tool holds the counters"
    assert len(seen.zoom) > 1_000


def test_what_is_played_faster_has_the_rates_that_were_measured(large):
    """Times and totals are halved, levels stay: so mean rate and level of a round are the source's."""
    module, _ = large
    source = open_recording(module.RECORDINGS / module.SOURCES[1])
    played = module._played(source).samples
    was = source.observation(0).pm
    read_s = was.column("dram_read_bytes").sum() / was.duration_s.sum()

    assert played.column("dram_read_bytes").sum() / played.duration_s.sum() == pytest.approx(read_s, rel=1e-3)
    assert np.nanmean(played.column("gr_active")) == pytest.approx(np.nanmean(was.column("gr_active")))
    assert played.duration_s.sum() == pytest.approx(was.duration_s.sum() / 2, rel=1e-3)
    assert len(played) == len(was)


def test_a_large_recording_takes_a_look_and_the_stacks_along(large):
    _, folder = large
    recording = open_recording(folder)
    seen, (look,) = recording.observation(0), recording.looks
    work = read_trace(folder / look.file).work
    main = read_stacks(folder).processes[0]

    assert len(seen.close_up) > 10_000
    assert seen.close_up.start_ns[0] < work.start_ns[0] < work.end_ns[-1] < seen.close_up.end_ns[-1]
    assert look.start_ns < look.steps_ns[0] < look.end_ns
    assert seen.pm.start_ns[0] <= main.time_ns[0] < main.time_ns[-1] < seen.pm.start_ns[0] + 6 * SECOND
    assert len(main) > 1_000


def test_a_large_recording_is_the_same_each_time_and_replaces_nothing(large, tmp_path):
    module, folder = large
    again = tmp_path / "again"
    module.make(again, minutes=0.5, gpus=2)

    assert {f.name: f.read_bytes() for f in again.iterdir()} == {
        f.name: f.read_bytes() for f in folder.iterdir()
    }
    assert module.main([str(again), "--minutes", "0.5", "--gpus", "1"]) == 2
    with pytest.raises(SystemExit):
        module.main([str(tmp_path / "new"), "--minutes", "0"])


# --- top -------------------------------------------------------------------------------------


LOOKED = """perfzero top
-- close look at GPU 0  (PgUp PgDn: 12 more lines) ------

   The GPU waits for data 82 % of the time.      sure
"""


def top_row(top: ModuleType, **changed: Any) -> Any:
    figures: dict[str, Any] = dict.fromkeys(top.Row.__dataclass_fields__, 0.0)
    figures |= {
        "name": "resnet50", "gpu": "H200", "groups": 6, "readings": 60, "dry": False, "lines_cpu": 0.004,
        "screen_cpu": 0.008, "lines_slowdown": (0.0001, -0.0005, 0.0007), "verdict": "It waits.",
        "screen_slowdown": (0.0, -0.001, 0.001), "screens": ("a", "b"), **changed,
    }  # fmt: skip
    return top.Row(**figures)


def test_a_verdict_is_found_on_the_screen_of_top(monkeypatch: pytest.MonkeyPatch) -> None:
    top = load(monkeypatch, "top/run.py")

    assert top.verdict_in(LOOKED).startswith("The GPU waits for data 82 %")
    assert top.verdict_in("perfzero top\nno panel\n") == ""


def test_a_top_that_costs_much_or_gives_no_verdict_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    top = load(monkeypatch, "top/run.py")

    assert top_row(top).ok
    assert not top_row(top, screen_cpu=0.02).ok
    assert not top_row(top, verdict="").ok
    assert not top_row(top, screens=("a",)).ok
    assert "+0.010 [-0.050, +0.070]" in top.table([top_row(top)])


def test_tops_take_turns_and_both_run_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    top = load(monkeypatch, "top/run.py")
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(top.os, "kill", lambda pid, number: sent.append((pid, number)))
    monkeypatch.setattr(top.time, "sleep", lambda _: None)

    blocks = list(top.alternate({"lines": 1, "screen": 2}, groups=4, block_s=0.0, until=math.inf))

    orders = [[b.treatment for b in blocks if b.group == g] for g in range(4)]
    assert all(sorted(order) == ["bare", "lines", "screen"] for order in orders)
    assert orders[1] == orders[0][::-1]
    assert orders[3] == orders[2][::-1]
    for pid in (1, 2):
        assert [number for p, number in sent if p == pid][-1] == signal.SIGCONT


def test_no_group_of_blocks_is_begun_that_would_end_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    top = load(monkeypatch, "top/run.py")
    monkeypatch.setattr(top.os, "kill", lambda pid, number: None)
    monkeypatch.setattr(top.time, "sleep", lambda _: None)

    assert list(top.alternate({"lines": 1}, groups=4, block_s=2.0, until=time.monotonic() + 5.0)) == []
