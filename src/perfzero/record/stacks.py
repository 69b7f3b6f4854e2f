"""
When the host is sampled, and what of it becomes part of the recording.

Once per run, while the GPUs are looked at closely from outside: only there the counters say when the GPU was
idle. What py-spy finds becomes one file of the recording (`perfzero.store.stacks`), with the text of those
lines of the program that were seen. Whatever fails is a sentence in that file and on the terminal, and
everything else goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import SubprocessError

import numpy as np

from perfzero.attribute.source_lines import is_users
from perfzero.errors import SourceError
from perfzero.record.program_source import MOST_SECONDS, View, view_of
from perfzero.sources import gil
from perfzero.sources import stacks as source
from perfzero.stacks import Frame, GilUse, HostStacks, ProcessStacks, Role
from perfzero.store.stacks import MAX_LINE, MAX_LINES, chrome_trace, write_stacks
from perfzero.traces import Function
from perfzero.words.said import clause, first_line, say, within


class HostSampling:
    """Samples the host once; *say* is told what could not be done."""

    def __init__(self, *, say: Callable[[str], None]) -> None:
        self._say = say
        self._stacks: source.Stacks | None = None
        self._gil: gil.GilWaits | None = None
        self._views: dict[int, View] = {}
        self._begun = False
        self._found: HostStacks | None = None

    @property
    def begun(self) -> bool:
        """Whether it was tried already."""
        return self._begun

    @property
    def cpu_s(self) -> float:
        """CPU time of those that sample, in seconds, as far as they have ended."""
        waits_s = 0.0 if self._gil is None else self._gil.cpu_s
        return waits_s + (0.0 if self._stacks is None else self._stacks.cpu_s)

    def begin(self, pid: int) -> None:
        """Sample the process *pid*, which feeds the GPU, and some of its workers."""
        self._begun = True
        try:
            self._stacks = source.Stacks()
            self._sample(self._stacks, pid, "main", source.MAIN_HZ)
            with suppress(OSError, SubprocessError, SourceError):  # lines can be told without
                self._gil = gil.GilWaits(pid, seconds=source.SECONDS)
                self._stacks.begin(pid, role="main", rate_hz=source.HOLDERS_HZ, holders=True)
            for worker in source.workers_of(pid):
                self._sample(self._stacks, worker, "worker", source.WORKER_HZ)
        except (OSError, SourceError) as error:
            self._give_up(first_line(getattr(error, "sentence", str(error))))

    def _sample(self, stacks: source.Stacks, pid: int, role: Role, rate_hz: float) -> None:
        stacks.begin(pid, role=role, rate_hz=rate_hz)
        if (view := view_of(pid)) is not None:  # now, for it may have ended when its lines are read
            self._views[pid] = view

    def tick(self, *, busy: bool = False) -> None:
        """
        Take what py-spy has found, once it has ended.

        That may take seconds, if there is much of it: not now, if somebody waits for us (*busy*).
        """
        ended = self._stacks is not None and self._found is None and self._stacks.poll()
        if ended and not busy and self._stacks is not None:
            self._take(self._stacks)

    def close(self, recording: Path | None = None) -> None:
        """End what still runs, and write what was found into *recording*, if any. Raises OSError."""
        try:
            if self._stacks is not None and self._found is None:
                self._stacks.finish()
                self._take(self._stacks)
            if recording is not None and self._found is not None:
                write_stacks(recording, self._found)
        finally:
            self._let_go()

    def _take(self, stacks: source.Stacks) -> None:
        processes: list[ProcessStacks] = []
        doubts: list[str] = []
        holders: ProcessStacks | None = None
        for one in stacks.sampled:
            try:
                if one.failure:
                    raise ValueError(one.failure)
                if one.holders:
                    holders = taken(one)
                else:
                    processes.append(taken(one))
            except (OSError, ValueError) as error:
                if one.holders:  # nobody may have held it
                    continue
                why = getattr(error, "strerror", None) or error
                doubts.append(say("stacks.process", pid=one.pid, why=why))
        for doubt in doubts[:1]:
            self._say(within(doubt))
        seen = [*processes, *([] if holders is None else [holders])]
        lines = program_lines(seen, self._views)
        use = None if self._gil is None else gil_use(self._gil.finish(), holders)
        self._found = HostStacks(tuple(processes), lines, tuple(doubts), use)
        self._let_go()

    def _give_up(self, why: str) -> None:
        self._say(say("stacks.off", why=clause(why)))
        self._let_go()
        self._found = HostStacks(doubts=(say("stacks.was_off", why=clause(why)),))

    def _let_go(self) -> None:
        """Keep no process and no file open."""
        if self._stacks is not None:
            self._stacks.close()
        if self._gil is not None:
            self._gil.close()
        for view in self._views.values():
            view.close()
        self._views.clear()


def taken(one: source.Sampled) -> ProcessStacks:
    """What py-spy wrote of a process. Raises OSError and ValueError."""
    frames, stacks, time_us, thread, stack = chrome_trace(one.trace)
    if not any(stacks):
        raise ValueError(say("stacks.no_python"))
    return ProcessStacks(
        pid=one.pid,
        role=one.role,
        start_ns=one.begun_ns,
        end_ns=one.begun_ns + int(time_us[-1]) * 1000,
        rate_hz=one.rate_hz,
        slack_ns=source.SLACK_NS,
        time_ns=one.begun_ns + time_us * 1000,
        thread=thread,
        stack=stack,
        frames=tuple(frames),
        stacks=tuple(stacks),
    )


def gil_use(looks: Sequence[tuple[int, bool]], holders: ProcessStacks | None) -> GilUse | None:
    """When the main thread waited for the GIL, and who held it; None where it was not seen."""
    if not looks:
        return None
    time_ns, waits = (np.array(column, np.int64) for column in zip(*looks, strict=True))
    return GilUse(time_ns, waits, gil.WAITS_HZ, holders)


def program_lines(
    processes: Iterable[ProcessStacks], views: Mapping[int, View]
) -> dict[tuple[str, int], str]:
    """
    (file, line) -> its text, of the program's own lines among all that were seen.

    *views*: how each process sees files, by its pid. The names of files are the program's choice, so there is
    a limit on how many are read and on how long that takes.
    """
    found: dict[tuple[str, int], str] = {}
    deadline = time.monotonic() + MOST_SECONDS
    for process in processes:
        wanted: dict[str, set[int]] = {}
        room = MAX_LINES - len(found)
        for frame in process.frames:
            if own(frame) and frame.line > 0 and (frame.file, frame.line) not in found and room > 0:
                wanted.setdefault(frame.file, set()).add(frame.line)
                room -= 1
        if (view := views.get(process.pid)) is not None:
            read = view.read(wanted, seconds=deadline - time.monotonic())
            found |= {at: text[:MAX_LINE] for at, text in read.items()}
    return found


def own(frame: Frame) -> bool:
    """Whether a frame is the program's own."""
    return is_users(Function(frame.file, frame.line, frame.function))
