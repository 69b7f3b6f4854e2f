"""
What every source of samples promises.

A source measures; it never stores and never judges. It is polled by its owner, which alone
decides when: `open` takes what it needs from the machine, `read` returns what has come since
the last call, `close` gives everything back and may be called twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from perfzero.counters import Counter
from perfzero.values import Samples


class Source(Protocol):
    """A stream of samples with a name, e.g. "gpm", and the counters that its columns hold."""

    name: str
    counters: Sequence[Counter]

    def open(self) -> None:
        """Take what is needed; raises a `SourceError` that says what to do next."""
        ...

    def read(self) -> Samples:
        """The samples since the last call; an empty table when there are none yet."""
        ...

    def close(self) -> None:
        """Give everything back. Never raises; harmless when called twice."""
        ...
