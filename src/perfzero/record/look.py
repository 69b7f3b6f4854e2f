"""
Looks inside the observed program: the recorder's side of `perfzero.record.agent`.

The program is started with two variables: `PYTHONPATH` leads to a copy of the agent, `PERFZERO_AGENT` to the
socket on which it is waited for. Both are in a folder that belongs to the program's user and that nobody else
can enter. It lies where nobody else can make one of the same name (`perfzero.record.folder`): the two
variables may outlive it. A process that connects is known by what the kernel says of it, not by what it says
itself. It is asked once, writes its trace into the folder, and that becomes a file of the recording when the
session ends.

Beside the trace the hardware counters are sampled as finely as can be. When its steps have been found, a
session is opened for that (`Counters`); only then the profiler gets ready, and when it is, sampling begins;
only then it starts. So each step of the trace is sampled, and hardly any other. What is said between the two
stands in `perfzero.record.agent`.

Nothing in here waits for the program, and it waits for nothing.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import socket
import stat
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from perfzero.record.folder import Folder
from perfzero.record.launch import Invoker
from perfzero.store.decode import clean_text
from perfzero.store.schema import look_name
from perfzero.values import FullCollection, Look
from perfzero.words.said import joined, say

AGENT = Path(__file__).parent / "agent"
FILES = ("sitecustomize.py", "_perfzero_agent.py", "_perfzero_torch.py", "_perfzero_cupti.py")

STEPS = 3
"""Traced: the first may still feel the profiler's start, and two are few enough to cost little ..."""

LEAST_S = 0.12
"""... but so much time of the program, if its steps are short: a few of them say little ..."""

MOST_STEPS = 40
"""... and so many steps at most."""

WITHIN_S = 60.0
"""How long the agent waits for its steps; a program with longer ones is not looked into."""

GRACE_S = 30.0
"""... and for so much longer its answer: the profiler has to stop, and the trace to be written."""

PREPARED_S = 3.0
"""And two steps: for so long those that are ready wait for the others, one of which may never be."""

LONGEST_ANSWER = 1 << 16
"""Bytes, of all that one process says."""

MOST_LINES = 8
"""An agent says five in its life."""

MOST_COLLECTIONS = 40
"""Of Python's garbage, in the seconds of a look: as many as the agent tells."""

LARGEST_TRACE = 512 << 20
"""Bytes, as many as `store.kineto` reads: more than a million events of the size that they have on a CPU."""

MOST_PROCESSES = 256
"""Connections: a node has 16 ranks, and each may start some interpreters that do nothing on a GPU."""

CHUNK = 1 << 20


class Counters(Protocol):
    """What samples the hardware counters beside a look."""

    def open(self, step_s: float, steps: int) -> None:
        """Get ready to sample *steps* steps of about *step_s* seconds."""
        ...

    @property
    def opened(self) -> bool:
        """Whether sampling can begin, or there will be none."""
        ...

    def start(self) -> None:
        """Begin to sample."""
        ...

    @property
    def started(self) -> bool:
        """Whether sampling has begun, or there is none."""
        ...

    def stop(self) -> None:
        """Sample no more, at whatever point it is."""
        ...


class NoCounters:
    """None beside the look."""

    opened = started = True

    def open(self, step_s: float, steps: int) -> None:
        """Nothing to get ready."""

    def start(self) -> None:
        """Nothing to sample."""

    def stop(self) -> None:
        """Nothing to stop."""


Word = Literal["", "found", "ready", "traced"]
"""What a process said last of its look."""


@dataclass(slots=True)
class Agent:
    """A process that waits to be asked. `told` is the last thing that it was told to do."""

    channel: socket.socket
    pid: int
    heard: bytes = b""
    lines: int = 0
    asked_ns: int | None = None
    gpus: tuple[int, ...] = ()
    answered: bool = False
    stays: bool = False
    said: Word = ""
    told: Literal["", "prepare", "go"] = ""
    step_s: float = 0.0
    steps: int = STEPS
    collections: tuple[FullCollection, ...] = ()
    watched_s: float = 0.0
    collects_itself: bool = False

    @property
    def at_work(self) -> bool:
        """Whether its look goes on."""
        return self.asked_ns is not None and not self.answered

    def tell(self, word: str, **said: float) -> None:
        """Send a message. Raises OSError."""
        self.channel.sendall(json.dumps({word: said}).encode() + b"\n")


@dataclass(slots=True)
class _Meeting:
    """Where the agent and the recorder meet."""

    folder: Folder
    server: socket.socket
    agents: list[Agent] = field(default_factory=list)


