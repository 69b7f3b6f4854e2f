"""
What the observed program's processes do on the host: the other half of why a GPU waits.

    tree        the root process and everything it started, followed from reading to reading;
                a process that loses its parent stays in it
    main        the process that feeds the GPU: the one with a GPU context (`gpu_pids`, set by the
                owner), else one that has a GPU's device file open, else the root behind its launchers
    workers     descendants of the main process that use CPU (data-loader workers and their like)

Everything is read from outside, out of /proc: nothing is attached to, stopped or signalled.

Cost: 3.4 ms of CPU per reading for 20 processes with 100 threads each (2.2 ms back to back; Python
3.11, Linux 6.18, two virtual cores), 0.3 % of a core at 1 Hz. Only the main process's threads are
looked at, because a file per thread is most of the price.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import psutil

from perfzero.counters import HOST_COUNTERS, Counter
from perfzero.errors import SourceError
from perfzero.sources import _proc
from perfzero.sources._tracers import tracers
from perfzero.values import Samples
from perfzero.words.said import say

BUSY = 0.05
"""A process counts as busy (a worker; a main thread worth asking) from this share of a core on."""

GPU_SEARCH_EVERY = 10
"""Readings between two searches for an open device file: it lists every open file of the tree."""

TRACERS_EVERY, TRACERS_AT = 30, (0, 5)
"""
In how many readings, and in which of them, tools that watch the tree are searched for: the name of every
process is read for it. Twice at first, for a program that is just starting may not have its own name yet.
"""

NAN = float("nan")


class _Totals(NamedTuple):
    """What a process has used since it began; NaN where this user may not see it."""

    cpu_s: float = 0.0
    faults: float = 0.0
    disk_wait_s: float = 0.0
    run_s: float = 0.0
    wait_s: float = 0.0
    read_bytes: float = 0.0
    write_bytes: float = 0.0

    def since(self, before: _Totals) -> _Totals:
        return _Totals(*(now - then for now, then in zip(self, before, strict=True)))


@dataclass(slots=True)
class _Tracked:
    """A process of the tree, and what it had used at the last reading."""

    process: Any  # psutil.Process
    started: int
    parent: int  # the first one seen: orphans stay descendants of whoever started them
    totals: _Totals


@dataclass(frozen=True, slots=True)
class _Used:
    """What a process used since the last reading, and how it was found."""

    totals: _Totals
    state: str
    swapped: float


class Host:
    """
    The process tree below *root_pid*, and the machine around it; each `read` is one row.

    With *root_pid* None only the machine's own columns are filled, the rest is NaN.
    `gpu_pids`: processes known to hold a context on the watched GPU; the owner may set it at any
    time, in this machine's PID numbers.
    """

    name = "host"
    counters: Sequence[Counter] = HOST_COUNTERS

    def __init__(self, root_pid: int | None) -> None:
        self.root_pid = root_pid
        self.gpu_pids: frozenset[int] = frozenset()
        self._open = False
        self._tree: dict[int, _Tracked] = {}
        self._judged: set[int] = set()  # PIDs alive at the last look, in the tree or not
        self._main: int | None = None
        self._holder: int | None = None
        self._threads: tuple[int, dict[int, float]] | None = None  # of which process, since when
        self._readings = 0
        self._start_ns = 0
        self._start_monotonic_ns = 0
        self._disk_wait_counted = False
        self._throttle = _proc.Throttle(())
        self._throttled: tuple[tuple[int, int], ...] | None = None
        self._machine = (NAN, NAN, NAN)
        self._tracers: set[str] = set()

    @property
    def tracers(self) -> tuple[str, ...]:
        """Debuggers and profilers that were seen to watch the tree so far, by name; also after `close`."""
        return tuple(sorted(self._tracers))

    @property
    def main_pid(self) -> int | None:
        """The process taken for the one that feeds the GPU, None before `open` and when all have ended."""
        return self._main

    def open(self) -> None:
        """Find the tree and take what the first row counts from. Raises `SourceError` for no such process."""
        if self._open:
            return
        if self.root_pid is not None:
            self._take_root(self.root_pid)
        self._disk_wait_counted = _proc.disk_wait_is_counted()
        self._machine = _machine_totals()
        self._start_ns, self._start_monotonic_ns = time.time_ns(), time.monotonic_ns()
        self._open = True

    def read(self) -> Samples:
        """
        One row for [previous reading, now); empty when closed or when the clock was set back.

        Totals count what happened in between; a process that began and ended in between is not seen.
        A column is NaN when one process of the tree hides it from this user: a sum of the rest would lie.
        """
        if not self._open:
            return Samples.empty(c.name for c in self.counters)
        start_ns, start_monotonic_ns = self._start_ns, self._start_monotonic_ns
        self._start_ns, self._start_monotonic_ns = time.time_ns(), time.monotonic_ns()
        duration_s = (self._start_monotonic_ns - start_monotonic_ns) / 1e9
        row = self._machine_row()
        if self.root_pid is not None:
            self._follow()
            row |= self._tree_row(duration_s)
            if self._readings % TRACERS_EVERY in TRACERS_AT:
                self._tracers |= tracers(self._tree, root=self.root_pid, everyone=self._judged)
        self._readings += 1
        if self._start_ns <= start_ns or duration_s <= 0:
            return Samples.empty(c.name for c in self.counters)
        return Samples(
            np.array([start_ns], np.int64),
            np.array([self._start_ns], np.int64),
            {c.name: np.array([row.get(c.name, NAN)], np.float64) for c in self.counters},
        )

    def close(self) -> None:
        """Forget the tree."""
        self._open = False
        self._tree.clear()
        self._judged.clear()
        self._main = self._holder = self._threads = None

    def pids(self) -> frozenset[int]:
        """The processes of the tree now; one that has just ended may be among them until the next reading."""
        if self._open and self.root_pid is not None:
            self._follow()
        return frozenset(self._tree)

    # --- the tree

    def _take_root(self, root_pid: int) -> None:
        self._judged = set(psutil.pids())  # before the tree: whoever comes later is looked at later
        try:
            root = psutil.Process(root_pid)
            family = [root, *root.children(recursive=True)]
        except psutil.Error as error:
            raise SourceError(say("host.no_process", pid=root_pid, why=error)) from error
        for process in family:
            self._adopt(process, _proc.stat(process.pid), counted_from_now=True)
        self._throttle = _proc.Throttle.of(root_pid)
        self._throttled = self._throttle.counts()
        self._choose_main()
        self._threads = self._thread_times()

    def _adopt(self, process: Any, found: _proc.Stat | None, *, counted_from_now: bool) -> None:
        if found is None or found.state in _proc.ENDED:
            return
        tracked = _Tracked(process, found.started, found.parent, _Totals())
        if counted_from_now:
            tracked.totals = _totals(process, found)
        self._tree[process.pid] = tracked

    def _follow(self) -> None:
        """Add what the tree has started since the last look. Only PIDs that are new are looked at."""
        alive = set(psutil.pids())
        strangers: dict[int, _proc.Stat] = {}
        for pid in alive - self._judged:
            found = _proc.stat(pid)
            if found is not None:
                strangers[pid] = found
        grown = True
        while grown:  # a child may have a lower PID than its parent once the numbers have wrapped
            grown = False
            for pid, found in list(strangers.items()):
                if found.parent in self._tree:
                    del strangers[pid]
                    grown = True
                    try:
                        # It began after the last look, so all it has used falls into this interval.
                        self._adopt(psutil.Process(pid), found, counted_from_now=False)
                    except psutil.Error:
                        continue
        for pid in self._tree.keys() - alive:
            del self._tree[pid]
        self._judged = alive

    # --- the row

    def _machine_row(self) -> dict[str, float]:
        before, self._machine = self._machine, _machine_totals()
        busy_s, all_s, net = (now - then for now, then in zip(self._machine, before, strict=True))
        return {
            "host_net_bytes": net if net >= 0 else NAN,  # an interface went away, or its counter wrapped
            # Busy time is a difference of sums of rounded times, and may come out a trifle below 0.
            "host_cpu_busy": min(max(busy_s / all_s, 0.0), 1.0) if all_s > 0 else NAN,
        }

    def _tree_row(self, duration_s: float) -> dict[str, float]:
        used = self._use()
        if not used or duration_s <= 0:
            self._main = self._threads = None
            return {"host_processes": 0.0}
        everything = [u.totals for u in used.values()]
        main_cpu = self._main_cpu(duration_s)
        workers = [
            used[pid].totals.cpu_s / duration_s
            for pid in self._descendants(self._main)
            if pid in used and used[pid].totals.cpu_s / duration_s > BUSY
        ]
        throttled, self._throttled = self._throttled, self._throttle.counts()
        return {
            "host_main_cpu": main_cpu,
            "host_tree_cpu": sum(t.cpu_s for t in everything) / duration_s,
            "host_processes": float(len(used)),
            "host_workers": float(len(workers)),
            "host_worker_cpu": sum(workers) / len(workers) if workers else NAN,
            "host_runqueue_wait": _runqueue_wait(used.values(), duration_s),
            "host_io_wait": _io_wait(used.values(), duration_s, counted=self._disk_wait_counted),
            "host_major_faults": sum(t.faults for t in everything),
            "host_throttled": _proc.throttled_share(throttled, self._throttled),
            "host_disk_read_bytes": sum(t.read_bytes for t in everything),
            "host_disk_write_bytes": sum(t.write_bytes for t in everything),
            "host_swap_bytes": sum(u.swapped for u in used.values()),
        }

    def _use(self) -> dict[int, _Used]:
        """What each living process used since the last reading; the ended ones leave the tree."""
        used = {}
        swap = _proc.swap_is_used()
        for pid, tracked in list(self._tree.items()):
            found = _proc.stat(pid)
            if found is None or found.state in _proc.ENDED or found.started != tracked.started:
                del self._tree[pid]
                if found is not None and found.started != tracked.started:
                    self._judged.discard(pid)  # the number went to another process: look at that one anew
                continue
            totals = _totals(tracked.process, found)
            used[pid] = _Used(totals.since(tracked.totals), found.state, _swapped(pid) if swap else 0.0)
            tracked.totals = totals
        return used

    # --- the main process

    def _main_cpu(self, duration_s: float) -> float:
        """CPU use of the busiest thread of the main process, in cores."""
        before = self._threads
        self._choose_main()
        self._threads = self._thread_times()
        if before is None or self._threads is None or before[0] != self._threads[0]:
            return NAN  # another process than before: there is nothing yet to count from
        return max(ran - before[1].get(t, 0.0) for t, ran in self._threads[1].items()) / duration_s

    def _thread_times(self) -> tuple[int, dict[int, float]] | None:
        if self._main is None:
            return None
        times = _proc.thread_run_times(self._main)
        if times is None:  # a kernel without schedstat: ticks of 10 ms have to do
            try:
                threads = self._tree[self._main].process.threads()
            except psutil.Error:
                return None
            times = {t.id: t.user_time + t.system_time for t in threads}
        return (self._main, times) if times else None

    def _choose_main(self) -> None:
        known = self.gpu_pids & self._tree.keys()
        if known:
            # The oldest, and the same one for as long as it lives: rank 0 of several, as a rule.
            self._main = self._main if self._main in known else self._oldest(known)
            return
        if self._holder not in self._tree:
            self._holder = None
            if self._readings % GPU_SEARCH_EVERY == 0:
                # Forked workers inherit the open file, so the oldest is the one that opened it.
                self._holder = next(filter(_proc.holds_gpu, sorted(self._tree, key=self._age)), None)
        self._main = self._holder if self._holder is not None else self._behind_launchers()

    def _oldest(self, pids: Iterable[int]) -> int | None:
        return min(pids, key=self._age, default=None)

    def _age(self, pid: int) -> tuple[int, int]:
        return self._tree[pid].started, pid

    def _behind_launchers(self) -> int | None:
        """
        The root, or where that is a shell, `uv run` and the like: what it launched.

        A launcher has one child, of another program. A main process with one data-loader worker
        has one child too, but of its own program.
        """
        at = self.root_pid if self.root_pid in self._tree else self._oldest(self._tree)
        while at is not None:
            children = [pid for pid, tracked in self._tree.items() if tracked.parent == at]
            if len(children) != 1 or self._program(children[0]) in (None, self._program(at)):
                return at
            at = children[0]
        return None

    def _program(self, pid: int) -> str | None:
        try:
            return os.readlink(f"{_proc.PROC}/{pid}/exe")
        except OSError:  # gone, or another user's
            return None

    def _descendants(self, of: int | None) -> set[int]:
        found: set[int] = set()
        latest = set() if of is None else {of}
        while latest:
            latest = {pid for pid, tracked in self._tree.items() if tracked.parent in latest} - found
            found |= latest
        return found - {of}


def _totals(process: Any, found: _proc.Stat) -> _Totals:
    timed = _proc.run_and_wait(process.pid)
    run_s, wait_s = (NAN, NAN) if timed is None else timed
    try:
        moved = process.io_counters()
        read_bytes, write_bytes = float(moved.read_bytes), float(moved.write_bytes)
    except (psutil.Error, OSError, ValueError):  # ValueError: psutil on a process that is just ending
        read_bytes = write_bytes = NAN
    return _Totals(
        found.cpu_s, float(found.major_faults), found.disk_wait_s, run_s, wait_s, read_bytes, write_bytes
    )


def _swapped(pid: int) -> float:
    try:
        swapped = _proc.swapped_bytes(pid)
    except PermissionError:
        return NAN
    return NAN if swapped is None else swapped


def _runqueue_wait(used: Iterable[_Used], duration_s: float) -> float:
    """
    Mean share of time in which the busy processes' main threads had work and no core.

    Over those that wanted CPU or a disk for at least `BUSY` of the time: sleeping processes would
    only dilute it. 0 when none did; NaN where the kernel keeps no record.
    """
    busy = [t for t in (u.totals for u in used) if not t.run_s + t.wait_s < BUSY * duration_s]
    return sum(t.wait_s for t in busy) / duration_s / len(busy) if busy else 0.0


def _io_wait(used: Iterable[_Used], duration_s: float, *, counted: bool) -> float:
    """
    Mean share of time in which the busy processes' main threads were blocked on a disk.

    Counted by the kernel where it does so. Elsewhere estimated from their states at the moment of
    the reading ("D", uninterruptible): rough in one row, right in the mean of many.
    """
    everyone = list(used)
    if any(math.isnan(u.totals.run_s) for u in everyone):
        return NAN  # such a kernel (gVisor) writes 0 for the disk's time as well
    if counted:
        blocked = [u.totals.disk_wait_s / duration_s for u in everyone]
    else:
        blocked = [float(u.state == "D") for u in everyone]
    busy = [
        b
        for u, b in zip(everyone, blocked, strict=True)
        if (u.totals.run_s + u.totals.wait_s) / duration_s + b >= BUSY
    ]
    return sum(busy) / len(busy) if busy else 0.0


def _machine_totals() -> tuple[float, float, float]:
    """Busy and all CPU seconds over all cores, and bytes over the network interfaces, since boot."""
    times = psutil.cpu_times()
    # Guest time is part of user time; waiting for a disk is idle time of a core.
    every = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    idle = times.idle + getattr(times, "iowait", 0.0)
    try:
        cards = psutil.net_io_counters(pernic=True, nowrap=False)
    except OSError:
        return every - idle, every, NAN
    # A bridge, a bond or a container's virtual card repeats what a real card carried.
    real = [card for card in cards if os.path.exists(f"/sys/class/net/{card}/device")]
    chosen = real or [card for card in cards if card != "lo"]
    return every - idle, every, float(sum(cards[c].bytes_sent + cards[c].bytes_recv for c in chosen))
