"""The agent in programs that run already: who is entered, by whom it is asked, and what the program sees."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perfzero.record import look as look_module
from perfzero.record import remote
from perfzero.record.launch import Invoker
from perfzero.record.look import Looks
from perfzero.record.remote import Closed, Entrance, Python, asker, python_in, rights_of
from perfzero.values import Look

STAND_IN = Path(__file__).parent / "stand_in"
NEW = shutil.which("python3.14")

needs_new = pytest.mark.skipif(NEW is None, reason="there is no python3.14 on the path")

TRAINS = """
import os, sys, threading, time, torch
class Model(torch.nn.Module):
    def forward(self, x): return x
model, optimizer = Model(), torch.Optimizer()
before = list(sys.path), set(sys.modules), list(sys.meta_path), threading.active_count()
print("ready", flush=True)
until = time.monotonic() + float(sys.argv[1])
while time.monotonic() < until and not os.path.exists(sys.argv[2]):
    model(1)
    optimizer.step()
    time.sleep(0.002)
    {reads}
while threading.active_count() != before[3] and time.monotonic() < until:
    time.sleep(0.01)
new = {{name for name in set(sys.modules) - before[1] if "perfzero" in name or "enter" in name}}
same = before[0] == sys.path and before[2] == sys.meta_path and before[3] == threading.active_count()
print(sorted(new), same, flush=True)
"""

READS = """
    if os.path.exists(f"{sys.argv[2]}.ask"):
        script = open(f"{sys.argv[2]}.ask").read()
        os.remove(f"{sys.argv[2]}.ask")
        print(script, file=open(f"{sys.argv[2]}.read", "a"))
        exec(compile(open(script).read(), script, "exec"), {})
"""
"""What Python 3.14 does between two statements, for a Python of any version."""


class Ended(list[Look]):
    """The looks that have ended, and what was said."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An agent that wakes up at once."""
    agent = tmp_path / "agent"
    shutil.copytree(look_module.AGENT, agent, ignore=shutil.ignore_patterns("__pycache__"))
    path = agent / "_perfzero_agent.py"
    path.write_text(path.read_text().replace("ASLEEP_S = 1.0", "ASLEEP_S = 0.05"))
    monkeypatch.setattr(look_module, "AGENT", agent)
    monkeypatch.setattr(look_module, "LEAST_S", 0.0)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    programs: list[subprocess.Popen[str]] = []

    def start(python: str = sys.executable, *, reads: str = READS, **more: str) -> subprocess.Popen[str]:
        program = subprocess.Popen(
            [python, "-c", TRAINS.format(reads=reads.strip() or "pass"), "20", str(tmp_path / "end")],
            env={"PYTHONPATH": str(STAND_IN), **more}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        programs.append(program)
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        return program

    yield start
    (tmp_path / "end").touch()
    for program in programs:
        program.communicate(timeout=20)


def asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, with_: str = "") -> None:
    """Python 3.14 everywhere, and a child that does what `sys.remote_exec` would, or *with_*."""
    fake = tmp_path / "python3.14"
    asks, whole = str(tmp_path / "asks"), str(tmp_path / "end.ask")
    body = with_ or f"print(sys.argv[6], end='', file=open({asks!r}, 'w')); os.rename({asks!r}, {whole!r})"
    fake.write_text(f"#!{sys.executable}\nimport os, sys, time\n{body}\n")
    fake.chmod(0o755)
    monkeypatch.setattr(remote, "python_of", lambda pid: Python(14))
    monkeypatch.setattr(remote, "asker", lambda pid, python: str(fake))


def entered(
    pid: int, ended: Ended, *, until: Callable[[Entrance, Looks], bool], seconds: float = 10.0
) -> tuple[Entrance, Looks]:
    """A recorder that is let into the process *pid*, or not; it goes on *until* something is true."""
    looks = Looks(tell=ended.append, say=ended.said.append)
    entrance = Entrance(looks, say=ended.said.append)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        looks.hear()
        if entrance.ready([pid]):
            looks.ask({pid: ()})
        if until(entrance, looks):
            return entrance, looks
        time.sleep(0.01)
    raise AssertionError(f"nothing came of it: {ended.said}")


def answered(ended: Ended) -> Callable[[Entrance, Looks], bool]:
    return lambda entrance, looks: bool(ended)


def closed(entrance: Entrance, looks: Looks) -> bool:
    return entrance.closed is not None


def close(entrance: Entrance, looks: Looks) -> None:
    entrance.close()
    looks.close()


