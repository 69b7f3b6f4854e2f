"""
Measuring the practical roofs of one idle GPU.

    choose_python()   a Python that has torch or cupy
    refuse_busy()     nobody else computes on the GPU
    calibrate()       runs `calibration_program` there, watches the clock meanwhile, makes roofs of both

A product is held against the peak at the clock that NVML reported while it ran, since a large one
draws so much power that the board lowers its clock. A copy over PCIe is held against what the link,
as it was seen at its best meanwhile, carries raw. Nothing is set on the GPU.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from perfzero import __version__, hardware
from perfzero.diagnose.roofs import link_in_use
from perfzero.errors import DeviceBusy, NoLibrary, NotSupported, SourceError, UsageError
from perfzero.record import calibration_program
from perfzero.record.kept_roofs import Calibration, possible
from perfzero.record.signals import Signals
from perfzero.sources import nvml
from perfzero.store.decode import clean_text, decode, parse_json
from perfzero.values import Gpu, Samples
from perfzero.words.said import enumeration, say

FRAMEWORKS = ("torch", "cupy")

BUSY = 0.05
"""Above this utilisation a GPU is not idle: the display and the driver's own work stay below it."""

IDLE_FOR_S = 0.4
"""How long to look: NVML's utilisation is that of the last sixth of a second to second (nvml.h)."""

READ_EVERY_S = 0.04
"""Between two readings of the clock: ten in the shortest stage, and the reader takes 1 ms of each."""

PATIENCE_S = 120.0
"""Beyond the measurement itself: a framework on a network file system may take a minute to load."""

GONE_WITHIN_S = 5.0
"""How long to wait after SIGKILL: what hangs in the driver never goes, and must not hold us, too."""

MAX_OUTPUT = 1 << 16
"""The program prints 2 KB."""

