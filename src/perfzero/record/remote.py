"""
The agent in a program that runs already: Python 3.14 and later read a file when asked to (PEP 768).

`sys.remote_exec` writes the name of a file into the program's memory, and its main thread reads that file
between two of its statements. Who calls it has to be of the same version, so a child does that (`_ASK`):

    ours            where perfzero itself runs on that version
    the program's   its own interpreter, which we may run anyway where we are not root. Where we are, only if
                    nobody but root, and who called sudo, can have put it there and what it imports first
                    (`trusted`); else nobody asks

As the program's user root could run any other too, but outside of what holds that program: its control group,
its limits, its seccomp filter. A file that is called python3.14 could leave them all so.

What is read lies in a folder of ours, not in the meeting place, which is the program's user's (`Code`). For
between our checks and the child's asking the process may have become another one's, by `sudo` or the like:
then it would run what the user has put there.

The version is told from the names of mapped files, so nothing is run to learn it. Whoever does not see the
files that we see (a container) is not entered: the script would be another one there.

Nothing is waited for. A process is asked once; if its main thread stays in a call of C it has not read the
file by the end. Then it is asked to read an empty one in its place, for ours will be gone. So is a process
whose child has not ended: it may have asked.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from perfzero.record import look
from perfzero.record.folder import Folder
from perfzero.record.launch import Invoker
from perfzero.record.look import Looks
from perfzero.sources._find_libcupti import trusted
from perfzero.store.decode import clean_text
from perfzero.words.said import say

OLDEST = (3, 14)
"""The first Python that lets somebody in."""

ENTERS_WITHIN_S = 10.0
"""The agent is there a second after the file was read; few calls of C last as long as the rest."""

ANSWERS_WITHIN_S = 5.0
"""A child that asks needs 10 ms; it reads files of which the program chooses the names."""

ENDS_S = 1.0
"""How long a child is waited for that was ended, or that withdraws the question."""

ASKS_S = 0.1
"""How long those are waited for, all together, that are asking when the recording ends."""

ENTER = "_perfzero_enter.py"
"""What is read, see there."""

NOTHING = "/dev/null"
"""What is read in place of a file that is gone."""

_MAPS_BYTES = 4 << 20
"""Of the names of mapped files: a program with PyTorch has 0.2 MB."""

_INTERPRETER = re.compile(r"python(3(\.\d+)?t?)?")
"""Names of programs that take `-c`; Python that is built into another program has none."""

_VERSIONS = tuple(
    re.compile(pattern)
    for pattern in (
        r"/libpython3\.(\d+)(t?)\.so",
        r"/python3\.(\d+)(t?)$",
        r"\.cpython-3(\d\d)(t?)-",
        r"/lib/python3\.(\d+)(t?)/lib-dynload/",
    )
)
"""What names of mapped files tell of Python's minor version, the surest first."""

_LIBS = ("lib", "lib64")

_ASK = """import sys
try:
    sys.remote_exec(int(sys.argv[1]), sys.argv[2])
except BaseException as error:
    sys.stdout.write(type(error).__name__ + ": " + str(error))
    sys.exit(3)
"""


@dataclass(frozen=True, slots=True)
class Python:
    """A Python by its version: "3.14", and "t" after it where it is built to run without the GIL."""

    minor: int
    free_threaded: bool = False

    @property
    def opens(self) -> bool:
        """Whether it lets somebody in."""
        return (3, self.minor) >= OLDEST

    def __str__(self) -> str:
        return f"3.{self.minor}{'t' if self.free_threaded else ''}"


OURS = Python(sys.version_info[1], bool(sysconfig.get_config_var("Py_GIL_DISABLED")))


@dataclass(frozen=True, slots=True)
class Rights:
    """The user of a process, and the group."""

    uid: int
    gid: int

    @property
    def user(self) -> Invoker | None:
        """The user for whom there is to be a meeting place; None for ourselves."""
        if self.uid == os.geteuid():
            return None
        try:
            entry = pwd.getpwuid(self.uid)
        except KeyError:  # known on another machine only
            return Invoker(str(self.uid), self.uid, self.gid, "/nonexistent")
        return Invoker(entry.pw_name, self.uid, self.gid, entry.pw_dir)


class Closed(Exception):
    """A process that cannot be entered, and why: what follows "no look into process 4711:"."""


def python_of(pid: int) -> Python | None:
    """The Python that the process *pid* runs, by what it has mapped; None where that shows none."""
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
            lines = file.read(_MAPS_BYTES).splitlines()
    except OSError:
        return None
    return python_in(parts[5] for line in lines if len(parts := line.split(None, 5)) == 6)


def python_in(mapped: Iterable[str]) -> Python | None:
    """The Python to which files of the names *mapped* belong; None where they belong to none."""
    names = dict.fromkeys(mapped)
    for pattern in _VERSIONS:
        for name in names:
            if found := pattern.search(name):
                return Python(int(found[1]), bool(found[2]))
    return None