def outcome(program: subprocess.Popen[str], tmp_path: Path) -> str:
    """What the program prints at its end, when it has seen nothing of us but an agent."""
    (tmp_path / "end").touch()
    out, err = program.communicate(timeout=20)
    assert (program.returncode, err) == (0, "")
    return out


# --- which Python, whose, asked by whom ---------------------------------------------------------


@pytest.mark.parametrize(
    ("mapped", "python"),
    [
        (["/usr/bin/python3.14", "/usr/lib/libc.so.6"], Python(14)),
        (["/usr/bin/python3.9"], Python(9)),
        (["/opt/conda/bin/python3.15"], Python(15)),
        (["/usr/local/bin/python3.14t"], Python(14, free_threaded=True)),
        (["/opt/bin/python", "/opt/lib/libpython3.14.so.1.0"], Python(14)),
        (["/opt/bin/server", "/opt/lib/libpython3.13t.so.1.0"], Python(13, free_threaded=True)),
        (["/opt/bin/python", "/x/torch/_C.cpython-314-x86_64-linux-gnu.so"], Python(14)),
        (["/opt/bin/python", "/opt/lib/python3.12/lib-dynload/_json.so"], Python(12)),
        # What the program runs counts, not what lies about.
        (["/opt/lib/libpython3.13.so.1.0", "/x/_C.cpython-314-x86_64-linux-gnu.so"], Python(13)),
        (["/usr/bin/sleep", "/usr/lib/libc.so.6", "/home/python3.14/data.bin"], None),
        ([], None),
    ],
    ids=range(11),
)
def test_the_version_of_a_python_is_told_by_what_it_has_mapped(
    mapped: list[str], python: Python | None
) -> None:
    assert python_in(mapped) == python


def test_pythons_from_3_14_on_let_somebody_in_and_no_earlier_one() -> None:
    assert [str(python) for minor in range(8, 17) if (python := Python(minor)).opens] == [
        "3.14",
        "3.15",
        "3.16",
    ]


def test_this_python_is_known_and_a_program_without_one_has_none() -> None:
    with subprocess.Popen(["sleep", "9"]) as other:
        assert remote.python_of(os.getpid()) == remote.OURS
        assert remote.python_of(other.pid) is None
        other.kill()
    assert remote.python_of(2**22 - 1) is None