DTYPES = ("bf16", "fp16", "tf32", "fp32")


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the program: what a call did, how long it took, and when."""

    amount: float
    seconds: float
    start_ns: int
    end_ns: int

    @property
    def rate(self) -> float:
        """Bytes or FLOP per second; NaN if that cannot be."""
        return self.amount / self.seconds if self.seconds > 0 and self.amount > 0 else math.nan


@dataclass(frozen=True, slots=True)
class Answer:
    """What the program said."""

    framework: str
    stages: Mapping[str, Stage]
    skipped: Mapping[str, str] = field(default_factory=dict)


def choose_python(asked: str | None) -> str:
    """
    The whole path of *asked*, else of perfzero's own Python or the first on the PATH, whichever has
    torch or cupy.

    Raises `UsageError` where *asked* is no program, `NoLibrary` where no framework is found.
    """
    if asked is not None:
        found = shutil.which(os.path.expanduser(asked))
        if found is None:
            raise UsageError(say("calibrate.no_program", asked=f"{asked!r}"))
        candidates = [found]
    else:
        candidates = [p for p in (sys.executable, shutil.which("python3"), shutil.which("python")) if p]
    # It is started in another folder. Links stay: that of a virtual environment says which one it is.
    pythons = list(dict.fromkeys(map(os.path.abspath, candidates)))
    for python in pythons:
        if _has_framework(python):
            return python
    raise NoLibrary(say("calibrate.no_framework", pythons=enumeration(pythons)))


def _has_framework(python: str) -> bool:
    """Whether *python* would find a framework; without loading it, which takes seconds."""
    code = f"import importlib.util as u, sys; sys.exit(not any(map(u.find_spec, {FRAMEWORKS!r})))"
    try:
        done = subprocess.run(
            [python, "-c", code],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def refuse_busy(gpu: Gpu) -> None:
    """Raise `DeviceBusy` where another process computes on *gpu*, or it is not at rest."""
    pids = nvml.processes(gpu)
    if pids:
        who = (
            say("busy.process", pid=pids[0])
            if len(pids) == 1
            else say("busy.processes", pids=enumeration(list(map(str, pids))))
        )
        raise _busy(gpu, say("busy.can_compute", who=who))
    used = 0.0
    with _board(gpu) as board:
        end = time.monotonic() + IDLE_FOR_S
        while time.monotonic() < end:
            used = max(used, float(np.nanmax(board.read().column("smi_utilization"), initial=0.0)))
            time.sleep(IDLE_FOR_S / 4)
    if used > BUSY:
        raise _busy(gpu, say("busy.was_busy", share=f"{used:.0%}"))


def _busy(gpu: Gpu, why: str) -> DeviceBusy:
    return DeviceBusy(say("busy.in_use", gpu=gpu.index, why=why))


def calibrate(
    gpu: Gpu, *, python: str, seconds: float, tell: Callable[[str], None] = lambda _: None
) -> Calibration:
    """
    Measure the roofs of *gpu* with *python*, in about *seconds* and the framework's start.

    What could not be measured, or cannot be right, is left out and told to *tell*. Raises
    `SourceError` if nothing is left. Whatever interrupts it, a signal too, ends the program on the
    GPU first. To be called in the main thread.
    """
    if gpu.mig:
        raise NotSupported(say("calibrate.mig", gpu=gpu.index))
    with nvml.session():
        answer, board = _run(gpu, python=python, seconds=seconds)
    made = roofs_of(gpu, answer, board)
    for name, why in answer.skipped.items():
        tell(say("calibrate.unmeasured", name=name, why=why))
    sound = {name: value for name, value in made.roofs.items() if hardware.plausible(gpu, name, value)}
    for name in made.roofs.keys() - sound.keys():
        tell(say("calibrate.wrong", name=name, value=f"{made.roofs[name]:.3g}"))
    if not sound:
        raise SourceError(say("calibrate.none", gpu=gpu.index))
    return Calibration(
        uuid=gpu.uuid,
        driver=gpu.driver or "",
        name=gpu.name,
        measured_ns=time.time_ns(),
        perfzero=__version__,
        framework=answer.framework,
        roofs=sound,
        rates={name: rate for name, rate in made.rates.items() if possible(rate)},
        sm_clock_hz=made.sm_clock_hz,
    )


@dataclass(frozen=True, slots=True)
class Made:
    """Roofs by name as in `hardware.CALIBRATED`, the rates of all stages, and the clock of each product."""

    roofs: Mapping[str, float]
    rates: Mapping[str, float]
    sm_clock_hz: Mapping[str, float]


def roofs_of(gpu: Gpu, answer: Answer, board: Samples) -> Made:
    """What *answer* and the readings of the *board* meanwhile say of *gpu*; what is unknown is left out."""
    rates = {name: stage.rate for name, stage in answer.stages.items() if math.isfinite(stage.rate)}
    clocks = {name: _clock(board, answer.stages[name]) for name in DTYPES if name in rates}
    generation, width = link_in_use(gpu, board)
    raw = math.nan
    if generation is not None and width is not None:
        raw = hardware.pcie_raw_bytes_per_s(generation, width)
    roofs = {
        "dram": max((rates[n] for n in ("triad", "copy") if n in rates), default=math.nan),
        "l2": max((rates[n] for n in ("l2_chain", "l2_reread") if n in rates), default=math.nan),
        **{name: rates.get(name, math.nan) / raw for name in ("pcie_rx", "pcie_tx")},
        **{name: rates[name] / hardware.peak_flops(gpu, name, clock) for name, clock in clocks.items()},
    }
    return Made(
        roofs={name: value for name, value in roofs.items() if math.isfinite(value)},
        rates=rates,
        sm_clock_hz={name: clock for name, clock in clocks.items() if math.isfinite(clock)},
    )


def _clock(board: Samples, stage: Stage) -> float:
    """The median of the SM clock as read while *stage* was measured; NaN if it never was."""
    during = (board.end_ns >= stage.start_ns) & (board.end_ns < stage.end_ns)
    clocks = board.column("sm_clock")[during]
    known = clocks[np.isfinite(clocks)]
    return float(statistics.median(known)) if len(known) else math.nan


def _run(gpu: Gpu, *, python: str, seconds: float) -> tuple[Answer, Samples]:
    """The program's answer, and the board's state while it ran."""
    readings = []
    # Files, not pipes: whatever the program prints, it never waits for us to read it.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        command = [python, "-c", Path(calibration_program.__file__).read_text(encoding="utf-8"), str(seconds)]
        with _signals() as signals:
            with _board(gpu) as board, _child(command, gpu, out=out.fileno(), err=err.fileno()) as child:
                deadline = time.monotonic() + seconds + PATIENCE_S
                while child.poll() is None:
                    if time.monotonic() > deadline:
                        raise SourceError(
                            say(
                                "calibrate.too_long",
                                gpu=gpu.index,
                                seconds=f"{seconds + PATIENCE_S:.0f}",
                                python=python,
                            )
                        )
                    readings.append(board.read())
                    _unwind_for(signals.wait(READ_EVERY_S))
            _unwind_for(signals.wait(0.0))  # one that came as the program ended
        out.seek(0)
        err.seek(0, os.SEEK_END)
        err.seek(max(0, err.tell() - MAX_OUTPUT))
        printed, complaints = out.read(MAX_OUTPUT), err.read()
    return _parse(printed, complaints, child.returncode, python=python), Samples.concat(readings)


def _parse(printed: bytes, complaints: bytes, code: int, *, python: str) -> Answer:
    lines = [line for line in printed.splitlines() if line.strip()]
    try:
        if code != 0 or not lines:
            raise ValueError(say("exit_code", code=code))
        return decode(Answer, parse_json(lines[-1]), where="answer")
    except ValueError as error:
        last = complaints.decode("utf-8", "replace").strip().splitlines()[-1:]
        why = clean_text(last[0])[:300] if last and code != 0 else str(error)
        raise SourceError(say("calibrate.broke_off", python=python, why=why)) from error


@contextmanager
def _board(gpu: Gpu) -> Iterator[nvml.Board]:
    board = nvml.Board(gpu)
    board.open()
    try:
        yield board
    finally:
        board.close()


@contextmanager
def _signals() -> Iterator[Signals]:
    """None ends us while the program is on the GPU: they are looked at between two readings."""
    signals = Signals()
    try:
        yield signals
    finally:
        signals.restore()


def _unwind_for(came: Collection[int]) -> None:
    """End as the first signal that *came* would end us, through everything that has to be tidied up."""
    for number in came:
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        if number != signal.SIGCHLD:
            raise SystemExit(128 + number)


@contextmanager
def _child(command: list[str], gpu: Gpu, *, out: int, err: int) -> Iterator[subprocess.Popen[bytes]]:
    """The program on *gpu* alone; ended when the block is, however that comes."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": gpu.uuid}
    environment.pop("NVIDIA_TF32_OVERRIDE", None)  # it would make FP32 products TF32 ones, or the reverse
    child = subprocess.Popen(
        command,
        env=environment,
        cwd="/",  # a file that is called torch.py in the user's folder must not pass for it
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        start_new_session=True,
    )
    try:
        yield child
    finally:
        # Its group, since what we started may be a shim whose child is the Python that computes.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            child.wait(GONE_WITHIN_S)
