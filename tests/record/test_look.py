"""The recorder's side of a look, talked to by whoever can reach its socket."""

from __future__ import annotations

import gzip
import json
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfzero.record.launch import Invoker
from perfzero.record.look import FILES, LONGEST_ANSWER, MOST_LINES, Looks
from perfzero.values import Look

ME = os.getpid()


class Ended(list[Look]):
    """The looks that have ended, and what was said."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []


@pytest.fixture
def ended() -> Ended:
    return Ended()


CHANNELS: list[socket.socket] = []


@pytest.fixture
def looks(ended: Ended) -> Iterator[Looks]:
    made = Looks(tell=ended.append, say=ended.said.append)
    made.open(None)
    yield made
    made.close()
    while CHANNELS:
        CHANNELS.pop().close()


def connected(looks: Looks) -> socket.socket:
    """A process that has come, as this one."""
    channel = socket.socket(socket.AF_UNIX)
    CHANNELS.append(channel)
    channel.connect(looks.environment({})["PERFZERO_AGENT"])
    looks.hear()
    return channel


def asked(looks: Looks) -> tuple[socket.socket, Path]:
    """The same after it was asked, and where its trace is to go."""
    channel = connected(looks)
    looks.ask({ME: ()})
    assert "look" in json.loads(channel.recv(4096))
    return channel, Path(looks.environment({})["PYTHONPATH"]) / f"trace-{ME}"


def say(channel: socket.socket, looks: Looks, said: object) -> None:
    channel.sendall(json.dumps(said).encode() + b"\n")
    looks.hear()


def test_the_meeting_place_is_the_users_alone_and_goes_when_it_is_closed(looks: Looks) -> None:
    folder = Path(looks.environment({})["PYTHONPATH"])

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name for path in folder.iterdir()} == {"agent", *FILES}
    looks.close()
    assert not folder.exists()
    assert looks.environment({}) == {}


@pytest.mark.parametrize(
    ("before", "after"), [({}, ""), ({"PYTHONPATH": "/a:/b"}, ":/a:/b"), ({"PYTHONPATH": ""}, "")]
)
def test_what_was_on_the_path_stays_on_it(looks: Looks, before: dict[str, str], after: str) -> None:
    path = looks.environment(before)["PYTHONPATH"]

    assert path == looks.environment({})["PYTHONPATH"] + after


def test_only_processes_of_the_program_are_asked_and_each_once(looks: Looks, ended: Ended) -> None:
    channel = connected(looks)
    channel.setblocking(False)
    looks.ask({ME + 1: ()})

    assert not looks.asked
    assert ended.said == []
    with pytest.raises(BlockingIOError):
        channel.recv(1)
    looks.ask({ME: ()}, period_s=0.02)
    request = json.loads(channel.recv(4096))["look"]
    assert (request["steps"], request["period_s"]) == (3, 0.02)
    assert ended.said == [
        f"looking into process {ME} for a few steps, which run slower meanwhile (--no-agent: never)"
    ]
    looks.ask({ME: ()})
    with pytest.raises(BlockingIOError):
        channel.recv(1)


class Counted:
    """Counters that are had when the test says so."""

    def __init__(self) -> None:
        self.did: list[object] = []
        self.opened = self.started = False

    def open(self, step_s: float, steps: int) -> None:
        self.did.append((step_s, steps))

    def start(self) -> None:
        self.did.append("start")

    def stop(self) -> None:
        self.did.append("stop")


def heard(channel: socket.socket) -> list[str]:
    """What a process has been told since it last listened."""
    channel.setblocking(False)
    try:
        told = [next(iter(json.loads(line))) for line in channel.recv(4096).splitlines()]
    except BlockingIOError:
        told = []
    channel.setblocking(True)
    return told


def test_each_word_waits_for_the_counters_and_for_the_slowest_process(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two ranks, one of which finds longer steps, and more of them."""
    one, other, counters = connected(looks), connected(looks), Counted()
    looks.ask({ME: ()}, counters)
    assert [heard(one), heard(other)] == [["look"], ["look"]]
    say(one, looks, {"found": {"step_s": 0.1, "steps": 3}})
    assert counters.did == [(0.1, 3)]
    say(other, looks, {"found": {"step_s": 0.2, "steps": 4}})
    assert [heard(one), heard(other)] == [[], []]
    counters.opened = True
    looks.hear()
    assert [heard(one), heard(other)] == [["prepare"], ["prepare"]]
    say(one, looks, {"ready": {}})
    assert counters.did == [(0.1, 3)]
    say(other, looks, {"ready": {}})
    assert counters.did == [(0.1, 3), "start"]
    assert [heard(one), heard(other)] == [[], []]
    counters.started = True
    looks.hear()
    assert [heard(one), heard(other)] == [["go"], ["go"]]
    say(one, looks, {"traced": {}})
    assert looks.at_work
    assert "stop" not in counters.did
    say(other, looks, {"traced": {}})
    assert counters.did[-1] == "stop"


