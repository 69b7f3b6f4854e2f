"""
Lines of the program's source, read with no more rights than the program's user has.

The names of files come from the program's memory, so it chooses what is read. Root could read anything; and a
link in a container leads elsewhere for us than for those inside. So a `View` is taken of a process while it
runs (its ids, its root and its working folder), and files are read by a child that takes these ids before it
touches any of them. The kernel then checks each folder and the file itself. `open_inside` follows links by
itself, and an absolute one or a `..` begins or ends at the process's root. Beyond that a file has to belong
to the process's user or be open to everybody, which matters where that is root with fewer rights than ours.

The child has limits on its time, its memory and what it writes, and is left behind if the disk holds it. It
is this file, run by path: below here nothing but the standard library, so that nothing else is imported.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import resource
import stat
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MOST_FILES = 200
"""A program is seen in some tens of files of its own."""

MOST_SECONDS = 1.0
"""For all files of a process; a hundred of usual size take a tenth of that, most of it to start Python."""

ENDS_S = 0.5
"""For so much longer it is waited for: to start, and to end when it is killed."""

MOST_BYTES = 4 << 20
"""A file of Python that is longer was not written by hand."""

MOST_TEXT = 1000
"""Characters of a line that are told; more are kept of none."""

MOST_LINKS = 40
"""As many as Linux follows."""

_ANSWER_BYTES, _MEMORY_BYTES, _CPU_S = 16 << 20, 1 << 30, 2
"""What the child may use."""

_FOLDER = os.O_DIRECTORY | os.O_CLOEXEC
_PATH = getattr(os, "O_PATH", 0)


@dataclass(frozen=True, slots=True)
class View:
    """Files as a process sees them: `root` and `cwd` are open folders. It outlives the process."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    root: int
    cwd: int

    def read(
        self, wanted: Mapping[str, Collection[int]], *, seconds: float = MOST_SECONDS
    ) -> dict[tuple[str, int], str]:
        """(file, line) -> its text, for the lines *wanted* of each file, as far as the user may read them."""
        files = [file for file in wanted if file.endswith(".py") and "\0" not in file][:MOST_FILES]
        if not files or seconds <= 0:
            return {}
        request = {
            "ids": [self.uid, self.gid, list(self.groups)],
            "root": self.root,
            "cwd": self.cwd,
            "seconds": seconds,
            "wanted": [[file, sorted(wanted[file])] for file in files],
        }
        found: dict[tuple[str, int], str] = {}
        with contextlib.suppress(OSError):
            for number, line, text in _said(self._ask(json.dumps(request).encode(), seconds)):
                if number < len(files) and line in wanted[files[number]]:
                    found[files[number], line] = text
        return found

    def _ask(self, request: bytes, seconds: float) -> bytes:
        """What the child says, whole or as far as it came in time. Raises OSError."""
        with _unnamed() as question, _unnamed() as answer:
            question.write(request)
            question.seek(0)
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__],
                stdin=question,
                stdout=answer,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                pass_fds=(self.root, self.cwd),
                start_new_session=True,  # a Ctrl-C at the terminal is not for it
            )
            try:
                child.wait(seconds + ENDS_S)
            except subprocess.TimeoutExpired:
                child.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(ENDS_S)
            answer.seek(0)
            return answer.read(_ANSWER_BYTES)

    def close(self) -> None:
        """Let go of the folders."""
        os.close(self.root)
        os.close(self.cwd)


def view_of(pid: int) -> View | None:
    """
    How the process *pid* sees files, to be closed in the end.

    None where that cannot be had: it has ended, or is not ours and we are not root; or where it has the
    rights of more than one user or group, for then nobody knows whose choice its files are.
    """
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            fields = dict(line.split(":", 1) for line in file if ":" in line)
        uids, gids = ({int(n) for n in fields[name].split()} for name in ("Uid", "Gid"))
        groups = tuple(int(n) for n in fields["Groups"].split())
        if len(uids) != 1 or len(gids) != 1 or os.geteuid() not in (0, *uids):
            return None
        root = os.open(f"/proc/{pid}/root", _PATH | _FOLDER)
    except (OSError, KeyError, ValueError):
        return None
    try:
        cwd = os.open(f"/proc/{pid}/cwd", _PATH | _FOLDER)
    except OSError:
        os.close(root)
        return None
    return View(uids.pop(), gids.pop(), groups, root, cwd)


