"""The seams to the product: a PM sampling session as the recorder has it, and the numbers of its policy."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from perfzero.values import Gpu

PERIOD_NS = 1_000_000
READ_EVERY_S = 0.1


class Session:
    """
    The sampler of one GPU in its own process, as `perfzero record` uses it.

    `open`, `start`, `stop` and `close` return when they are done. While it samples, a thread here
    reads the samples and drops them; `samples` counts them, so that silence is noticed.
    """

    def __init__(self, gpu: Gpu) -> None:
        self._client = connect(gpu)
        self._reading: threading.Event | None = None
        self._thread: threading.Thread | None = None
        self.samples = 0
        self.broken: str | None = None

    def open(self) -> None:
        self._client.open()

    def start(self) -> None:
        self._client.start(period_ns=PERIOD_NS, kind="continuous")
        self._reading = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(self._reading,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._reading and self._thread:
            self._reading.set()
            self._thread.join(10)
            self._reading = self._thread = None
        self._client.stop()

    def close(self) -> None:
        self._client.close()

    def quit(self) -> None:
        self._client.quit()

    def _read(self, done: threading.Event) -> None:
        try:
            while not done.wait(READ_EVERY_S):
                self.samples += sum(len(batch) for batch in self._client.read())
        except Exception as error:  # noqa: BLE001 - told to whoever asks, in `broken`
            self.broken = f"{type(error).__name__}: {error}"


def connect(gpu: Gpu) -> Any:
    """
    A client of a fresh sampler process. THE ADAPTER: adjust it here when the client changes.

    What is expected of it: open(), start(period_ns=, kind=), stop(), close(), quit(), and read(),
    which returns a list of the `Samples` that have arrived since the last call.
    """
    from perfzero.record.sampler_client import SamplerClient

    return SamplerClient(gpu)


@dataclass(frozen=True, slots=True)
class Policy:
    """The default policy: share of time sampled, and seconds from one session to the next (None: one)."""

    duty: float
    spacing_s: float | None


def policies() -> dict[str, Policy]:
    """The default policy for a board that is not power-capped and for one that is. ADAPTER, as above."""
    # perfzero.record.policy: windows of 1 s every 10 s in one session; at the cap a session of 1 s each 60 s.
    return {"uncapped": Policy(1 / 10, None), "capped": Policy(1 / 60, 60.0)}


class CapWatch:
    """Whether the board is at its power cap: the share of readings with that event reason."""

    def __init__(self, gpu: Gpu) -> None:
        from perfzero.sources.nvml import Board

        self._board = Board(gpu)
        self._board.open()
        self._seen: list[float] = []

    def look(self) -> None:
        """One reading."""
        self._seen += self._board.read().column("capped_power").tolist()

    def share(self) -> float:
        """The share of readings at the cap since the last call of this; NaN without a reading."""
        seen = [value for value in self._seen if value == value]
        self._seen = []
        return sum(seen) / len(seen) if seen else float("nan")

    def close(self) -> None:
        self._board.close()


def find_gpu(index: int) -> Gpu:
    """The GPU with this NVML index."""
    from perfzero.sources.nvml import select

    [gpu] = select([str(index)])
    return gpu


def timed(call: Any) -> tuple[int, int]:
    """Unix time in ns before and after *call*."""
    start = time.time_ns()
    call()
    return start, time.time_ns()