@pytest.mark.parametrize(
    ("us", "trusted", "program", "closed"),
    [
        (1000, False, "/home/a/bin/python3.14", ""),
        (0, True, "/usr/bin/python3.14", ""),
        (0, False, "/home/a/bin/python3.14", "root runs no Python that others can change"),
        (0, True, "/usr/bin/blender", "part of another program"),
        (0, True, "/usr/bin/python3.14 (deleted)", "replaced since it began"),
    ],
    ids=["ours", "system", "a stranger's", "embedded", "upgraded"],
)
def test_root_runs_no_python_that_others_can_change(
    us: int, trusted: bool, program: str, closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor as its user: outside of what holds the program in it would be free of that."""
    monkeypatch.setattr(remote, "OURS", Python(13))
    monkeypatch.setattr("os.geteuid", lambda: us)
    monkeypatch.setattr("os.readlink", lambda path: program)
    monkeypatch.setattr(remote, "trusted", lambda path: trusted)

    if closed:
        with pytest.raises(Closed, match=closed):
            asker(1, Python(14))
    else:
        assert asker(1, Python(14)) == program


def test_what_an_interpreter_imports_first_must_be_roots_alone_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote, "OURS", Python(13))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("os.readlink", lambda path: "/usr/bin/python3.14")
    monkeypatch.setattr(remote, "trusted", lambda path: path.name == "python3.14")

    with pytest.raises(Closed, match="root runs no Python that others can change"):
        asker(1, Python(14))


def test_a_python_of_the_same_version_is_asked_by_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "remote_exec", print, raising=False)
    monkeypatch.setattr(remote, "OURS", Python(14))

    assert asker(1, Python(14)) == sys.executable


def test_our_own_process_is_ours_and_has_a_meeting_place_of_its_own() -> None:
    rights = rights_of(os.getpid())

    assert (rights.uid, rights.gid, rights.user) == (os.geteuid(), os.getegid(), None)


def test_nobody_enters_another_users_process_or_one_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Closed, match="has ended"):
        rights_of(2**22 - 1)
    monkeypatch.setattr("os.geteuid", lambda: 4711)
    with pytest.raises(Closed, match="another user's"):
        rights_of(os.getpid())


@pytest.mark.parametrize("name", ["ns/mnt", "ns/pid", "ns/user", "root"])
def test_nobody_enters_a_container(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = remote._place
    monkeypatch.setattr(
        remote, "_place", lambda pid, what: (0, 0) if (pid, what) == (os.getpid(), name) else seen(pid, what)
    )
    with pytest.raises(Closed, match="container"):
        rights_of(os.getpid())


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("PermissionError: [Errno 1] Operation not permitted", "this user may not write to its memory"),
        ("RuntimeError: Remote debugging is not enabled in the remote process",
         "it forbids that: PYTHON_DISABLE_REMOTE_DEBUG, or -X disable-remote-debug"),
        ("RuntimeError: Remote debugging is not enabled", "its Python was built without a way in"),
        ("OSError: \x1b[2Jelse.", "it could not be asked: OSError: "),
        ("", "it could not be asked"),
    ],
    ids=["rights", "forbidden", "built without", "else", "nothing"],
)  # fmt: skip
def test_a_child_that_cannot_ask_says_why(
    said: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks_for(tmp_path, monkeypatch, with_=f"sys.stdout.write({said!r}); sys.exit(3)")
    ended = Ended()
    entrance, looks = entered(os.getpid(), ended, until=closed)
    close(entrance, looks)

    assert ended.said[0].startswith(f"no look into process {os.getpid()}: {why}")
    assert "\x1b" not in ended.said[0]
    assert entrance.ready([os.getpid()])


def test_a_child_that_hangs_is_ended_and_the_process_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "ANSWERS_WITHIN_S", 0.2)
    asks_for(tmp_path, monkeypatch, with_="if not 'null' in sys.argv[6]: time.sleep(60)")
    ended = Ended()
    close(*entered(os.getpid(), ended, until=closed))

    assert ended.said == [f"no look into process {os.getpid()}: it could not be asked in time"]


WRITES = "w = open({0!r}, 'w'); w.write(sys.argv[6]); w.close(); os.rename({0!r}, {1!r})"
"""What a child does first: after that the program reads the file whatever becomes of the child."""


def writes(tmp_path: Path) -> str:
    return WRITES.format(str(tmp_path / "asks"), str(tmp_path / "end.ask"))


def written(tmp_path: Path) -> str:
    """The file that the program is to read next."""
    path = tmp_path / "end.ask"
    return path.read_text() if path.exists() else ""


def test_a_child_that_has_asked_and_not_ended_when_the_recording_does_is_withdrawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the program says on its stderr that it cannot open a file of ours."""
    asks_for(
        tmp_path, monkeypatch, with_=f"{writes(tmp_path)}\nif sys.argv[6] != '/dev/null': time.sleep(60)"
    )
    entrance, looks = entered(os.getpid(), Ended(), until=lambda *_: bool(written(tmp_path)))
    script = Path(written(tmp_path))
    assert script.name == remote.ENTER
    close(entrance, looks)

    assert written(tmp_path) == "/dev/null"
    assert not script.parent.exists()


def test_so_is_one_that_was_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "ANSWERS_WITHIN_S", 0.3)
    asks_for(
        tmp_path, monkeypatch, with_=f"{writes(tmp_path)}\nif sys.argv[6] != '/dev/null': time.sleep(60)"
    )
    ended = Ended()
    close(*entered(os.getpid(), ended, until=closed))

    assert ended.said == [f"no look into process {os.getpid()}: it could not be asked in time"]
    assert written(tmp_path) == "/dev/null"


def test_one_that_is_about_to_ask_may_finish_and_is_withdrawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "ASKS_S", 5.0)
    log = tmp_path / "log"
    asks_for(
        tmp_path, monkeypatch, with_=f"time.sleep(0.2); print(sys.argv[6], file=open({str(log)!r}, 'a'))"
    )
    close(*entered(os.getpid(), Ended(), until=lambda *_: True))

    first, last = log.read_text().split()
    assert (Path(first).name, last) == (remote.ENTER, "/dev/null")


def test_where_the_question_cannot_be_withdrawn_an_empty_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks_for(tmp_path, monkeypatch, with_=f"if sys.argv[6] == '/dev/null': sys.exit(3)\n{writes(tmp_path)}")
    entrance, looks = entered(os.getpid(), Ended(), until=lambda *_: bool(written(tmp_path)))
    close(entrance, looks)
    script = Path(written(tmp_path))

    assert script.read_text() == ""
    assert [path.name for path in script.parent.iterdir()] == [remote.ENTER]
    shutil.rmtree(script.parent)