class Looks:
    """
    Asks the processes of the program, once each, for a look; *tell* is given each `Look` that has ended.

    With *may_stay* those are looked into as well that stay slower afterwards, for CUPTI stays in them.

    *say* is told what happens, beforehand and afterwards.
    """

    def __init__(
        self, *, tell: Callable[[Look], None], say: Callable[[str], None], may_stay: bool = False
    ) -> None:
        self.within_s = WITHIN_S
        self._may_stay = may_stay
        self._tell = tell
        self._say = say
        self._meeting: _Meeting | None = None
        self._traces: list[tuple[Path, str]] = []
        self._counters: Counters = NoCounters()
        self._stage: Literal["asked", "opening", "open", "starting", "sampling", "over"] = "over"
        self._step_s = 0.0
        self._until_s = 0.0  # by the monotonic clock

    def open(self, user: Invoker | None) -> Path:
        """Prepare the meeting place, for a program of *user*, and say where it is. Raises OSError."""
        folder = Folder(user)
        path = folder.path
        server = socket.socket(socket.AF_UNIX)
        try:
            for name in FILES:
                shutil.copyfile(AGENT / name, path / name)
            server.setblocking(False)
            server.bind(str(path / "agent"))
            server.listen(MOST_PROCESSES)
            if user is not None:
                # The folder comes last: until then its user cannot put a link in the place of a file.
                for entry in (*path.iterdir(), path):
                    os.chown(entry, user.uid, user.gid, follow_symlinks=False)
        except OSError:
            server.close()
            folder.remove()
            raise
        self._meeting = _Meeting(folder, server)
        return path

    def environment(self, before: Mapping[str, str]) -> dict[str, str]:
        """What the program's environment needs beside *before*; nothing if `open` failed."""
        if self._meeting is None:
            return {}
        path = str(self._meeting.folder.path)
        rest = before.get("PYTHONPATH")
        return {
            "PYTHONPATH": path if not rest else f"{path}{os.pathsep}{rest}",
            "PERFZERO_AGENT": f"{path}/agent",
        }

    @property
    def agents(self) -> Sequence[Agent]:
        """The processes that have come so far."""
        return () if self._meeting is None else self._meeting.agents

    @property
    def asked(self) -> bool:
        """Whether any process has been asked."""
        return any(agent.asked_ns is not None for agent in self.agents)

    @property
    def at_work(self) -> bool:
        """Whether a look goes on: then `hear` is to be called as often as can be."""
        return any(agent.at_work for agent in self.agents)

    def ask(
        self,
        users: Mapping[int, tuple[int, ...]],
        counters: Counters | None = None,
        *,
        period_s: float = 0.0,
    ) -> None:
        """
        Ask those of *users* that wait; says so beforehand. `hear` lets go of all others then.

        Process ids, with the GPUs on which each is seen, if any is. *period_s* is the length of a step as it
        is seen from outside, 0 where it is not: a process whose framework marks no steps goes by it.
        """
        if self._meeting is None:
            return
        fresh = [a for a in self._meeting.agents if a.pid in users and a.asked_ns is None]
        if not fresh:
            return
        who = (
            say("look.process", pid=fresh[0].pid)
            if len(fresh) == 1
            else say("look.processes", count=len(fresh))
        )
        self._say(say("look.begins", who=who))
        self._counters = counters or NoCounters()
        self._stage = "asked"
        for agent in fresh:
            agent.asked_ns, agent.gpus = time.time_ns(), users[agent.pid]
            self._send(
                agent,
                "look",
                steps=STEPS,
                most_steps=MOST_STEPS,
                least_s=LEAST_S,
                within_s=self.within_s,
                period_s=period_s,
                may_stay=self._may_stay,
            )

    def refuse(self, users: Mapping[int, tuple[int, ...]], reason: str) -> None:
        """Tell of *users*, who may have ended, that they were never asked, as *reason*."""
        for pid, gpus in users.items():
            now_ns = time.time_ns()
            self._say(say("look.refused", pid=pid, reason=reason))
            self._tell(Look(pid=pid, start_ns=now_ns, end_ns=now_ns, reason=reason, gpus=gpus))

    def _send(self, agent: Agent, word: str, **said: float) -> None:
        try:
            agent.tell(word, **said)
        except OSError as error:
            self._end(agent, reason=say("look.could_not_tell", why=error.strerror or error))

    def hear(self) -> None:
        """Take what has come: new processes, and answers."""
        meeting = self._meeting
        if meeting is None:
            return
        while len(meeting.agents) < MOST_PROCESSES:
            try:
                channel, _ = meeting.server.accept()
            except OSError:  # nobody is waiting any more
                break
            channel.setblocking(False)
            meeting.agents.append(Agent(channel, peer(channel)))
        for agent in meeting.agents:
            self._hear(agent)
        self._dismiss(meeting)
        if self._stage != "over":
            self._go_on([agent for agent in meeting.agents if agent.at_work])

    def _dismiss(self, meeting: _Meeting) -> None:
        """
        Close the channels of those that nobody asks any more: their agents end then, and with them a thread.

        Processes are asked all at once. One that comes later (torchrun starts its workers anew when one
        fails) has nothing to wait for.
        """
        asked = self.asked
        for agent in meeting.agents:
            if agent.answered or (asked and agent.asked_ns is None):
                agent.channel.close()
        meeting.agents[:] = [a for a in meeting.agents if a.asked_ns is not None or a.channel.fileno() >= 0]

    def _go_on(self, agents: Sequence[Agent]) -> None:
        """Bring the looks of *agents* and the sampling beside them a step further, where both are ready."""
        if self._stage == "asked" and (found := [a for a in agents if a.said == "found"]):
            self._step_s = max(a.step_s for a in found)
            self._counters.open(self._step_s, max(a.steps for a in found))
            self._stage = "opening"
        if self._stage == "opening" and self._counters.opened:
            self._until_s = time.monotonic() + PREPARED_S + 2 * self._step_s
            self._stage = "open"
        if self._stage in ("open", "starting", "sampling"):
            self._let([a for a in agents if a.said == "found" and not a.told], "prepare")
        late = self._stage != "asked" and time.monotonic() > self._until_s
        waited_for = [a for a in agents if a.told and a.said == "found" and not late]
        ready = [a for a in agents if a.told and a.said == "ready"]
        if self._stage == "open" and ready and not waited_for:
            self._counters.start()
            self._stage = "starting"
        if self._stage == "starting" and self._counters.started:
            self._stage = "sampling"
        if self._stage == "sampling":
            self._let([a for a in ready if a.told == "prepare"], "go")
        given_up = self._stage == "open" and late and not ready
        sampled = self._stage == "sampling" and not waited_for and not ready
        if sampled or given_up or not agents:
            self._counters.stop()
            self._stage = "over"
            for left in [a for a in agents if a.at_work and a.said != "traced"]:
                left.channel.close()  # it goes on as if there had been no look
                self._end(left, reason=say("look.not_ready"))

    def _let(self, agents: Sequence[Agent], word: Literal["prepare", "go"]) -> None:
        for agent in agents:
            agent.told = word
            self._send(agent, word)

    def _hear(self, agent: Agent) -> None:
        if agent.answered:
            return
        over = True  # it has ended, or talks too much
        try:
            while len(agent.heard) <= LONGEST_ANSWER and (part := agent.channel.recv(LONGEST_ANSWER)):
                agent.heard += part
        except BlockingIOError:  # it says nothing more for now
            over = False
        except OSError:
            pass
        *lines, agent.heard = agent.heard.split(b"\n", MOST_LINES - agent.lines)
        agent.lines += len(lines)
        for line in lines:
            if agent.asked_ns is not None and not agent.answered:
                self._take(agent, line)
        over = over or agent.lines >= MOST_LINES
        if agent.answered or agent.asked_ns is None:
            agent.answered = agent.answered or over
            return
        late = time.time_ns() - agent.asked_ns > (self.within_s + GRACE_S) * 1e9
        if over or late:
            self._end(agent, reason=say("look.no_answer") if late else say("look.ended_early"))

    def _take(self, agent: Agent, line: bytes) -> None:
        """One line of what a process says. It may say anything."""
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(said, dict) or agent.asked_ns is None or self._meeting is None:
            return
        refused, looked, found = said.get("refused"), said.get("looked"), said.get("found")
        if "collections" in said:
            agent.collections, agent.watched_s = _collections(said["collections"], said.get("watched_s"))
            agent.collects_itself = said.get("collects_itself") is True
        if said.get("stays") is True and not agent.stays:
            agent.stays = True
            self._say(say("look.cupti_stays", pid=agent.pid))
        if isinstance(found, dict) and not agent.said:
            agent.said = "found"
            agent.step_s, agent.steps = _cost_s(found.get("step_s")), _steps(found.get("steps"))
        elif "ready" in said and agent.told == "prepare":
            agent.said = "ready"
        elif "traced" in said and agent.told == "go":
            agent.said = "traced"
        elif isinstance(refused, str):
            reason = " ".join(refused[:500].split())  # a second line would seem to be ours
            self._end(agent, reason=clean_text(reason).encode(errors="replace").decode())
        elif isinstance(looked, dict):
            self._end(
                agent,
                trace=self._meeting.folder.path / f"trace-{agent.pid}",
                cost_s=_cost_s(looked.get("cost_s")),
                steps_ns=_moments(looked.get("at_ns")),
            )

    def _end(
        self,
        agent: Agent,
        *,
        reason: str = "",
        trace: Path | None = None,
        cost_s: float = 0.0,
        steps_ns: tuple[int, ...] = (),
    ) -> None:
        assert agent.asked_ns is not None
        agent.answered = True
        look = Look(
            pid=agent.pid,
            start_ns=agent.asked_ns,
            end_ns=time.time_ns(),
            file=look_name(agent.pid) if trace is not None else "",
            reason=reason,
            cost_s=cost_s,
            steps_ns=steps_ns,
            gpus=agent.gpus,
            collections=agent.collections,
            watched_s=agent.watched_s,
            collects_itself=agent.collects_itself,
        )
        if trace is not None:
            self._traces.append((trace, look.file))
            self._say(say("look.done", pid=agent.pid, seconds=f"{look.cost_s:.1f}"))
        else:
            self._say(say("look.refused", pid=agent.pid, reason=reason))
        self._tell(look)

    def close(self, recording: Path | None = None) -> str:
        """
        Move the traces into *recording*, if any, and remove the meeting place.

        Returns what could not be kept, in words. Processes that still wait are left alone: their agents end
        when the sockets close.
        """
        meeting, self._meeting = self._meeting, None
        if meeting is None:
            return ""
        problems: list[str] = []
        wanted = [] if recording is None else [(trace, recording / name) for trace, name in self._traces]
        for trace, to in wanted:
            try:
                _compress(trace, to)
            except (OSError, ValueError) as error:
                why = getattr(error, "strerror", None) or error
                problems.append(say("look.not_kept", name=to.name, why=why))
        for agent in meeting.agents:
            agent.channel.close()
        meeting.server.close()
        meeting.folder.remove()
        return joined("join.semicolons", problems)


