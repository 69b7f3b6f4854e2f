"""
When the host is sampled, and what of it becomes part of the recording.

Once per run, while the GPUs are looked at closely from outside: only there the counters say when the GPU was
idle. What py-spy finds becomes one file of the recording (`perfzero.store.stacks`), with the text of those
lines of the program that were seen. Whatever fails is a sentence in that file and on the terminal, and
everything else goes on.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

from perfzero.attribute.source_lines import is_users
from perfzero.errors import SourceError
from perfzero.sources import stacks as source
from perfzero.stacks import Frame, HostStacks, ProcessStacks
from perfzero.store.regular import open_regular
from perfzero.store.stacks import MAX_LINE, MAX_LINES, chrome_trace, write_stacks
from perfzero.traces import Function

MAX_SOURCE_BYTES = 4 << 20
"""A file of Python that is longer was not written by hand."""


class HostSampling:
    """Samples the host once; *say* is told what could not be done."""

    def __init__(self, *, say: Callable[[str], None]) -> None:
        self._say = say
        self._folder: Path | None = None
        self._stacks: source.Stacks | None = None
        self._begun = False
        self._found: HostStacks | None = None

    @property
    def begun(self) -> bool:
        """Whether it was tried already."""
        return self._begun

    @property
    def cpu_s(self) -> float:
        """CPU time of py-spy in seconds, as far as it has ended."""
        return 0.0 if self._stacks is None else self._stacks.cpu_s

    def begin(self, pid: int) -> None:
        """Sample the process *pid*, which feeds the GPU, and some of its workers."""
        self._begun = True
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="perfzero-stacks-"))
            self._stacks = source.Stacks(self._folder)
            self._stacks.begin(pid, role="main", rate_hz=source.MAIN_HZ)
            for worker in source.workers_of(pid):
                self._stacks.begin(worker, role="worker", rate_hz=source.WORKER_HZ)
        except (OSError, SourceError) as error:
            self._give_up(str(error).splitlines()[0])

    def tick(self) -> None:
        """Take what py-spy has found, once it has ended; the program's files can be read while it runs."""
        if self._stacks is not None and self._found is None and self._stacks.poll():
            self._take(self._stacks)

    def close(self, recording: Path | None = None) -> None:
        """End what still runs, and write what was found into *recording*, if any. Raises OSError."""
        try:
            if self._stacks is not None:
                if self._found is None:
                    self._stacks.finish()
                if self._found is None:
                    self._take(self._stacks)
            if recording is not None and self._found is not None:
                write_stacks(recording, self._found)
        finally:
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
            self._stacks = self._folder = None

    def _take(self, stacks: source.Stacks) -> None:
        processes: list[ProcessStacks] = []
        doubts: list[str] = []
        for one in stacks.sampled:
            try:
                if one.failure:
                    raise ValueError(one.failure)
                processes.append(taken(one))
            except (OSError, ValueError) as error:
                why = getattr(error, "strerror", None) or error
                doubts.append(f"The host's process {one.pid} could not be sampled: {why}.")
        for doubt in doubts[:1]:
            self._say(f"{doubt[0].lower()}{doubt[1:].rstrip('.')}")
        self._found = HostStacks(tuple(processes), program_lines(processes), tuple(doubts))

    def _give_up(self, why: str) -> None:
        self._say(f"the host is not sampled: {why.rstrip('.')}")
        if self._stacks is not None:
            self._stacks.close()
        self._stacks = None
        self._found = HostStacks(doubts=(f"The host was not sampled: {why.rstrip('.')}.",))


def taken(one: source.Sampled) -> ProcessStacks:
    """What py-spy wrote of a process. Raises OSError and ValueError."""
    with open_regular(one.trace) as file:
        frames, stacks, time_us, thread, stack = chrome_trace(file)
    if not any(stacks):
        raise ValueError("it runs no Python, or was not seen to")
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


def program_lines(processes: Iterable[ProcessStacks]) -> dict[tuple[str, int], str]:
    """(file, line) -> its text, of the program's own lines among all that were seen."""
    wanted: dict[tuple[int, str], set[int]] = {}
    for process in processes:
        for frame in process.frames:
            if own(frame) and frame.line > 0:
                wanted.setdefault((process.pid, frame.file), set()).add(frame.line)
    found: dict[tuple[str, int], str] = {}
    for (pid, file), numbers in wanted.items():
        missing = {n for n in numbers if (file, n) not in found}
        if missing and len(found) + len(missing) <= MAX_LINES:
            text = source_of(pid, file)
            found |= {(file, n): text[n - 1].strip()[:MAX_LINE] for n in missing if n <= len(text)}
    return found


def own(frame: Frame) -> bool:
    """Whether a frame is the program's own."""
    return is_users(Function(frame.file, frame.line, frame.function))


def source_of(pid: int, file: str) -> list[str]:
    """
    The lines of a file of Python as the process *pid* sees it; none where it may not be read.

    The name comes from the program's memory. So nothing is read for it that its user could not read: only a
    file ending in .py that belongs to this user, or that everybody may read.
    """
    if not file.endswith(".py") or "\0" in file:
        return []
    for root, folder in ((f"/proc/{pid}/root", f"/proc/{pid}/cwd"), ("", "")):
        path = f"{root}{file}" if os.path.isabs(file) else f"{folder}/{file}" if folder else file
        path = path if root else os.path.realpath(path)
        if not path.endswith(".py"):
            continue
        try:
            with open_regular(Path(path)) as source_file:
                seen = os.fstat(source_file.fileno())
                if not seen.st_mode & stat.S_IROTH and seen.st_uid != _user(pid):
                    return []
                return source_file.read(MAX_SOURCE_BYTES).decode(errors="replace").splitlines()
        except OSError:
            continue
    return []


def _user(pid: int) -> int:
    """Whose process it is; nobody's where it has ended."""
    try:
        return int(psutil.Process(pid).uids().real)
    except psutil.Error:
        return -1