def test_those_that_are_ready_wait_for_the_others_only_for_a_while(
    looks: Looks, ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One rank has stopped stepping: the other is looked into, and the one is let go."""
    one, other, counters = connected(looks), connected(looks), Counted()
    looks.ask({ME: ()}, counters)
    counters.opened = counters.started = True
    for channel in (one, other):
        say(channel, looks, {"found": {"step_s": 0.1, "steps": 3}})
    say(one, looks, {"ready": {}})
    assert counters.did == [(0.1, 3)]
    monkeypatch.setattr("perfzero.record.look.time.monotonic", lambda: looks._until_s + 0.001)
    looks.hear()
    assert counters.did[1:] == ["start"]
    assert [heard(one), heard(other)] == [["look", "prepare", "go"], ["look", "prepare"]]
    say(one, looks, {"traced": {}})
    assert counters.did[1:] == ["start", "stop"]
    assert [look.reason for look in ended] == ["it was not ready for its look in time"]
    assert other.recv(1) == b""
    say(one, looks, {"looked": {"at_ns": [1, 2]}})
    assert [look.reason for look in ended][1:] == [""]
    assert not looks.at_work


def test_counters_are_given_back_when_nobody_becomes_ready(
    looks: Looks, ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel, counters = connected(looks), Counted()
    looks.ask({ME: ()}, counters)
    counters.opened = True
    say(channel, looks, {"found": {"step_s": 0.5, "steps": 3}})
    until = looks._until_s
    monkeypatch.setattr("perfzero.record.look.time.monotonic", lambda: until - 0.001)
    looks.hear()
    assert looks.at_work
    monkeypatch.setattr("perfzero.record.look.time.monotonic", lambda: until + 0.001)
    looks.hear()

    assert counters.did == [(0.5, 3), "stop"]
    assert [look.reason for look in ended] == ["it was not ready for its look in time"]
    assert not looks.at_work


def test_counters_are_given_back_when_the_process_ends_before_its_steps(looks: Looks, ended: Ended) -> None:
    channel, counters = connected(looks), Counted()
    looks.ask({ME: ()}, counters)
    say(channel, looks, {"found": {"step_s": 0.1, "steps": 3}})
    channel.close()
    looks.hear()
    looks.hear()

    assert counters.did == [(0.1, 3), "stop"]
    assert [look.reason for look in ended] == ["it ended before its steps had"]
    assert not looks.at_work


@pytest.mark.parametrize(
    ("said", "opened"),
    [
        ({"ready": {}}, []),
        ({"traced": {}}, []),
        ({"found": {"step_s": "long", "steps": 1e300}}, [(0.0, 3)]),
        ({"found": {"step_s": 1e9, "steps": 10**9}}, [(0.0, 3)]),
        ({"found": 3}, []),
    ],
)
def test_a_word_out_of_place_or_reason_opens_nothing_large(
    looks: Looks, said: object, opened: list[object]
) -> None:
    channel, counters = connected(looks), Counted()
    counters.opened = counters.started = True
    looks.ask({ME: ()}, counters)
    say(channel, looks, said)

    assert counters.did == opened


def test_a_trace_becomes_a_file_of_the_recording(looks: Looks, ended: Ended, tmp_path: Path) -> None:
    channel, trace = asked(looks)
    trace.write_text("{}")
    say(channel, looks, {"looked": {"at_ns": [5, 9], "cost_s": 0.75}})

    [look] = ended
    assert (look.pid, look.file, look.reason, look.cost_s) == (ME, f"look-{ME}.json.gz", "", 0.75)
    assert look.steps_ns == (5, 9)
    assert ended.said[-1] == f"looked into process {ME}: it was held up for 0.8 s"
    assert looks.close(tmp_path) == ""
    assert gzip.decompress((tmp_path / look.file).read_bytes()) == b"{}"


def test_a_refusal_is_told_with_its_reason(looks: Looks, ended: Ended, tmp_path: Path) -> None:
    channel, _ = asked(looks)
    say(channel, looks, {"refused": "the program profiles itself"})

    assert [(look.file, look.reason) for look in ended] == [("", "the program profiles itself")]
    assert looks.close(tmp_path) == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "said",
    [
        b"no JSON\n",
        b"[" * 5000 + b"\n",
        b'{"looked": 3}\n{"refused": ["x"]}\n"text"\n',
        b'{"hello": {"pid": 1}}\n',
    ],
)
def test_what_makes_no_sense_is_no_answer(looks: Looks, ended: Ended, said: bytes) -> None:
    channel, _ = asked(looks)
    channel.sendall(said)
    looks.hear()

    assert ended == []
    channel.close()
    looks.hear()
    assert [look.reason for look in ended] == ["it ended before its steps had"]


def test_figures_that_are_none_are_left_out(looks: Looks, ended: Ended) -> None:
    channel, _ = asked(looks)
    say(channel, looks, {"looked": {"at_ns": ["x", 3], "cost_s": "much"}})

    assert (ended[0].steps_ns, ended[0].cost_s) == ((), 0.0)


def test_who_talks_without_end_is_not_listened_to(looks: Looks, ended: Ended) -> None:
    channel, _ = asked(looks)
    channel.setblocking(False)
    sent = 0
    while sent <= 2 * LONGEST_ANSWER and not ended:
        sent += channel.send(b"x" * 4096)
        looks.hear()

    assert [look.reason for look in ended] == ["it ended before its steps had"]


@pytest.mark.parametrize("lines", [MOST_LINES - 1, MOST_LINES, 30000])
def test_who_says_too_many_lines_is_not_listened_to(looks: Looks, ended: Ended, lines: int) -> None:
    channel, _ = asked(looks)
    channel.sendall(b"\n" * lines)
    looks.hear()

    assert [look.reason for look in ended] == (
        ["it ended before its steps had"] if lines >= MOST_LINES else []
    )


def test_nothing_is_read_out_of_what_is_said_by_who_was_not_asked(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is in the program can connect as often as it likes, and would keep the recorder busy."""
    read: list[object] = []
    channel = connected(looks)
    monkeypatch.setattr("perfzero.record.look.json.loads", read.append)
    say(channel, looks, {"found": {}})
    assert [agent.answered for agent in looks.agents] == [False]
    channel.sendall(b"{}\n" * MOST_LINES)
    looks.hear()
    looks.hear()

    assert read == []
    assert not looks.agents


def test_an_answer_may_take_its_time_but_not_for_ever(
    looks: Looks, ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perfzero.record.look.GRACE_S", 0.0)
    asked(looks)
    looks.hear()
    assert ended == []
    looks.within_s = 0.0
    looks.hear()

    assert [look.reason for look in ended] == ["it did not answer in time"]


def test_a_link_in_place_of_a_trace_is_not_followed(looks: Looks, ended: Ended, tmp_path: Path) -> None:
    """The program's user must not get root to read a file for it."""
    secret, recording = tmp_path / "secret", tmp_path / "recording"
    secret.write_text("secret")
    recording.mkdir()
    channel, trace = asked(looks)
    trace.symlink_to(secret)
    say(channel, looks, {"looked": {"at_ns": [1, 2]}})

    assert f"look-{ME}.json.gz could not be kept" in looks.close(recording)
    assert list(recording.iterdir()) == []


@pytest.mark.parametrize("what", ["pipe", "second name", "nothing", "too large"])
def test_what_is_no_trace_of_its_own_is_not_kept(
    looks: Looks, tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel, trace = asked(looks)
    if what == "pipe":
        os.mkfifo(trace)
    elif what != "nothing":
        trace.write_text("{}")
    if what == "second name":
        os.link(trace, trace.with_name("other"))
    if what == "too large":
        monkeypatch.setattr("perfzero.record.look.LARGEST_TRACE", 1)
    say(channel, looks, {"looked": {"at_ns": [1, 2]}})

    assert f"look-{ME}.json.gz could not be kept: " in looks.close(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_handed_over_after_what_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it is the user's, a link may stand in place of a file, and root would give away where it leads."""
    given: list[tuple[str, bool]] = []
    monkeypatch.setattr("perfzero.record.folder.parent_of", lambda _: tmp_path)
    monkeypatch.setattr(
        "os.chown", lambda path, *_, follow_symlinks: given.append((Path(path).name, follow_symlinks))
    )
    made = Looks(tell=lambda _: None, say=lambda _: None)
    made.open(Invoker("user", 1000, 1000, "/home/user"))
    folder = Path(made.environment({})["PYTHONPATH"])
    made.close()

    assert given[-1] == (folder.name, False)
    assert {name for name, _ in given[:-1]} == {"agent", *FILES}
    assert not any(follows for _, follows in given)


@pytest.mark.parametrize(
    ("cost_s", "told"),
    [("1e999", 0.0), ("NaN", 0.0), ("1" + "0" * 400, 0.0), ("-1", 0.0), ("true", 1.0), ("2", 2.0)],
)
def test_a_cost_that_cannot_be_is_none(looks: Looks, ended: Ended, cost_s: str, told: float) -> None:
    channel, _ = asked(looks)
    channel.sendall(f'{{"looked": {{"at_ns": [1], "cost_s": {cost_s}}}}}\n'.encode())
    looks.hear()

    assert [look.cost_s for look in ended] == [told]


@pytest.mark.parametrize("stays", [True, False, "yes"])
def test_a_process_that_may_stay_slower_is_told_of(looks: Looks, ended: Ended, stays: object) -> None:
    channel, _ = asked(looks)
    say(channel, looks, {"looked": {"at_ns": [1, 2]}, "stays": stays})

    assert any("may stay slower" in line for line in ended.said) == (stays is True)


def test_that_is_said_once_however_often_it_comes(looks: Looks, ended: Ended) -> None:
    channel, _ = asked(looks)
    channel.sendall(b'{"stays": true}\n' * (MOST_LINES - 1))
    looks.hear()

    assert sum("may stay slower" in line for line in ended.said) == 1


@pytest.mark.parametrize("at_ns", [[-1, 2], [1, 10**30], [1] * 42, [1.5], "now"])
def test_moments_that_cannot_be_are_none(looks: Looks, ended: Ended, at_ns: object) -> None:
    channel, _ = asked(looks)
    say(channel, looks, {"looked": {"at_ns": at_ns}})

    assert [look.steps_ns for look in ended] == [()]


def test_a_refusal_drives_no_terminal(looks: Looks, ended: Ended) -> None:
    channel, _ = asked(looks)
    say(channel, looks, {"refused": "\x1b[2Jgone\ud800"})

    assert "\x1b" not in ended.said[-1]
    assert ended.said[-1].encode().endswith(b"gone?")


def test_a_refusal_is_one_line(looks: Looks, ended: Ended) -> None:
    """Else a program would print lines of its own under our name."""
    channel, _ = asked(looks)
    say(channel, looks, {"refused": "no\n\nperfzero: all\u2028is\r\twell\x85"})

    assert [look.reason for look in ended] == ["no perfzero: all is well"]


def test_whom_nobody_asks_any_more_is_let_go_and_so_is_who_has_answered(
    looks: Looks, ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that waits is a thread of the program, which Python 3.12 warns of where it forks."""
    pids = iter([1, 2, 3])
    monkeypatch.setattr("perfzero.record.look.peer", lambda _: next(pids))
    one, other = connected(looks), connected(looks)
    looks.hear()
    assert [agent.pid for agent in looks.agents] == [1, 2]
    assert [heard(one), heard(other)] == [[], []]
    looks.ask({1: ()})
    late = connected(looks)
    for channel in (one, other, late):
        channel.settimeout(5)
    assert [other.recv(1), late.recv(1)] == [b"", b""]
    assert heard(one) == ["look"]
    assert [agent.pid for agent in looks.agents] == [1]
    looks.ask({1: (), 2: (), 3: ()})
    assert heard(one) == []
    say(one, looks, {"looked": {"at_ns": [1, 2]}})
    looks.hear()
    one.settimeout(5)
    assert one.recv(1) == b""
    assert [(look.pid, look.reason) for look in ended] == [(1, "")]


def test_those_that_were_never_asked_are_told_of_with_the_reason(looks: Looks, ended: Ended) -> None:
    looks.refuse({7: (0, 1), 8: ()}, "there was no room")

    assert [(look.pid, look.gpus, look.file, look.reason) for look in ended] == [
        (7, (0, 1), "", "there was no room"),
        (8, (), "", "there was no room"),
    ]
    assert ended.said == [f"no look into process {pid}: there was no room" for pid in (7, 8)]


def test_those_that_came_and_went_leave_room_for_others(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perfzero.record.look.MOST_PROCESSES", 2)
    for _ in range(5):
        connected(looks).close()
        looks.hear()
    connected(looks)
    looks.hear()

    assert [agent.answered for agent in looks.agents] == [False]


def test_the_folder_lies_where_nobody_else_can_make_one_of_its_name(looks: Looks) -> None:
    """In /tmp everybody could, once it is gone, and a program that still runs would read their code."""
    above = Path(looks.environment({})["PYTHONPATH"]).parent.stat()

    assert not above.st_mode & 0o022
    assert above.st_uid in (0, os.geteuid())


def test_collections_of_garbage_that_were_seen_are_part_of_the_look(looks: Looks, ended: Ended) -> None:
    channel, _ = asked(looks)
    seen = [[5, 0.25], [9, 0.5]]
    say(channel, looks, {"refused": "x", "collections": seen, "watched_s": 2.0})

    assert [(one.end_ns, one.length_s) for one in ended[0].collections] == [(5, 0.25), (9, 0.5)]
    assert ended[0].watched_s == 2.0


@pytest.mark.parametrize(
    ("said", "known"),
    [
        (True, True),
        (False, False),
        (1, False),
        ("true", False),
        ([True], False),
        (None, False),
        (float("nan"), False),
    ],
)
def test_only_the_word_that_python_collects_by_itself_is_believed(
    looks: Looks, ended: Ended, said: object, known: bool
) -> None:
    channel, _ = asked(looks)
    say(
        channel,
        looks,
        {"refused": "x", "collections": [[5, 0.25]], "watched_s": 2.0, "collects_itself": said},
    )

    assert ended[0].collects_itself is known
    assert len(ended[0].collections) == 1


@pytest.mark.parametrize(
    "seen",
    [3, [3], [["a", 0.5]], [[5, "a"]], [[5]], [[5, 0.5, 1]], [[-5, 0.5]], [[5, -0.5]], [[5, 2.5]],
     [[5, 0.5], [5, float("nan")]], [[True, 0.5]], [[5, 0.5]] * 41],
)  # fmt: skip
def test_collections_that_cannot_be_are_none(looks: Looks, ended: Ended, seen: object) -> None:
    channel, _ = asked(looks)
    say(channel, looks, {"refused": "x", "collections": seen, "watched_s": 2.0})

    assert (ended[0].collections, ended[0].watched_s, ended[0].reason) == ((), 0.0, "x")