def peer(channel: socket.socket) -> int:
    """The process at the other end of a Unix socket, by the kernel's word."""
    pid, _uid, _gid = struct.unpack("3i", channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(pid)


def _cost_s(said: object) -> float:
    """How long a program says that it was held up, in s; 0 for what cannot be."""
    return float(said) if isinstance(said, int | float) and 0 <= said <= 3600 else 0.0


def _steps(said: object) -> int:
    """How many steps a process says that it traces."""
    return said if type(said) is int and 1 <= said <= MOST_STEPS else STEPS


def _moments(said: object) -> tuple[int, ...]:
    """When its steps began and the last one ended, in Unix ns, as a program says; none for what cannot be."""
    if not isinstance(said, list) or len(said) > MOST_STEPS + 1:
        return ()
    return tuple(said) if all(type(t) is int and 0 <= t < 2**63 for t in said) else ()


def _collections(said: object, watched: object) -> tuple[tuple[FullCollection, ...], float]:
    """Full collections of Python's garbage, and for how long it was watched; none for what cannot be."""
    watched_s = _cost_s(watched)
    if not isinstance(said, list) or len(said) > MOST_COLLECTIONS:
        return (), 0.0
    found = [FullCollection(one[0], one[1]) for one in said if _is_collection(one, watched_s)]
    return (tuple(found), watched_s) if len(found) == len(said) else ((), 0.0)


def _is_collection(said: object, watched_s: float) -> bool:
    if not isinstance(said, list) or len(said) != 2:
        return False
    end_ns, length_s = said
    return (
        type(end_ns) is int and 0 <= end_ns < 2**63 and type(length_s) is float and 0 <= length_s <= watched_s
    )


def _compress(trace: Path, to: Path) -> None:
    """*trace*, which the program wrote, as a .gz file. Raises OSError, and ValueError for what is none."""
    handle = os.open(trace, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as source:
        seen = os.fstat(handle)
        if not stat.S_ISREG(seen.st_mode) or seen.st_nlink != 1:
            raise ValueError(say("look.no_own_file"))
        if seen.st_size > LARGEST_TRACE:
            raise ValueError(say("look.too_large", size=seen.st_size >> 20, most=LARGEST_TRACE >> 20))
        made = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        with open(made, "wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
            left = LARGEST_TRACE
            while left > 0 and (part := source.read(min(CHUNK, left))):
                packed.write(part)
                left -= len(part)
