"""
Where snapshots come from: the GPUs of this machine, or a recording that is replayed.

Both read GPM and the board through `perfzero.sources.base.Source` and nothing else. In particular neither
opens PM sampling, which is exclusive and costs the programs on the GPU something; a close look does
(`perfzero.live.close_look`), and only when it is asked for.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Annotated, Protocol

from perfzero.errors import SourceError
from perfzero.limits import CHOICE, Limit
from perfzero.live.processes import Names, short_command
from perfzero.live.snapshot import COLUMN_S, GPM_COUNTERS, Course, ProcessNow, Snapshot
from perfzero.sources.base import Source
from perfzero.sources.replay import Replay
from perfzero.store.reader import Recording
from perfzero.text import printable
from perfzero.values import Gpu, Samples
from perfzero.words.said import first_line, say

SLOW_S: Annotated[float, Limit("seconds", CHOICE)] = 4.0
"""
How old memory and processes may be. NVML takes locks of the driver for them and milliseconds of CPU (up to
5 in a virtual machine), which at every reading would be half of what the display costs.
"""

AGAIN_S = 30.0
"""A GPU that is lost is tried again so much later: it may have been reset. To ask may take long."""

AT_WORK: Annotated[float, Limit("ratio", CHOICE)] = 0.75
"""At this share of a recording its program is through with its start and has not ended yet."""


class Reading(Protocol):
    """What a display is fed by."""

    close_looks: bool
    """Whether a close look can be asked for."""

    @property
    def gpus(self) -> Sequence[Gpu]:
        """The GPUs that are read, in the order in which they are shown."""
        ...

    def open(self) -> None:
        """Take what is needed; raises a `SourceError` where no GPU can be read at all."""
        ...

    def read(self) -> Snapshot:
        """What has come since the last reading. Never raises for a GPU that is gone: it is told as lost."""
        ...

    def skip(self) -> None:
        """Let what has come since the last reading be: nobody looked, and its mean is not of now."""
        ...

    def forward(self) -> None:
        """Where time can be made to pass, let some pass, so that there is something to show."""
        ...

    def close(self) -> None:
        """Give everything back. Harmless when called twice."""
        ...


@dataclass(slots=True, eq=False)
class _Watched:
    """One GPU with its sources; `held_by` answers who holds memory of it."""

    course: Course
    gpm: Source | None
    board: Source
    processes: Callable[[], tuple[ProcessNow, ...] | None]
    power_limit_w: Callable[[], float | None]
    lost: str = ""
    tried_ns: int = 0

    def again(self, now_ns: int) -> None:
        """Where it is lost, and was not tried for long, see whether it answers now."""
        if now_ns - self.tried_ns < AGAIN_S * 1e9:
            return
        self.tried_ns = now_ns
        try:
            for source in (self.board, self.gpm):
                if source is not None:
                    source.close()
                    source.open()
        except SourceError as error:
            self.lost = first_line(error.sentence)
            return
        self.lost = ""
        self.take()

    def take(self) -> None:
        try:
            board = self.board.read()
            gpm = Samples.empty() if self.gpm is None else self.gpm.read()
        except SourceError as error:
            self.lost = first_line(error.sentence)
            return
        self.course.add(gpm, board)

    def skip(self) -> None:
        try:
            self.board.read()
            if self.gpm is not None:
                self.gpm.read()
        except SourceError as error:
            self.lost = first_line(error.sentence)


class _Reader:
    """What both readings have in common."""

    close_looks = False

    def __init__(self, *, every_s: float, now_ns: Callable[[], int]) -> None:
        self._every_s = every_s
        self._column_s = max(COLUMN_S, every_s)
        self._now_ns = now_ns
        self._watched: list[_Watched] = []
        self._resources = ExitStack()
        self._notices: list[str] = []
        self._driver = ""
        self._host = ""

    @property
    def gpus(self) -> Sequence[Gpu]:
        """The GPUs that are read."""
        return [watched.course.gpu for watched in self._watched]

    def read(self) -> Snapshot:
        """What has come since the last reading."""
        now_ns = self._now_ns()
        for watched in self._watched:
            if watched.lost:
                watched.again(now_ns)
            else:
                watched.take()
                watched.tried_ns = now_ns
        return Snapshot(
            now_ns,
            tuple(
                w.course.now(
                    now_ns,
                    power_limit_w=w.power_limit_w(),
                    processes=None if w.lost else w.processes(),
                    lost=w.lost,
                )
                for w in self._watched
            ),
            driver=self._driver,
            host=self._host,
            column_s=self._column_s,
            notices=tuple(self._notices),
        )

    def skip(self) -> None:
        """Let what has come since the last reading be."""
        for watched in self._watched:
            if not watched.lost:
                watched.skip()

    def forward(self) -> None:
        """Nothing can be hurried."""

    def close(self) -> None:
        """Give everything back."""
        self._resources.close()


class Machine(_Reader):
    """The GPUs of this machine: those named by *wanted*, or all."""

    close_looks = True

    def __init__(
        self, wanted: Sequence[str] = (), *, every_s: float = 1.0, now_ns: Callable[[], int] = time.time_ns
    ) -> None:
        super().__init__(every_s=every_s, now_ns=now_ns)
        self._wanted = tuple(wanted)
        self._names = Names()
        self._pids: dict[int, Sequence[int]] = {}

    def open(self) -> None:
        """Take the sources of every GPU. Raises `NoGpu`, or `UsageError` for one that is not there."""
        from perfzero.record.kept_roofs import with_kept_roofs
        from perfzero.sources import nvml

        try:
            self._resources.enter_context(nvml.session())  # while this one lasts further ones are free
            found = nvml.select(self._wanted) if self._wanted else nvml.discover()
            found = with_kept_roofs(found, tell=self._notices.append)
            self._driver = next((gpu.driver for gpu in found if gpu.driver), "")
            self._host = printable(platform.node())
            for gpu in found:
                self._watched.append(self._watch(gpu))
        except BaseException:
            self.close()
            raise

    def _watch(self, gpu: Gpu) -> _Watched:
        from perfzero.sources.gpm import Gpm
        from perfzero.sources.nvml import Board

        board = Board(gpu)
        board.slow_every = max(1, round(SLOW_S / self._every_s))
        self._resources.callback(board.close)
        gpm: Gpm | None = Gpm(gpu, names=GPM_COUNTERS)
        lost = without_gpm = ""
        try:
            board.open()
        except SourceError as error:
            lost = first_line(error.sentence)
        try:
            if gpm is not None:
                gpm.open()
                self._resources.callback(gpm.close)
        except SourceError as error:
            gpm, without_gpm = None, first_line(error.sentence)
        course = Course(
            gpu,
            tier="nvml" if gpm is None else "gpm",
            without_gpm=without_gpm,
            every_s=self._every_s,
            column_s=self._column_s,
        )

        def processes() -> tuple[ProcessNow, ...] | None:
            held = board.held_by
            self._pids[gpu.index] = () if held is None else tuple(held)
            self._names.forget_all_but([pid for pids in self._pids.values() for pid in pids])
            return self._names.of(gpu.index, held)

        return _Watched(course, gpm, board, processes, lambda: board.power_limit_w, lost)


class Replayed(_Reader):
    """The GPUs of *recording*, at the pace at which they were recorded, over and over again."""

    def __init__(
        self,
        recording: Recording,
        *,
        every_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._ahead_s: float = 0.0  # how far the replay is ahead of the clocks
        super().__init__(every_s=every_s, now_ns=lambda: now_ns() + round(self._ahead_s * 1e9))
        self._recording = recording
        self._clock = lambda: clock() + self._ahead_s
        self._sources: list[Replay] = []

    def open(self) -> None:
        """Start the replay. Raises `NoRecording` where a GPU has no state of its board."""
        recording = self._recording
        manifest = recording.manifest
        self._driver = next((gpu.driver for gpu in manifest.gpus if gpu.driver), "")
        self._notices = [say("top.replayed", path=printable(str(recording.path)))]
        for gpu in manifest.gpus:
            streams = {stream for stream, index in recording.streams if index == gpu.index}
            board = self._stream("board", gpu)
            gpm = self._stream("gpm", gpu) if "gpm" in streams else None
            for source in (board, gpm):
                if source is not None:
                    source.open()
                    self._sources.append(source)
                    self._resources.callback(source.close)
            reason = manifest.tier_reasons.get(gpu.index)
            why = say("top.recorded_without_gpm") if reason is None else printable(reason)
            course = Course(
                gpu,
                tier="nvml" if gpm is None else "gpm",
                without_gpm=why if gpm is None else "",
                every_s=self._every_s,
                column_s=self._column_s,
            )
            seen = self._processes(gpu)
            self._watched.append(_Watched(course, gpm, board, lambda seen=seen: seen, lambda: None))  # type: ignore[misc]

    def _stream(self, name: str, gpu: Gpu) -> Replay:
        return Replay(self._recording, name, gpu.index, clock=self._clock, now_ns=self._now_ns)

    def forward(self) -> None:
        """Go on, a refresh at a time and without waiting, to a moment at which the program is at work."""
        while self._ahead_s + self._every_s < AT_WORK * self._recorded_s():
            self._ahead_s += self._every_s
            self.read()

    def _recorded_s(self) -> float:
        manifest = self._recording.manifest
        seen = self._recording.observation(manifest.gpus[0].index) if manifest.gpus else None
        return 0.0 if seen is None else (seen.end_ns - seen.start_ns) / 1e9

    def read(self) -> Snapshot:
        """What would have come since the last reading; from the start again when all has come."""
        if all(source.exhausted for source in self._sources):
            for source in self._sources:
                source.open()
        return super().read()

    def _processes(self, gpu: Gpu) -> tuple[ProcessNow, ...]:
        """The observed program and those that were there beside it; who they were is not recorded."""
        process = self._recording.manifest.process
        own = [] if process.pid is None else [(process.pid, short_command(process.command))]
        others = [(pid, "") for pid in self._recording.manifest.other_pids.get(gpu.index, ())]
        return tuple(ProcessNow(gpu.index, pid, "", command, math.nan) for pid, command in [*own, *others])
