"""Which counters belong to which look: those of a GPU that its process had for itself."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hand_written_look import BASE_NS
from hand_written_look import Look as TraceOfALook
from perfzero.attribute.breakdown import Breakdown
from perfzero.errors import BrokenRecording
from perfzero.report import inside, looks
from perfzero.report.analysis import judged_report
from perfzero.report.looks import broken_down
from perfzero.store.kineto import read_trace
from perfzero.store.reader import open_recording
from perfzero.store.writer import RecordingWriter
from perfzero.traces import Trace
from perfzero.values import Gpu, Look, Process, Samples

US = 1000
RECORDINGS = Path(__file__).parents[1] / "recordings"


def trace(folder: Path, pid: int) -> None:
    """40 steps of 1 ms with a kernel of 600 us, which reads 6 MB."""
    look = TraceOfALook()
    for step in range(40):
        at = 1000.0 * step
        look.step(step, at, at + 990)
        look.module("fc", "Linear", at + 10, at + 30)
        look.work("gemm", at + 100, at + 700, at=at + 20)
    look.write(folder).rename(folder / f"look-{pid}.json.gz")


def samples() -> Samples:
    start = BASE_NS + np.arange(790, dtype=np.int64) * 50 * US
    within = (start - BASE_NS) % 1_000_000
    reads = np.clip(np.minimum(within + 50 * US, 700 * US) - np.maximum(within, 100 * US), 0, None) * 10.0
    return Samples(start, start + 50 * US, {"dram_read_bytes": reads})


def recorded(folder: Path, *looks: Look, gpus: int = 1, others: tuple[int, ...] = ()) -> Path:
    described = [Gpu(number, f"GPU-{number}", "NVIDIA H200") for number in range(gpus)]
    with RecordingWriter(
        folder, gpus=described, process=Process(1, ("python",)), settings={}, tiers={}, tier_reasons={}
    ) as writer:
        for gpu in described:
            writer.append("zoom", gpu.index, samples())
        for look in looks:
            trace(folder, look.pid)
            writer.look(look)
        writer.update(other_pids={0: others})
    return folder


def look(pid: int, *gpus: int) -> Look:
    return Look(pid, BASE_NS - 1, BASE_NS + 40_000_000, file=f"look-{pid}.json.gz", gpus=gpus)


def reads(folder: Path) -> tuple[dict[str, float | None], str]:
    """What is told to be read, by file, in MB; and the doubts."""
    recording = open_recording(folder)
    seen = {gpu.index: recording.observation(gpu.index) for gpu in recording.gpus}
    found, doubts = broken_down(recording, seen)
    told = {
        file: None if b.counted is None or b.counted.dram_read_bytes is None
        else b.counted.dram_read_bytes.value / 1e6
        for file, b in found.items()
    }  # fmt: skip
    return told, " ".join(doubts)


@pytest.mark.parametrize("gpus", [(0,), ()])
def test_a_process_that_has_the_gpu_for_itself_gets_what_was_counted(
    tmp_path: Path, gpus: tuple[int, ...]
) -> None:
    """40 times 6 MB; of a program on the only GPU that was watched the driver need not list the process."""
    told, doubts = reads(recorded(tmp_path / "r", look(7, *gpus)))

    assert told == {"look-7.json.gz": pytest.approx(240, rel=0.05)}
    assert "GPU" not in doubts


def test_ranks_on_gpus_of_their_own_each_get_theirs(tmp_path: Path) -> None:
    told, _ = reads(recorded(tmp_path / "r", look(7, 0), look(8, 1), gpus=2))

    assert told == {f"look-{pid}.json.gz": pytest.approx(240, rel=0.05) for pid in (7, 8)}


def test_what_was_counted_is_held_against_what_its_own_gpu_does_at_most(tmp_path: Path) -> None:
    recording = open_recording(recorded(tmp_path / "r", look(7, 0), look(8, 1), gpus=2))
    known = replace(recording.observation(1), gpu=Gpu(
        1, "GPU-1", "NVIDIA H200", memory_clock_max_hz=3.201e9, memory_bus_bits=6016
    ))  # fmt: skip
    found, _ = broken_down(recording, {0: recording.observation(0), 1: known})
    roofs = {file: b.ceilings.dram for file, b in found.items() if b.ceilings is not None}

    assert math.isnan(roofs["look-7.json.gz"])
    assert roofs["look-8.json.gz"] == pytest.approx(4.3e12, rel=0.01)


def test_what_was_not_counted_is_held_against_nothing(tmp_path: Path) -> None:
    recording = open_recording(recorded(tmp_path / "r", look(7, 0), look(8, 0)))
    found, _ = broken_down(recording, {0: recording.observation(0)})

    assert [breakdown.ceilings for breakdown in found.values()] == [None, None]


@pytest.mark.parametrize(("one", "other"), [((0,), (0,)), ((0,), ()), ((), ())])
def test_ranks_that_share_a_gpu_get_nothing_of_what_was_counted(
    tmp_path: Path, one: tuple[int, ...], other: tuple[int, ...]
) -> None:
    told, doubts = reads(recorded(tmp_path / "r", look(7, *one), look(8, *other)))

    assert told["look-7.json.gz"] is None
    assert "others of its processes used the same GPU" in doubts


@pytest.mark.parametrize(("gpus", "said"), [((0, 1), True), ((), False)])
def test_a_process_on_several_gpus_or_who_knows_on_which_gets_nothing(
    tmp_path: Path, gpus: tuple[int, ...], said: bool
) -> None:
    told, doubts = reads(recorded(tmp_path / "r", look(7, *gpus), gpus=2))

    assert told == {"look-7.json.gz": None}
    assert ("it used several GPUs" in doubts) == said


def test_that_another_program_held_the_gpu_is_said(tmp_path: Path) -> None:
    told, doubts = reads(recorded(tmp_path / "r", look(7, 0), others=(99,)))

    assert told["look-7.json.gz"] is not None
    assert "another program held its GPU" in doubts


def test_what_norms_have_to_move_depends_on_the_l2_of_the_gpu_that_the_look_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = open_recording(recorded(tmp_path / "r", look(7, 0), look(8, 1), look(9, 0, 1), gpus=2))
    one, other = recording.observation(0), recording.observation(1)
    seen = {0: replace(one, gpu=replace(one.gpu, l2_bytes=60)), 1: other}
    given = []

    def noted(*_: object, l2_bytes: int | None) -> Breakdown:
        given.append(l2_bytes)
        raise BrokenRecording("enough")

    monkeypatch.setattr(looks, "break_down", noted)
    broken_down(recording, seen)

    assert given == [60, None, None]


def test_a_look_that_cannot_be_broken_down_is_a_doubt_and_the_others_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def odd(path: Path) -> Trace:
        if path.name == "look-7.json.gz":
            raise IndexError("tuple index out of range")
        return read_trace(path)

    recording = recorded(tmp_path / "r", look(7, 0), look(8, 1), gpus=2)
    monkeypatch.setattr(looks, "read_trace", odd)
    told, doubts = reads(recording)

    assert list(told) == ["look-8.json.gz"]
    assert "look-7.json.gz: this trace could not be broken down (IndexError)" in doubts
    assert "look-8" not in doubts


def test_who_interrupts_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(path: Path) -> Trace:
        raise KeyboardInterrupt

    recording = recorded(tmp_path / "r", look(7, 0))
    monkeypatch.setattr(looks, "read_trace", interrupted)

    with pytest.raises(KeyboardInterrupt):
        reads(recording)


def test_a_gpu_that_nobody_watched_is_of_no_use(tmp_path: Path) -> None:
    told, _ = reads(recorded(tmp_path / "r", replace(look(7, 0), gpus=(5,))))

    assert told == {"look-7.json.gz": None}


def test_a_look_that_cannot_be_told_is_a_doubt_and_the_report_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(inside, "conditions", fails)
    report = judged_report(RECORDINGS / "_looks" / "cupy")

    assert report.breakdowns
    assert report.gpus[0].diagnosis.headline
    assert sum("(ZeroDivisionError), which is a mistake in perfzero" in doubt for doubt in report.doubts) == 1
