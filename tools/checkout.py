"""Runs perfzero from this checkout in a process of its own, with a time limit and a log."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PERFZERO = ("python3", "-m", "perfzero")
PATIENCE_S = 10.0
"""How long a process group that was asked to end may take before it is killed."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended; `code` is None when it ran into its time limit."""

    code: int | None
    wall_s: float
    output: str


def environment() -> dict[str, str]:
    """This process's environment, in which `python3` is this Python and `perfzero` the checkout's."""
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PATH": os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath))),
        "PYTHONPATH": os.pathsep.join(p for p in paths if p),
        "PYTHONUNBUFFERED": "1",
        "COLUMNS": "120",
    }


def start(command: Sequence[str], *, log: Path) -> subprocess.Popen[bytes]:
    """*command* in a process group of its own, with all its output in *log*."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        return subprocess.Popen(
            command, cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip


def finish(process: subprocess.Popen[bytes], *, log: Path, timeout_s: float) -> Ended:
    """Wait for *process*; past the limit its whole group is ended."""
    begun = time.monotonic()
    code: int | None
    try:
        code = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        code = None
        end_group(process)
    return Ended(code, time.monotonic() - begun, log.read_text(errors="replace"))


def run(command: Sequence[str], *, log: Path, timeout_s: float) -> Ended:
    """`start` and `finish`. A command that cannot be started counts as 127, as in a shell."""
    try:
        return finish(start(command, log=log), log=log, timeout_s=timeout_s)
    except OSError as error:
        log.write_text(f"{error}\n")
        return Ended(127, 0.0, str(error))


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End the group that `start` made: politely, then not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(PATIENCE_S)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