def rights_of(pid: int) -> Rights:
    """
    Whose the process *pid* is.

    Raises `Closed` where it has the rights of more than one user, is not ours to enter, or sees other files.
    """
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            fields = dict(line.split(":", 1) for line in file if ":" in line)
        uids, gids = ({int(n) for n in fields[name].split()} for name in ("Uid", "Gid"))
        if os.geteuid() not in (0, *uids):
            raise Closed(say("enter.other_user"))
        if len(uids) != 1 or len(gids) != 1:
            raise Closed(say("enter.several_users"))
        if any(_place(pid, name) != _place("self", name) for name in ("ns/mnt", "ns/pid", "ns/user", "root")):
            raise Closed(say("enter.container"))
    except (OSError, KeyError, ValueError):
        raise Closed(say("enter.ended")) from None
    return Rights(uids.pop(), gids.pop())


def _place(pid: int | str, name: str) -> tuple[int, int]:
    seen = os.stat(f"/proc/{pid}/{name}")
    return seen.st_dev, seen.st_ino


def asker(pid: int, python: Python) -> str:
    """The interpreter that may ask the process *pid*, which runs *python*. Raises `Closed` without one."""
    if python == OURS and hasattr(sys, "remote_exec"):
        return sys.executable
    try:
        program = os.readlink(f"/proc/{pid}/exe")
    except OSError:
        raise Closed(say("enter.ended")) from None
    if program.endswith(" (deleted)"):
        raise Closed(say("enter.replaced"))
    if not _INTERPRETER.fullmatch(os.path.basename(program)):
        raise Closed(say("enter.part_of", python=python))
    if os.geteuid() != 0 or (trusted(Path(program)) and trusted(first_import(program, python))):
        return program
    raise Closed(say("enter.root", python=python))


def first_import(program: str, python: Python) -> Path:
    """The file that an interpreter imports before it runs anything."""
    places = [Path(program).parent.parent / lib / f"python{python}/encodings/__init__.py" for lib in _LIBS]
    return next((place for place in places if place.exists()), places[0])


class Code:
    """
    A folder with the agent and what is read of it, which nobody but *user*'s group and we can enter.

    Nobody but we can change it, nor make another one of its name (`Folder`). Raises OSError.
    """

    def __init__(self, user: Invoker | None, meeting: Path) -> None:
        self._folder = Folder(user)
        self.path = self._folder.path
        try:
            for name in look.FILES[1:]:
                shutil.copyfile(look.AGENT / name, self.path / name)
            call = f"\n_enter({str(self.path)!r}, {str(meeting)!r})\n"
            (self.path / ENTER).write_text((look.AGENT / ENTER).read_text() + call)
            if user is not None:
                for entry in self.path.iterdir():
                    entry.chmod(0o644)
                os.chown(self.path, -1, user.gid)
                self.path.chmod(0o750)
        except OSError:
            self.close()
            raise

    @property
    def script(self) -> str:
        """The file to be read."""
        return str(self.path / ENTER)

    def close(self) -> None:
        """Remove it."""
        self._folder.remove()

    def leave(self) -> None:
        """Leave nothing of it but an empty file, for a process that may still read it."""
        for name in look.FILES[1:]:
            (self.path / name).unlink(missing_ok=True)
        os.truncate(self.script, 0)
        self._folder.leave()


Stage = Literal["asking", "asked", "over"]
"""A child is asking; it has, and the process is to read the file; nothing more is awaited."""


@dataclass(slots=True)
class _Asked:
    """A process on its way to have the agent, and the child that asks it, by the interpreter *asker*."""

    pid: int
    asker: str
    said: BinaryIO
    child: subprocess.Popen[bytes]
    since_s: float
    stage: Stage = "asking"

    @property
    def may_have_asked(self) -> bool:
        """Whether the process may be about to read the file: so it may if the child was killed."""
        code = self.child.poll()
        return code is None or code <= 0

    def end(self) -> None:
        """Let go of the child, whatever it does."""
        if self.child.poll() is None:
            self.child.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.child.wait(ENDS_S)
        self.said.close()


