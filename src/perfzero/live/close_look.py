"""
A close look: a few seconds of hardware sampling on one GPU, by the recorder, in a process of its own.

Live figures come from sources that cost nothing. What limits a program shows in PM sampling only, which is
exclusive on the device and costs something (docs/measurements.md), so it is done when asked for, once, and
ends by itself. The recorder is the one of `perfzero record`: it opens and closes the device in a sampler of
its own, takes sudo where that is needed and works without a password, and leaves a recording that can be
analysed again.

On every way out the device is given back: asked to end, the recorder closes it; killed, it takes the
sampler along, and the driver frees the device; and a recorder whose starter has died is asked to end by
the kernel (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import perfzero
from perfzero.record.children import plain_environment
from perfzero.text import printable
from perfzero.values import Gpu
from perfzero.words.said import CALLED_EN, say

LOOK_S = 4.0
"""Of samples every 2 ms: some dozen steps of most programs; from 2 s on a look counts as long enough."""

SET_UP_S = 2.0
"""From the recorder's start to the first sample: libraries, the sampler's process, half a second to open."""

PATIENCE_S = 8.0
"""How long a recorder that was asked to end may take: it closes the device and writes what it has."""

LONGEST_S = 30.0
"""Beyond its own length; a recorder that has not ended by then hangs, and is killed."""

BUSY, NOT_HERE = 5, 3
"""Exit codes of perfzero: another tool holds the counters; no GPU, no library or no permission."""

LONGEST_WORDS = 4000
"""What a recorder says is some lines; more is not read."""

CODE = """
import ctypes, os, signal, sys
try:
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
except (OSError, AttributeError):
    pass
if os.getppid() != {starter}:
    sys.exit(0)
sys.path.insert(0, {package!r})
from perfzero.cli.main import script
script()
"""
"""What the child runs: `perfzero` of this very package, which does not outlive its starter."""

Ending = Literal["recorded", "busy", "refused", "failed"]


@dataclass(frozen=True, slots=True)
class Looked:
    """How a look ended; `words` is what the recorder said where it did not end well."""

    ending: Ending
    words: str = ""


class CloseLook:
    """
    A look at *gpu*, recorded into *folder*, which is removed again unless a recording came of it.

    Start it in the main thread: the kernel takes the end of the thread that started a process for its
    starter's death. *command* takes the place of the recorder, without its options; what it says is in
    *language*.
    """

    def __init__(
        self,
        gpu: Gpu,
        folder: Path,
        *,
        length_s: float = LOOK_S,
        command: Sequence[str] | None = None,
        language: str = CALLED_EN,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.gpu = gpu
        self.folder = folder
        self.takes_s = length_s + SET_UP_S
        self._clock = clock
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `cancel` and by `ended`
        self._begun_s = clock()
        try:
            self._process: subprocess.Popen[bytes] | None = subprocess.Popen(
                [
                    *(command or recorder_command()),
                    *options(gpu, folder, length_s=length_s, language=language),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                start_new_session=True,  # what the terminal sends is for the display
                env=plain_environment(),
            )
        except OSError:
            self._said.close()
            self._remove()
            raise

    @property
    def elapsed_s(self) -> float:
        """Since it was started."""
        return self._clock() - self._begun_s

    def ended(self) -> Looked | None:
        """How it ended; None while it goes on."""
        process = self._process
        if process is None:
            return Looked("failed", say("top.look_cancelled"))
        if process.poll() is None:
            if self.elapsed_s < self.takes_s + LONGEST_S:
                return None
            self.cancel()
            return Looked("failed", say("top.look_killed"))
        self._process = None
        self._said.seek(0)
        words = self._said.read(LONGEST_WORDS).decode("utf-8", "replace")
        self._said.close()
        if process.returncode == 0:
            return Looked("recorded")
        self._remove()
        ending: Ending = {BUSY: "busy", NOT_HERE: "refused"}.get(process.returncode, "failed")  # type: ignore[assignment]
        return Looked(ending, _told(words) or say("top.look_code", code=process.returncode))

    def cancel(self) -> None:
        """End it, and wait until the device is free again. Harmless when called twice."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._said.close()
        self._remove()

    def _remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def recorder_command() -> list[str]:
    """The command line of the recorder, to which its options are added."""
    package = str(Path(perfzero.__file__).parent.parent)
    return [sys.executable, "-I", "-c", CODE.format(package=package, starter=os.getpid())]


def options(gpu: Gpu, folder: Path, *, length_s: float, language: str = CALLED_EN) -> list[str]:
    """One window of PM sampling with all counters, and nothing inside any program."""
    return [
        "record", "--gpu", gpu.uuid, "--source", "pm", "--window", f"{length_s:g}s", "--every", "1h",
        "--zoom", "off", "--profiling-duration", f"{length_s + SET_UP_S:g}s", "--no-agent", "--no-stacks",
        "--quiet", "--lang", language, "-o", str(folder),
    ]  # fmt: skip


def _told(words: str) -> str:
    """The lines of *words* without the program's name, printable."""
    lines = [printable(line.removeprefix("perfzero: ")) for line in words.splitlines()]
    return "\n".join(line for line in lines if line)
