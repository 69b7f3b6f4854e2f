"""
Runs perfzero from this checkout in a process of its own, with a time limit and a log.

Whatever ends the process that started it, nothing of it is left: an exception or a signal unwinds and
ends the group; where nothing can unwind (SIGKILL), a guard outside the group sees it and kills the group,
stopped processes included. Linux 5.3 or later; only what leaves its group is not reached.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PERFZERO = ("python3", "-m", "perfzero")
PATIENCE_S = 10.0
"""How long a process group that was asked to end may take before it is killed."""

GUARD = """
import os, select, signal, sys
if os.fork():
    os._exit(0)  # nobody has to wait for the guard
os.setsid()
starter, leader = map(int, sys.argv[1:])
ended = os.pidfd_open(leader)
try:
    orphaned = os.pidfd_open(starter)
    alone = orphaned in select.select([orphaned, ended], [], [])[0]
except ProcessLookupError:
    alone = True
if alone:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""
"""
Waits until a process or the one that started it has ended; after the latter it kills the group of the
former. PR_SET_PDEATHSIG would reach the process alone: its own children (workers of a data loader,
stopped with it) do not inherit that.
"""


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


def start(
    command: Sequence[str], *, log: Path, piped: bool = False, more: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """
    *command* in a process group of its own, which does not outlive us, with all its output in *log*.

    *piped*: its standard output is the pipe `stdout` of the process instead. *more*: of its environment.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**environment(), **(more or {})}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if piped else out, stderr=out, start_new_session=True,
        )  # fmt: skip
    try:
        _guard(process)
    except BaseException:
        end_group(process)
        raise
    return process


def _guard(process: subprocess.Popen[bytes]) -> None:
    """See `GUARD`. Without it (an older kernel) only a starter that is killed leaves something behind."""
    subprocess.run(
        [sys.executable, "-I", "-S", "-c", GUARD, str(os.getpid()), str(process.pid)], check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def finish(process: subprocess.Popen[bytes], *, log: Path, timeout_s: float) -> Ended:
    """Wait for *process*; past the limit, or when an exception interrupts us, its whole group is ended."""
    begun = time.monotonic()
    code: int | None
    try:
        code = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        code = None
        end_group(process)
    except BaseException:
        end_group(process)
        raise
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


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP unwind this process as Ctrl-C does, so that children are ended on the way out."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
