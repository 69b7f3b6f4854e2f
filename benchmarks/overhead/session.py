"""The seams to the product: a PM sampling session as the recorder has it, and what its policy would do."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from perfzero.record.policy import DEFAULTS, Policy, Settings, Situation
from perfzero.record.sampler_client import SamplerClient
from perfzero.record.selection import windows_counters
from perfzero.sources._nvml import select
from perfzero.sources.nvml import Board
from perfzero.values import Gpu, Samples

PERIOD_NS = 1_000_000
ANSWER_S = 20.0
"""How long a command may take (opening: half a second on an H200)."""

SETTLED_AFTER_S = 10.0
"""When the imagined program of `plan_of` is through with its warm-up."""


class Session:
    """
    The sampler of one GPU in its own process, as `perfzero record` uses it.

    Every method returns when the sampler has done it, and raises RuntimeError when it has not.
    `samples` counts what arrived, so that a session that delivers nothing is noticed.
    """

    def __init__(self, gpu: Gpu) -> None:
        self._events: queue.Queue[Mapping[str, Any]] = queue.Queue()
        self.samples = 0
        self._client = SamplerClient(gpu, on_samples=self._count, on_event=self._hear)

    @property
    def pid(self) -> int:
        return self._client.pid

    def open(self, *, period_ns: int = PERIOD_NS, lean: bool = False) -> None:
        """With all counters of windows, or *lean* without the costly ones."""
        counters = windows_counters(lean=lean, gpm=True)
        self._client.open(period_ns=period_ns, drain_s=DEFAULTS.drain_s, counters=counters)
        self._await("opened")

    def start(self) -> None:
        self._client.start(kind="continuous")
        self._await("started")

    def stop(self) -> None:
        self._client.stop()
        self._await("window")

    def close(self) -> None:
        self._client.close()
        self._await("closed")

    def quit(self) -> None:
        self._client.quit()

    def _count(self, gpu: int, kind: str, samples: Samples) -> None:  # noqa: ARG002 (the client's contract)
        self.samples += len(samples)

    def _hear(self, gpu: int, event: Mapping[str, Any]) -> None:  # noqa: ARG002 (the client's contract)
        self._events.put(event)

    def _await(self, wanted: str) -> None:
        deadline = time.monotonic() + ANSWER_S
        while True:
            try:
                event = self._events.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise RuntimeError(f"the sampler did not answer with {wanted!r}") from None
            if event.get("event") in ("error", "gone"):
                raise RuntimeError(f"the sampler failed, not {wanted!r}: {dict(event)}")
            if event.get("event") == wanted:
                return


@dataclass(frozen=True, slots=True)
class PolicyPlan:
    """What the default policy does in a run: shares of the time, and how often it opens a session."""

    sampling_share: float
    open_share: float
    sessions: int


def plan_of(*, capped: bool, run_s: float, tick_s: float = 0.05) -> PolicyPlan:
    """The product's own policy, asked every *tick_s* about an imagined steady program."""
    policy = Policy(Settings())
    session, until, sampled, held, sessions = "none", 0.0, 0.0, 0.0, 0
    for tick in range(round(run_s / tick_s)):
        now = tick * tick_s
        situation = Situation(
            now_s=now, working=True, settled=now >= SETTLED_AFTER_S, capped=capped,
            session=session, sampling=now < until,  # type: ignore[arg-type]
        )  # fmt: skip
        action = policy.decide(situation)
        if action.verb == "open":
            session, sessions = ("zoom" if action.zoom else "window"), sessions + 1
        elif action.verb == "close":
            session = "none"
        elif action.verb == "start":
            until = now + (run_s if action.duration_s is None else action.duration_s)
            sampled += min(until, run_s) - now
        held += tick_s if session != "none" else 0.0
    return PolicyPlan(sampled / run_s, held / run_s, sessions)


def windows_after(moment_s: float, *, run_s: float, capped: bool) -> int:
    """How many windows the default policy begins between *moment_s* and the end of a steady run."""
    return started(run_s, capped=capped) - started(moment_s, capped=capped)


def started(run_s: float, *, capped: bool, tick_s: float = 0.05) -> int:
    policy, session, until, count = Policy(Settings()), "none", 0.0, 0
    for tick in range(round(run_s / tick_s)):
        now = tick * tick_s
        action = policy.decide(
            Situation(now, True, now >= SETTLED_AFTER_S, capped, session, now < until)  # type: ignore[arg-type]
        )
        if action.verb in ("open", "close"):
            session = ("zoom" if action.zoom else "window") if action.verb == "open" else "none"
        elif action.verb == "start":
            until, count = now + (action.duration_s or run_s), count + 1
    return count


class CapWatch:
    """Whether the board is at its power cap: the share of readings with that event reason."""

    def __init__(self, gpu: Gpu) -> None:
        self._board = Board(gpu)
        self._board.open()
        self._seen: list[float] = []

    def look(self) -> None:
        """One reading."""
        self._seen += self._board.read().column("capped_power").tolist()

    def share(self) -> float:
        """The share of readings at the cap; NaN without a reading."""
        seen = [value for value in self._seen if value == value]
        return sum(seen) / len(seen) if seen else float("nan")

    def close(self) -> None:
        self._board.close()


def find_gpu(index: int) -> Gpu:
    """The GPU with this NVML index."""
    [gpu] = select([str(index)])
    return gpu


def timed(call: Callable[[], object]) -> tuple[int, int]:
    """Unix time in ns before and after *call*."""
    start = time.time_ns()
    call()
    return start, time.time_ns()
