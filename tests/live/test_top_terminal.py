"""`perfzero top` in a real pseudo-terminal: that it ends, and leaves the terminal as it was."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

RECORDING = str(Path(__file__).parents[1] / "recordings" / "resnet50_nchw")


class Shown:
    """A display that replays a recording in a terminal of its own; all that it wrote is kept."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.master, self._slave = pty.openpty()  # the slave stays open here, to ask for its attributes
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.attributes = termios.tcgetattr(self._slave)
        self.written = b""
        kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "LINES")}
        source = str(Path(__file__).parents[2] / "src")
        code = (
            "import fcntl, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
            "from perfzero.cli.main import script; script()"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, "top", "--replay", RECORDING, "--every", "200ms"],
            cwd=folder,
            env={**kept, "TERM": "xterm-256color", "PYTHONPATH": source, **environment},
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            start_new_session=True,
        )

    def wait_for(self, word: bytes, *, at_most_s: float = 20.0) -> None:
        deadline = time.monotonic() + at_most_s
        seen = len(self.written)
        while word not in self.written[seen:]:
            assert time.monotonic() < deadline, self.written[-500:]
            if select.select([self.master], [], [], 0.05)[0]:
                self.written += os.read(self.master, 65536)

    def wait_until(self, what: Callable[[], object], *, at_most_s: float = 10.0) -> None:
        deadline = time.monotonic() + at_most_s
        while not what():
            assert time.monotonic() < deadline
            if select.select([self.master], [], [], 0.02)[0]:
                self.written += os.read(self.master, 65536)

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def ended(self) -> int:
        self.wait_until(lambda: self.process.poll() is not None)
        return int(self.process.returncode)

    def attributes_now(self) -> Any:
        return termios.tcgetattr(self._slave)

    @property
    def stopped(self) -> bool:
        return bool(psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED)

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.master)
        os.close(self._slave)


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Shown]:
    display = Shown(tmp_path)
    yield display
    display.close()


def test_it_ends_and_leaves_the_terminal_as_it_was(shown: Shown) -> None:
    shown.wait_for(b"SMs busy")
    assert shown.attributes_now() != shown.attributes

    shown.press("q")

    assert shown.ended() == 0
    assert shown.attributes_now() == shown.attributes
    assert b"\x1b[?1049l" in shown.written  # the screen before it is back


def test_it_ends_after_it_was_stopped_from_outside_and_by_ctrl_z(shown: Shown) -> None:
    shown.wait_for(b"SMs busy")

    os.kill(shown.process.pid, signal.SIGSTOP)
    shown.wait_until(lambda: shown.stopped)
    os.kill(shown.process.pid, signal.SIGCONT)
    shown.wait_for(b"UTC")  # it goes on

    shown.press("\x1a")
    shown.wait_until(lambda: shown.stopped)
    assert shown.attributes_now() == shown.attributes  # a shell could be used meanwhile
    os.kill(shown.process.pid, signal.SIGCONT)
    shown.wait_for(b"SMs busy")

    shown.press("q")

    assert shown.ended() == 0
    assert shown.attributes_now() == shown.attributes


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_as_a_key_does(shown: Shown, number: signal.Signals) -> None:
    shown.wait_for(b"SMs busy")

    os.kill(shown.process.pid, number)

    assert shown.ended() == 0
    assert shown.attributes_now() == shown.attributes


def test_without_colour_nothing_is_coloured(tmp_path: Path) -> None:
    display = Shown(tmp_path, NO_COLOR="1")
    try:
        display.wait_for(b"? help")
        display.press("q")
        assert display.ended() == 0
    finally:
        display.close()

    codes = {
        code for part in display.written.split(b"\x1b[")[1:] for code in part.partition(b"m")[0].split(b";")
    }
    assert not codes & {str(n).encode() for n in (*range(30, 39), *range(40, 49), *range(90, 108))}