class Entrance:
    """
    Lets the agent into processes that run already, so that *looks* can ask them; each is tried once.

    *say* is told of those that cannot be entered. `closed` is the first of them, its process id and why.
    """

    def __init__(self, looks: Looks, *, say: Callable[[str], None]) -> None:
        self.closed: tuple[int, str] | None = None
        self._looks = looks
        self._say = say
        self._begun = False
        self._asked: list[_Asked] = []
        self._place = Path()
        self._code: Code | None = None
        self._rights: Rights | None = None  # of those for whom it is

    def ready(self, pids: Iterable[int]) -> bool:
        """
        Whether none of *pids* is waited for any more; the first call has them asked.

        To be called again and again; it waits for nothing.
        """
        if not self._begun:
            self._begun = True
            self._begin(sorted(pids))
        came = {agent.pid for agent in self._looks.agents}
        for one in self._asked:
            if one.stage != "over":
                self._follow(one, came=one.pid in came)
        return all(one.stage == "over" for one in self._asked)

    def _begin(self, pids: Sequence[int]) -> None:
        for pid in pids:
            try:
                rights = rights_of(pid)
                python = python_of(pid)
                if python is None:
                    raise Closed(say("enter.no_python"))
                if not python.opens:
                    raise Closed(say("enter.old_python", python=python))
                who = asker(pid, python)
                if self._code is None:
                    self._place = self._looks.open(rights.user)
                    self._code, self._rights = Code(rights.user, self._place), rights
                if rights != self._rights:
                    raise Closed(say("enter.other_group"))
                self._asked.append(_asking(pid, who, self._code.script))
            except Closed as error:
                self._close(pid, str(error))
            except (OSError, subprocess.SubprocessError) as error:
                if self._code is None:
                    self._looks.close()
                self._close(pid, str(getattr(error, "strerror", None) or error))

    def _follow(self, one: _Asked, *, came: bool) -> None:
        waited_s = time.monotonic() - one.since_s
        if one.stage == "asking":
            code = one.child.poll()
            if code == 0:
                one.stage, one.since_s = "asked", time.monotonic()
            elif code is not None:
                self._close(one.pid, _reason(one.said), one)
            elif waited_s > ANSWERS_WITHIN_S:
                one.end()
                self._close(one.pid, say("enter.no_time"), one)
        elif came:
            one.stage = "over"
        elif waited_s > ENTERS_WITHIN_S:
            read = os.path.lexists(self._place / f"entered-{one.pid}")
            silent = say("enter.nothing")
            busy = say("enter.one_call", seconds=f"{ENTERS_WITHIN_S:.0f}")
            self._close(one.pid, silent if read else busy, one)

    def _close(self, pid: int, why: str, one: _Asked | None = None) -> None:
        if one is not None:
            one.stage = "over"
        self.closed = self.closed or (pid, why)
        self._say(say("look.refused", pid=pid, reason=why))

    def close(self) -> None:
        """Withdraw what has not been read yet, before the meeting place goes. Harmless when called twice."""
        asked, self._asked = self._asked, []
        until = time.monotonic() + ASKS_S
        for one in asked:
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.child.wait(max(0.0, until - time.monotonic()))
            one.end()
        left = [one for one in asked if one.may_have_asked and self._may_read(one.pid)]
        withdrawn = [again for one in left if (again := _withdrawing(one))]
        for again in withdrawn:
            with contextlib.suppress(subprocess.TimeoutExpired):
                again.child.wait(ENDS_S)
            again.end()
        if self._code is not None:
            code, self._code = self._code, None
            done = {again.pid for again in withdrawn if again.child.returncode == 0}
            if all(one.pid in done or not self._may_read(one.pid) for one in left):
                code.close()
            else:
                code.leave()

    def _may_read(self, pid: int) -> bool:
        """Whether the process *pid*, which may have been asked, has not read the file and has not ended."""
        return os.path.exists(f"/proc/{pid}") and not os.path.lexists(self._place / f"entered-{pid}")


def _withdrawing(one: _Asked) -> _Asked | None:
    """Start the child that has the process read nothing in place of what it was asked to; None without."""
    try:
        return _asking(one.pid, one.asker, NOTHING)
    except (OSError, subprocess.SubprocessError):
        return None


def _asking(pid: int, who: str, script: str) -> _Asked:
    """Start the child that asks the process *pid* to read *script*. Raises OSError and SubprocessError."""
    said = open(os.memfd_create("perfzero"), "w+b")  # noqa: SIM115 - until the child has ended
    try:
        child = subprocess.Popen(
            [who, "-I", "-S", "-c", _ASK, str(pid), script],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env={},
            cwd="/",
            start_new_session=True,  # a Ctrl-C at the terminal is not for it
        )
    except BaseException:
        said.close()
        raise
    return _Asked(pid, who, said, child, time.monotonic())


def _reason(said: BinaryIO) -> str:
    """Why a child could not ask, from what it said."""
    said.seek(0)
    text = clean_text(said.read(4096).decode(errors="replace")).strip()
    last = (text.splitlines() or [""])[-1]
    if "Permission" in last or "not permitted" in last:
        return say("enter.no_memory", yama=_yama())
    if "not enabled in the remote process" in last:
        return say("enter.forbids")
    if "not enabled" in last:
        return say("enter.without_way")
    last = last[:200].rstrip(".")
    return say("enter.unasked_as", last=last) if last else say("enter.unasked")


def _yama() -> str:
    """What may be set so that one process does not reach the memory of another one."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/yama/ptrace_scope", encoding="ascii") as file:
        if (scope := file.read(8).strip()) != "0":
            return say("enter.yama", scope=scope)
    return ""
