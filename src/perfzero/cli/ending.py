"""
SIGTERM and SIGHUP end a command as Ctrl-C does: by an exception, so that it takes away what is half done.

Unhandled they end the process at once, as `timeout`, systemd, a batch system or a lost connection do, and
gigabytes of a file that was being written stay behind under a name that nobody looks for.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""SIGINT raises by itself; SIGQUIT asks for a core file of things as they are."""


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """
    In the block the first of `ENDING` raises `SystemExit` with 128 + its number; later ones are not heard.

    What is ignored already, as SIGHUP under nohup, stays ignored. Outside the main thread nothing is changed,
    for there no handler may be set.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = [n for n in ENDING if signal.getsignal(n) is signal.SIG_DFL]

    def end(number: int, _: object) -> None:
        for each in heard:
            signal.signal(each, signal.SIG_IGN)  # tidying up must not be cut short
        raise SystemExit(128 + number)

    for number in heard:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, signal.SIG_DFL)