@pytest.mark.parametrize("what", ["could not ask", "ended"])
def test_where_nothing_will_be_read_nothing_is_withdrawn_and_nothing_stays(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    body = (
        f"print(sys.argv[6], file=open({str(log)!r}, 'a')); sys.exit({3 if what == 'could not ask' else 0})"
    )
    asks_for(tmp_path, monkeypatch, with_=body)
    with subprocess.Popen(["sleep", "60"]) as other:
        entrance, looks = entered(other.pid, Ended(), until=lambda *_: log.exists() and log.read_text() != "")
        if what == "ended":
            other.kill()
            other.wait()
        close(entrance, looks)
        other.kill()
    [script] = log.read_text().split()

    assert not Path(script).parent.exists()


def test_an_older_python_is_told_of_at_once_and_nothing_is_made_for_it(tmp_path: Path) -> None:
    ended = Ended()
    looks = Looks(tell=ended.append, say=ended.said.append)
    entrance = Entrance(looks, say=ended.said.append)
    with subprocess.Popen(["sleep", "9"]) as other:
        assert entrance.ready([other.pid])
        other.kill()
    close(entrance, looks)

    assert ended.said == [f"no look into process {other.pid}: it runs no Python that perfzero knows"]
    assert looks.environment({}) == {}


# --- inside -------------------------------------------------------------------------------------


def test_a_running_program_is_looked_into_and_sees_nothing_but_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: Callable[..., subprocess.Popen[str]]
) -> None:
    asks_for(tmp_path, monkeypatch)
    program, ended = started(), Ended()
    entrance, looks = entered(program.pid, ended, until=answered(ended))
    assert [(look.pid, look.reason, len(look.steps_ns)) for look in ended] == [(program.pid, "", 4)]
    close(entrance, looks)

    assert outcome(program, tmp_path) == "['_perfzero_agent'] True\n"


def test_the_file_read_twice_brings_one_agent_and_a_later_recorder_one_more_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: Callable[..., subprocess.Popen[str]]
) -> None:
    asks_for(tmp_path, monkeypatch)
    program, ended = started(), Ended()
    entrance, looks = entered(program.pid, ended, until=lambda entrance, looks: bool(looks.agents))
    (Path(looks.environment({})["PYTHONPATH"]) / f"entered-{program.pid}").unlink()
    [script] = (tmp_path / "end.read").read_text().splitlines()
    (tmp_path / "asks").write_text(script)
    (tmp_path / "asks").rename(tmp_path / "end.ask")  # whole at once: the program reads what it finds there
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        looks.hear()
        time.sleep(0.01)
    assert [agent.pid for agent in looks.agents] == [program.pid]
    close(entrance, looks)

    later = Ended()
    close(*entered(program.pid, later, until=answered(later)))
    assert [(look.pid, look.reason) for look in later] == [(program.pid, "")]
    assert len((tmp_path / "end.read").read_text().splitlines()) == 3
    assert outcome(program, tmp_path) == "['_perfzero_agent'] True\n"


def test_a_program_that_stays_in_one_call_is_told_of_and_reads_an_empty_file_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: Callable[..., subprocess.Popen[str]]
) -> None:
    monkeypatch.setattr(remote, "ENTERS_WITHIN_S", 0.3)
    asks_for(tmp_path, monkeypatch)
    program, ended = started(reads=""), Ended()
    entrance, looks = entered(program.pid, ended, until=closed)
    script = (tmp_path / "end.ask").read_text()
    close(entrance, looks)

    assert ended.said == [
        f"no look into process {program.pid}: its main thread has been inside one call for 0 s"
    ]
    assert Path(script).name == remote.ENTER
    assert not Path(script).exists()
    assert (tmp_path / "end.ask").read_text() == "/dev/null"


def test_a_program_with_nothing_to_look_into_is_told_of_and_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: Callable[..., subprocess.Popen[str]]
) -> None:
    monkeypatch.setattr(remote, "ENTERS_WITHIN_S", 0.5)
    asks_for(tmp_path, monkeypatch)
    path = look_module.AGENT / "_perfzero_agent.py"
    path.write_text(
        path.read_text().replace("def _serve(", "def _serve(address: str) -> None: ...\ndef _other(")
    )
    program, ended = started(), Ended()
    close(*entered(program.pid, ended, until=closed))

    assert "imported nothing that can be looked into" in ended.said[0]
    assert len((tmp_path / "end.read").read_text().splitlines()) == 1