def open_inside(root: int, start: int, path: str) -> int:
    """
    Open the regular file *path* for reading as a process does whose root and working folder these are.

    Raises OSError, also for a link that ends in anything but a file of Python.
    """
    parts = path.split("/")[::-1]
    at = os.dup(root if path.startswith("/") else start)
    name, links = "", 0
    try:
        while parts:
            step = parts.pop()
            if step in ("", ".") or (step == ".." and os.path.samestat(os.fstat(at), os.fstat(root))):
                continue
            name = step
            there = os.open(name, _PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            if stat.S_ISLNK(os.fstat(there).st_mode):
                target = os.readlink("", dir_fd=there)
                os.close(there)
                links += 1
                if links > MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                parts += target.split("/")[::-1]
                if not target.startswith("/"):
                    continue
                there = os.dup(root)
            os.close(at)
            at = there
        if not name.endswith(".py") or not stat.S_ISREG(os.fstat(at).st_mode):
            raise OSError(errno.EINVAL, "it is no file of Python")
        return os.open(f"/proc/self/fd/{at}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(at)


def lines_of(root: int, cwd: int, file: str, numbers: Collection[int], *, uid: int) -> dict[int, str]:
    """The lines with these *numbers* of a file, for a process of *uid*. Raises OSError."""
    with open(open_inside(root, cwd, file), "rb") as source:
        seen = os.fstat(source.fileno())
        if not seen.st_mode & stat.S_IROTH and seen.st_uid != uid:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        data = source.read(MOST_BYTES)
    # Python ends lines where this does, and not at form feeds as `splitlines` would.
    text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors="replace")
    last = max(numbers, default=0)
    found = {}
    for number, line in enumerate(text, 1):
        if number in numbers:
            found[number] = line.strip()[:MOST_TEXT]
        if number >= last:
            break
    return found


def _said(answer: bytes) -> Iterator[tuple[int, int, str]]:
    """What the child found: the number of the file, the line, its text."""
    for line in answer.split(b"\n"):
        try:
            number, at, text = json.loads(line)
        except (ValueError, TypeError):  # cut off, where it was ended
            continue
        yield int(number), int(at), str(text)


def _unnamed() -> io.BufferedRandom:
    """A file in memory that has no name, and goes when it is closed."""
    return open(os.memfd_create("perfzero"), "w+b")


def _become(uid: int, gid: int, groups: list[int]) -> None:
    """Take these ids for good. Raises OSError where that is not allowed."""
    if os.getuid() == os.geteuid() == uid and uid:  # our own user: nothing to take, nor a right to
        return
    ours = (list(os.getresuid()), list(os.getresgid()), sorted(os.getgroups()))
    if ours != ([uid] * 3, [gid] * 3, sorted(groups)):
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)


def main() -> None:
    """Be the child: the request on stdin, JSON; one line on stdout for each that was found."""
    for what, most in (
        (resource.RLIMIT_AS, _MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, _ANSWER_BYTES),
        (resource.RLIMIT_CPU, _CPU_S),
        (resource.RLIMIT_CORE, 0),
    ):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(what, (most, most))
    request: dict[str, Any] = json.load(sys.stdin.buffer)
    _become(*request["ids"])
    deadline = time.monotonic() + request["seconds"]
    for number, (file, lines) in enumerate(request["wanted"]):
        if time.monotonic() > deadline:
            break
        with contextlib.suppress(OSError):
            found = lines_of(request["root"], request["cwd"], file, set(lines), uid=request["ids"][0])
            for at, text in found.items():
                sys.stdout.buffer.write(json.dumps([number, at, text]).encode() + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