def test_whatever_is_wrong_with_the_agent_is_not_the_programs_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: Callable[..., subprocess.Popen[str]]
) -> None:
    monkeypatch.setattr(remote, "ENTERS_WITHIN_S", 0.5)
    asks_for(tmp_path, monkeypatch)
    (look_module.AGENT / "_perfzero_agent.py").write_text("raise RuntimeError('broken')\n")
    program, ended = started(), Ended()
    close(*entered(program.pid, ended, until=closed))

    assert outcome(program, tmp_path) == "['_perfzero_agent'] True\n"


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root enters programs of others")


@needs_root
def test_what_another_users_program_reads_is_roots_and_for_its_group_alone(tmp_path: Path) -> None:
    code = remote.Code(Invoker("x", 4711, 815, "/nonexistent"), tmp_path)
    seen = [code.path, *code.path.iterdir()]
    modes = {path.name: (path.stat().st_uid, oct(path.stat().st_mode & 0o777)) for path in seen}
    assert (code.path.stat().st_gid, modes.pop(code.path.name)) == (815, (0, "0o750"))
    assert modes == dict.fromkeys([remote.ENTER, *look_module.FILES[1:]], (0, "0o644"))
    code.close()

    assert not code.path.exists()


@pytest.mark.parametrize(("owner", "entered"), [("ours", True), ("another", False)])
def test_a_process_that_has_become_another_users_does_nothing(
    owner: str, entered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meeting, code = tmp_path / "meeting", tmp_path / "code"
    meeting.mkdir()
    code.mkdir()
    (code / "_perfzero_agent.py").write_text("def begin(address, main): pass\n")
    seen = os.lstat
    if owner == "another":
        monkeypatch.setattr("os.lstat", lambda path: os.stat_result((0o40700, 1, 1, 1, 4711, 1, 1, 1, 1, 1)))
    space: dict[str, Any] = {}
    exec((look_module.AGENT / remote.ENTER).read_text(), space)
    space["_enter"](str(code), str(meeting))
    deadline = time.monotonic() + 0.3
    while time.monotonic() < deadline and "_perfzero_agent" not in sys.modules:
        time.sleep(0.01)
    monkeypatch.setattr("os.lstat", seen)

    assert ("_perfzero_agent" in sys.modules) is entered
    assert [path.name for path in meeting.iterdir()] == [f"entered-{os.getpid()}"] * entered
    sys.modules.pop("_perfzero_agent", None)


def test_where_no_folder_can_be_made_that_is_said_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    asks_for(tmp_path, monkeypatch)
    monkeypatch.setattr(remote, "Code", full)
    ended = Ended()
    entrance, looks = entered(os.getpid(), ended, until=closed)

    assert ended.said == [f"no look into process {os.getpid()}: No space left on device"]
    assert looks.environment({}) == {}
    close(entrance, looks)


# --- Python 3.14 itself -------------------------------------------------------------------------


@needs_new
def test_python_3_14_is_looked_into_while_it_runs(
    tmp_path: Path, started: Callable[..., subprocess.Popen[str]]
) -> None:
    assert NEW is not None
    program, ended = started(NEW, reads=""), Ended()
    entrance, looks = entered(program.pid, ended, until=answered(ended))
    assert [(look.pid, look.reason, len(look.steps_ns)) for look in ended] == [(program.pid, "", 4)]
    close(entrance, looks)

    assert outcome(program, tmp_path) == "['_perfzero_agent'] True\n"


@needs_new
def test_python_3_14_that_forbids_it_is_told_of(
    tmp_path: Path, started: Callable[..., subprocess.Popen[str]]
) -> None:
    assert NEW is not None
    program, ended = started(NEW, reads="", PYTHON_DISABLE_REMOTE_DEBUG="1"), Ended()
    close(*entered(program.pid, ended, until=closed))

    assert "PYTHON_DISABLE_REMOTE_DEBUG" in ended.said[0]
    assert outcome(program, tmp_path) == "[] True\n"


@needs_new
def test_python_3_14_inside_one_call_says_nothing_when_it_comes_back_and_we_have_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: Callable[..., subprocess.Popen[str]]
) -> None:
    assert NEW is not None
    monkeypatch.setattr(remote, "ENTERS_WITHIN_S", 0.3)
    stays = "import ctypes; print('inside', flush=True); ctypes.PyDLL(None).sleep(2)"
    program, ended = started(NEW, reads=stays), Ended()
    assert program.stdout is not None
    assert program.stdout.readline() == "inside\n"
    close(*entered(program.pid, ended, until=closed))

    assert "has been inside one call" in ended.said[0]
    assert outcome(program, tmp_path) == "[] True\n"
