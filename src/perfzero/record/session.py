"""
A recording session: the observed program, the GPUs it uses, and the recording that comes of it.

    Recorder(target, ...)  .start()   find the GPUs, create the recording, start the program
                           .watch()   until the program ends, the time is over, or someone says stop
                           .end()     give everything back, state the cost, close the recording
                           .wait()    stay in place until the launched program has ended
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import psutil

from perfzero.errors import NoGpu, PerfzeroError, SourceError, UsageError
from perfzero.record.attach import (
    TOO_SHORT,
    Bystander,
    Watched,
    existing,
    not_asked,
    not_entered,
    nothing_to_enter,
)
from perfzero.record.certainty import LEAST_PAUSE_S, PAUSE_SHARE, Certainty, Judge
from perfzero.record.close_up import CloseUp
from perfzero.record.cost import Slowdown, slowdown
from perfzero.record.kept_roofs import with_kept_roofs
from perfzero.record.launch import Child, Invoker, invoking_user
from perfzero.record.look import Looks
from perfzero.record.policy import Settings
from perfzero.record.progress import STATES, Progress
from perfzero.record.remote import Entrance
from perfzero.record.stacks import HostSampling
from perfzero.record.watch import GpuWatch, SourceChoice, calm
from perfzero.sources import nvml
from perfzero.sources._find_libcupti import trusted_users
from perfzero.sources.host import Host
from perfzero.store.redact import redact_environment
from perfzero.store.writer import RecordingWriter, prepare_folder
from perfzero.text import SURE, duration
from perfzero.values import Cost, Gpu, Note, Process
from perfzero.words.said import first_line, say, within

TICK_S = (0.2, 0.5, 0.5)
HOST_EVERY_S = (1.0, 4.0, 5.0)
"""By how calm the run is (`calm`)."""

LOOK_TICK_S = 0.02
"""While a look goes on: the profiler is ready and slows the program until sampling has begun."""

LOOK_FREE_BYTES = 256 << 20
"""
So much memory has to be free on each of the program's GPUs when it is looked into. CUPTI takes some of it:
3.2 MB a buffer, "might be larger", several to a context (cupti_activity.h of CUDA 13). A program at the brim
would get an error in place of what it asks for next. The figure is a guess with room, not a measurement.
"""

LOOK_FREE_EVERY_S = 5.0
"""How often to see whether it has become free: the driver takes milliseconds to tell."""

FIND_GPU_EVERY_S = (1.0, 10.0)
"""How often to look whether the program uses more GPUs, at first and when some have been found."""
FIND_GPU_FOR_S = 10.0
"""
How long to look closely: before process ids count as hidden, and after the first GPU was found,
since the others of a distributed program follow soon.
"""
STEPS_AFTER_S = 20.0
"""With --profiling-interval, when to say that no step can be seen yet."""

OTHER_STEPS = 0.05
"""A step time that has changed by more than this share spaces windows anew."""

PROGRESS_EVERY_S = 1.0

SHORT_S = 20.0
"""
A recording of less than this does not wait for the board to come to its power cap: the 2 s, near the cap 6 s
of work before the first window would be a third of it, or all.
"""

UNSETTLED_S = 8.0
"""Of work, before the host is sampled even if the program has not settled: windows are longer then."""

MOST_ENVIRONMENTS = 16
"""Of so many processes the environment is read: ranks have the same one but for their number."""

ENVIRONMENT_TRIES = 20
"""A program that has just been started shows no environment for an instant: the system fills it in last."""

SURE_AFTER_S = 14.0
"""Of steady state, before a verdict is asked for: the close look takes 11 s, unless the board is capped."""

FAILED_JUDGEMENTS = 3
"""After so many in a row nobody is asked any more whether the verdict is sure."""

TOO_FULL = say("look.no_memory", size=LOOK_FREE_BYTES >> 20)
"""Why nobody was asked."""

Ending = Literal["program", "duration", "signal", "gpu", "sure"]


@dataclass(frozen=True, slots=True)
class Target:
    """What to watch: a command to launch, a process to attach to, or GPUs, whoever uses them."""

    command: tuple[str, ...] = ()
    pid: int | None = None
    gpus: tuple[str, ...] = ()


class Recorder:
    """
    Records one program or a set of GPUs into *output*.

    *say* is told in short sentences what is happening, *show* once a second how far it is. With a
    *judge* it ends when the verdict has had the confidence *sure* for long enough. With an *agent*, the
    program is looked into once, when it has been looked at closely from outside; one that runs already, or
    stays slower afterwards, only if it *may_stay* so, which was asked for by name. With *stacks*, what the
    process that feeds the GPU does is sampled meanwhile.
    """

    def __init__(
        self,
        target: Target,
        *,
        output: Path,
        settings: Settings,
        source: SourceChoice = "auto",
        duration_s: float | None = None,
        every_steps: int | None = None,
        force: bool = False,
        say: Callable[[str], None] = lambda _: None,
        show: Callable[[Progress], None] | None = None,
        judge: Judge | None = None,
        sure: float = SURE,
        agent: bool = False,
        may_stay: bool = False,
        stacks: bool = False,
    ) -> None:
        self.path = output
        self._target = target
        # A program that runs already, or counters without which there is nothing, are not waited for;
        # nor is there time for that in a short recording.
        short = duration_s is not None and duration_s < SHORT_S
        wait = bool(target.command) and source != "pm" and not short
        settings = settings if wait else replace(settings, first_after_s=0.0)
        self._settings = settings if judge is None else replace(settings, until_sure=True)
        self._source = source
        self._duration_s = duration_s
        self._every_steps = every_steps
        self._force = force
        self._say = say
        self._watches: list[GpuWatch] = []
        self._candidates: list[GpuWatch] = []
        self._seen_pids: set[int] = set()  # of the observed tree, those that have ended included
        self._watched: Watched
        self._writer: RecordingWriter
        self._host: Host | None = None
        self._resources = ExitStack()
        self._begun = time.monotonic()
        self._first_taken_s: float | None = None
        self._environment: dict[str, str] = {}  # of the program, read while it lives
        self._environment_of_users = False  # of whoever uses the GPU, too
        self._spaced_by_s: float | None = None  # the step time that the windows' spacing comes from
        self._told_no_steps = False
        self._show = show
        self._judge = judge
        self._sure_share = sure
        self._certainty = Certainty(sure)
        self._asked_s: float | None = None
        self._asked_with = 0  # how much evidence there was when the judge was asked
        self._next_judgement_s = 0.0
        self._failed_judgements = 0
        self._ended_early = ""
        self._samples_host = stacks
        self._host_sampling = HostSampling(say=say)
        self._works_since_s: float | None = None
        self._looks: Looks | None = None
        self._entrance: Entrance | None = None  # into a program that runs already
        self._look_free_s = -math.inf  # when memory for it was last looked for
        self._look_refused: dict[int, tuple[int, ...]] = {}  # whom it was not free for, and their GPUs
        self._unseen = ""  # what nobody can tell of what is watched
        program = bool(target.command) or target.pid is not None
        if agent and target.pid is not None and not may_stay:
            self._unseen = not_asked()
        elif agent and program:
            self._looks = Looks(tell=lambda look: self._writer.look(look), say=say, may_stay=may_stay)
            self._entrance = None if target.command else Entrance(self._looks, say=say)
        if (agent or stacks) and not program:
            self._unseen = nothing_to_enter(layers=agent, lines=stacks)

    @property
    def watched(self) -> Watched:
        """The observed program."""
        return self._watched

    @property
    def owns_program(self) -> bool:
        """Whether the program was started by us, and its exit code is ours."""
        return bool(self._target.command)

    @property
    def watches(self) -> Sequence[GpuWatch]:
        """The GPUs that turned out to be the program's."""
        return self._watches

    def start(self) -> None:
        """
        Find the GPUs, create the recording, start the program.

        Raises `NoGpu`, `UsageError` (the folder is taken, the process does not exist) or `CannotStart`,
        each before the program runs, and leaves nothing open and no recording then. Once a program
        runs nothing is raised any more. Where none was to be started, whatever keeps all
        GPUs from being watched is.
        """
        try:
            self._start()
        except BaseException:
            self._resources.close()
            raise

    def _start(self) -> None:
        target = self._target
        # Initialising NVML costs tenths of a second of CPU; while this one lasts, further ones are free.
        self._resources.enter_context(nvml.session())
        gpus = nvml.select(target.gpus) if target.gpus else nvml.discover()
        gpus = with_kept_roofs(gpus, tell=self._say)
        if not gpus:
            raise NoGpu(say("gpu.none"))
        refuse_twins(gpus)
        if target.pid is not None:
            existing(target.pid)
        self._writer = RecordingWriter(
            self.path,
            gpus=gpus,
            process=Process(command=target.command, pid=target.pid),
            settings=self._describe(),
            tiers={},
            tier_reasons={},
            force=self._force,
        )
        user: Invoker | None = None
        try:
            if target.command:
                user = invoking_user()
                self._watched = Child(target.command, user=user, more=self._agent(user))
            else:
                self._watched = Bystander(target.pid)
        except BaseException:
            self._discard()
            raise
        try:
            self._begin(gpus, user)
        except Exception as error:
            if not target.command:
                with ExitStack() as last_things:
                    last_things.callback(self._discard)
                    last_things.callback(self._watched.restore_signals)
                    self._close_sources()
                raise
            # The program is running and must not suffer: go on with what there is.
            text = error.sentence if isinstance(error, SourceError) else f"{type(error).__name__}: {error}"
            self._ended_early = first_line(text)
            self._note("source", text)
            self._say(text)

    def _agent(self, user: Invoker | None) -> dict[str, str]:
        """What the program's environment needs for a look inside; nothing where there is to be none."""
        if self._looks is None:
            return {}
        self._resources.callback(self._looks.close)
        try:
            self._looks.open(user)
        except OSError as error:
            self._say(say("look.cannot", why=error.strerror or error))
        return self._looks.environment(os.environ)

    def _begin(self, gpus: Sequence[Gpu], user: Invoker | None) -> None:
        """What `start` does once the program runs."""
        self._begun = time.monotonic()
        if user is not None:
            self._say(say("run.as_user", user=user.name))
        if self._entrance is not None and self._looks is not None:
            self._resources.callback(self._looks.close)
            self._resources.callback(self._entrance.close)
        if self._unseen:
            self._note("unseen", self._unseen)
        self._environment = redact_environment(_environment(self._watched.pid))
        self._writer.update(process=self._process())
        self._open(gpus)

    def _discard(self) -> None:
        """Leave nothing of a recording that never began."""
        self._writer.close(complete=False)
        with suppress(PerfzeroError):
            prepare_folder(self.path, force=True)

    def watch(self) -> Ending:
        """Record until there is a reason to end, and say which. Raises `SourceError` for `--source pm`."""
        ending = self._watch()
        if self._judge is not None and ending != "sure":
            unheard = self._asked_s is not None and not self._certainty.heard
            doubt = say("sure.not_yet") if unheard else self._certainty.doubt
            self._tell_sure(say("sure.never", doubt=doubt))
        return ending

    def _watch(self) -> Ending:
        next_host = next_find = next_show = 0.0
        while True:
            now = time.monotonic() - self._begun
            calmness = calm(now)
            if not self._watched.running:
                return "program"
            if self._duration_s is not None and now >= self._duration_s:
                return "duration"
            if self._ended_early and not self._candidates and not self._watches:
                return "gpu"
            if self._host is not None and now >= next_host:
                next_host = now + HOST_EVERY_S[calmness]
                self._read_host()
            if self._candidates and now >= next_find:
                self._find_gpus(now)
                next_find = now + FIND_GPU_EVERY_S[self._found(now)]
            for watch in (*self._watches, *self._candidates):
                watch.tick(now)
                if watch.fatal is not None:
                    raise watch.fatal
            if not self._environment_of_users and any(w.state != "waiting for work" for w in self._watches):
                self._read_environment()
            if self._samples_host:
                self._sample_host(now)
            if self._looks is not None:
                self._look_inside(self._looks)
            if self._every_steps:
                self._space_by_steps(now)
            if self._judge is not None and self._is_sure(self._judge, now):
                return "sure"
            if self._show is not None and now >= next_show:
                next_show = now + PROGRESS_EVERY_S
                self._show(self._progress(now))
            due = min((w.due_s for w in self._watches), default=math.inf)
            passed = time.monotonic() - self._begun
            looking = self._looks is not None and self._looks.at_work
            tick_s = LOOK_TICK_S if looking else TICK_S[calmness]
            number = self._watched.wait(min(tick_s, max(0.001, due - passed)))
            if number is not None and not self._target.command and number != signal.SIGCHLD:
                return "signal"

    def end(self) -> Path:
        """
        Give every device back, state the cost, close the recording; returns its folder.

        Each of these is tried, whatever happens to the others; only then an exception comes through.
        """
        with ExitStack() as last_things:  # from the last to the first
            last_things.callback(self._resources.close)
            last_things.callback(self._writer.close)
            last_things.callback(self._conclude, time.time_ns())
            self._close_sources()
        if self._writer.failed:
            self._say(say("write.not_all", what=self._writer.failed))
        return self.path

    def _close_sources(self) -> None:
        with ExitStack() as sources:
            sources.callback(self._end_host_sampling)
            if self._looks is not None:
                sources.callback(self._end_looks, self._looks)
            if self._host is not None:
                sources.callback(self._host.close)
                sources.callback(self._read_host)
            if self._judge is not None:
                sources.callback(self._judge.close)
            watches = (*self._watches, *self._candidates)
            for watch in watches:
                sources.callback(watch.close)
            for watch in watches:  # all before the first is waited for
                sources.callback(watch.leave)
            if not self._watches:  # the program showed on none: then what was seen of all is the recording
                for watch in self._candidates:
                    sources.callback(watch.keep)

    def _end_looks(self, looks: Looks) -> None:
        looks.hear()
        looks.refuse(self._look_refused, TOO_FULL)
        if self._entrance is not None:
            self._entrance.close()
            if not looks.asked and not self._look_refused:
                self._note("unseen", not_entered(*(self._entrance.closed or (self._target.pid, TOO_SHORT))))
        if problem := looks.close(self.path):
            self._note("look", problem)
            self._say(problem)

    def _conclude(self, ended_ns: int) -> None:
        """Write into the manifest how it ended."""
        chosen = self._watches or self._candidates
        self._writer.update(
            **({"gpus": tuple(w.gpu for w in chosen)} if chosen else {}),
            tiers={w.gpu.index: w.tier for w in chosen},
            tier_reasons={w.gpu.index: w.tier_reason or self._why(w) for w in chosen},
            other_pids={w.gpu.index: self._others(w) for w in chosen},
            process=self._process(),
            cost=self._cost(chosen),
            settings={**self._describe(), "chosen": [c for w in chosen for c in w.chosen()]},
            ended_ns=ended_ns,
        )

    def wait(self) -> int | None:
        """Stay until the launched program has ended; returns its exit code, None where unknown."""
        while self._target.command and self._watched.running:
            self._watched.wait(1.0)
        self._watched.restore_signals()
        return self._watched.returncode

    # --- parts ---

    def _open(self, gpus: Sequence[Gpu]) -> None:
        host = Host(self._watched.pid)
        try:
            host.open()
            self._host = host
        except SourceError:
            self._note("host", say("run.had_ended"))
        hints = library_hints(self._target.command, self._watched.pid)
        trouble: SourceError | None = None
        for gpu in gpus:
            watch = GpuWatch(
                gpu,
                writer=self._writer,
                settings=self._settings,
                source=self._source,
                hints=hints,
                sudo=os.geteuid() != 0,
                say=self._say,
                by_steps=bool(self._every_steps),
            )
            try:
                watch.open()
            except SourceError as error:
                watch.close()  # part of it may be open
                trouble = error
                continue
            self._candidates.append(watch)
        if not self._candidates and trouble is not None:
            raise trouble
        if self._target.gpus or self._watched.pid is None or len(self._candidates) == 1:
            self._take(self._candidates, 0.0)

    def _take(self, watches: Sequence[GpuWatch], now_s: float) -> None:
        """These are the GPUs to watch closely."""
        for watch in list(watches):
            self._candidates.remove(watch)
            self._watches.append(watch)
            watch.take()
        if self._watches and self._first_taken_s is None:
            self._first_taken_s = now_s

    def _found(self, now_s: float) -> bool:
        """Whether the program's GPUs seem to be known."""
        return self._first_taken_s is not None and now_s > self._first_taken_s + FIND_GPU_FOR_S

    def _find_gpus(self, now_s: float) -> None:
        """Take the GPUs on which the program holds a context, or where ids are hidden, all that list none."""
        tree = self._host.pids() if self._host is not None else frozenset()
        self._take([w for w in self._candidates if w.board.pids and tree & w.board.pids], now_s)
        if self._found(now_s):
            for watch in self._candidates:
                watch.rest()
        hidden = any(w.hides_processes for w in self._candidates)
        if not self._watches and hidden and now_s > FIND_GPU_FOR_S:
            self._say(say("run.processes_hidden"))
            self._note("pids", say("run.ids_hidden"))
            self._take([w for w in self._candidates if not w.pids], now_s)

    def _read_host(self) -> None:
        assert self._host is not None
        self._host.gpu_pids = self._users(self._host)
        self._writer.append("host", None, self._host.read())
        self._seen_pids |= self._host.pids()

    def _users(self, host: Host) -> frozenset[int]:
        """The processes of the program that hold a context on a GPU, as far as the driver lists them."""
        return frozenset[int]().union(*(w.board.pids or () for w in self._watches)) & host.pids()

    def _sample_host(self, now_s: float) -> None:
        """
        While the GPUs are looked at closely, see once what the process that feeds them does meanwhile.

        A program that works in fits and starts may not settle: after `UNSETTLED_S` it is not waited for.
        """
        sampling, host = self._host_sampling, self._host
        sampling.tick(busy=self._looks is not None and self._looks.at_work)
        states = {w.state for w in self._watches} - {"waiting for work"}
        if sampling.begun or not states or host is None:
            return
        if self._works_since_s is None:
            self._works_since_s = now_s
        if states == {"warm-up"} and now_s - self._works_since_s < UNSETTLED_S:
            return
        users = self._users(host)
        pid = host.main_pid if host.main_pid in users or not users else min(users)
        if pid is not None:
            sampling.begin(pid)

    def _end_host_sampling(self) -> None:
        try:
            self._host_sampling.close(self.path)
        except OSError as error:
            self._note("stacks", say("stacks.not_kept", why=error.strerror or error))

    def _look_inside(self, looks: Looks) -> None:
        """Once the GPUs have been looked at closely, ask who uses them; all, where the driver hides them."""
        looks.hear()
        if looks.asked or not all(w.state == "watching" and not w.in_window for w in self._watches):
            return
        if self._watches and self._host is not None:
            hidden = any(w.hides_processes for w in self._watches)
            pids = self._host.pids() if hidden else self._users(self._host)
            if self._entrance is not None:
                main = self._host.main_pid
                wanted = pids if not hidden else [] if main is None else [main]
                if not wanted or not self._entrance.ready(wanted):
                    return
            used = {pid: [w.gpu.index for w in self._watches if pid in (w.board.pids or ())] for pid in pids}
            waiting = {agent.pid for agent in looks.agents}
            users = {pid: tuple(gpus) for pid, gpus in used.items() if pid in waiting}
            if users and self._is_free_for(users):
                looks.ask(
                    users,
                    CloseUp(self._watches),
                    period_s=max(w.step_s or 0.0 for w in self._watches),
                )

    def _is_free_for(self, users: Mapping[int, tuple[int, ...]]) -> bool:
        """Whether the GPUs have the memory that a look into *users* takes; else the look waits."""
        now = time.monotonic()
        if now - self._look_free_s < LOOK_FREE_EVERY_S:
            return False
        self._look_free_s = now
        free = [w.board.free_bytes() for w in self._watches]
        self._look_refused = {}
        if any(n is not None and n < LOOK_FREE_BYTES for n in free):
            self._look_refused = dict(users)
        return not self._look_refused

    def _read_environment(self) -> None:
        """
        Take the environment of those who use the GPU: what was launched may be a launcher (env, a shell).

        Where the driver hides who that is, of the process that seems to feed it. Until either is known
        nothing is read, and the environment of what was launched stands.
        """
        if self._host is None:
            return
        users = sorted(self._users(self._host))
        if not users and any(w.hides_processes for w in self._watches) and self._host.main_pid is not None:
            users = [self._host.main_pid]
        if not users:
            return
        self._environment_of_users = True
        read = [found for pid in users[:MOST_ENVIRONMENTS] if (found := _environment(pid, tries=1))]
        if read:  # though nothing of it may matter
            self._environment = {k: v for found in read for k, v in redact_environment(found).items()}
            self._writer.update(process=self._process())

    def _process(self) -> Process:
        """What is known of the program so far."""
        return Process(
            pid=self._watched.pid,
            command=self._target.command,
            exit_code=self._watched.returncode,
            threads_env=self._environment,
            tracers=() if self._host is None else self._host.tracers,
        )

    def _others(self, watch: GpuWatch) -> tuple[int, ...]:
        """Processes that held a context on the GPU and were never part of the observed tree."""
        if self._watched.pid is None or self._host is None:
            return ()
        return tuple(sorted(watch.pids - self._seen_pids))

    def _space_by_steps(self, now_s: float) -> None:
        """--profiling-interval: one window every so many steps, by the step time last seen."""
        assert self._every_steps is not None
        step_s = next((w.step_s for w in self._watches if w.step_s is not None), None)
        if step_s is None:
            if not self._told_no_steps and now_s >= STEPS_AFTER_S:
                self._told_no_steps = True
                self._say(say("steps.unseen_yet"))
            return
        before = self._spaced_by_s
        if before is not None and abs(step_s - before) <= OTHER_STEPS * before:
            return
        self._spaced_by_s = step_s
        wanted_s = self._every_steps * step_s
        spacing_s = max([w.choose_by_steps(wanted_s) for w in self._watches])
        steps = round(spacing_s / step_s)
        why = "" if spacing_s <= wanted_s else say("steps.pauses")
        self._say(say("steps.every", length=f"{step_s * 1000.0:.1f}", steps=steps, why=why))

    def _progress(self, now_s: float) -> Progress:
        watches = self._watches
        return Progress(
            state=min((w.state for w in watches), key=STATES.index, default="waiting for work"),
            elapsed_s=now_s,
            step_s=next((w.step_s for w in watches if w.step_s is not None), None),
            samples=sum(w.samples for w in watches),
            lost=sum(w.lost for w in watches),
            capped=any(w.capped for w in watches),
        )

    def _is_sure(self, judge: Judge, now_s: float) -> bool:
        """Take the judge's answer, if there is one, and ask again where something new has been seen."""
        if self._asked_s is not None:
            found = judge.answer()
            if found is None:
                return False
            self._certainty.add(self._asked_s, found)
            self._asked_s = None
            self._next_judgement_s = now_s + max(LEAST_PAUSE_S, PAUSE_SHARE * now_s)
            self._failed_judgements = 0 if found else self._failed_judgements + 1
            if self._certainty.sure:
                goes_on = say("sure.goes_on") if self._target.command else ""
                self._tell_sure(say("sure.now", seconds=duration(now_s), goes_on=goes_on))
                return True
        evidence = sum(w.evidence for w in self._watches)
        ready = bool(self._watches) and all(w.steady_s >= SURE_AFTER_S for w in self._watches)
        failing = self._failed_judgements >= FAILED_JUDGEMENTS
        if ready and evidence > self._asked_with and now_s >= self._next_judgement_s and not failing:
            self._asked_with, self._asked_s = evidence, now_s
            self._writer.update(tiers={w.gpu.index: w.tier for w in self._watches})
            judge.ask(self.path, [w.gpu.index for w in self._watches])
        return False

    def _tell_sure(self, text: str) -> None:
        """Say it and write it down."""
        self._note("sure", text)
        self._say(within(text))

    def _cost(self, watches: Sequence[GpuWatch]) -> Cost:
        wall = time.monotonic() - self._begun
        effect = worst_slowdown({w.gpu.index: slowdown(w.averages(), w.windows) for w in watches})
        sampled = sum(w.sampled_ns for w in watches) / 1e9
        judging_s = 0.0 if self._judge is None else self._judge.cpu_s
        return Cost(
            wall_s=wall,
            recorder_cpu_s=time.process_time() + judging_s + self._host_sampling.cpu_s,
            sampler_cpu_s=sum(w.sampler_cpu_s for w in watches),
            pm_duty=sampled / wall / max(1, len(watches)) if wall > 0 else 0.0,
            sessions=sum(w.sessions for w in watches),
            slowdown=effect.value,
            slowdown_low=effect.low,
            slowdown_high=effect.high,
            slowdown_note=effect.note,
        )

    def _why(self, watch: GpuWatch) -> str:
        if self._source in ("gpm", "nvml"):
            return say("tier.source", name=self._source)
        if watch.tier == "pm":
            return say("tier.counters")
        return say("tier.no_window")

    def _describe(self) -> dict[str, Any]:
        return {
            **asdict(self._settings),
            "source": self._source,
            "duration_s": self._duration_s,
            "every_steps": self._every_steps,
            "sure": None if self._judge is None else self._sure_share,
            "perfzero_command": ["perfzero", *sys.argv[1:]],
        }

    def _note(self, kind: str, text: str) -> None:
        self._writer.note(Note(time.time_ns(), kind, text))


def worst_slowdown(effects: Mapping[int, Slowdown]) -> Slowdown:
    """Of the effects on several GPUs (index -> effect) the largest that could be measured, and on which."""
    known = {gpu: effect for gpu, effect in effects.items() if effect.value is not None}
    if not known:
        return next(iter(effects.values()), Slowdown(None, note=say("cost.no_gpu")))
    gpu, worst = max(known.items(), key=lambda item: item[1].value or 0.0)
    if len(effects) == 1:
        return worst
    return replace(worst, note=say("cost.worst", gpu=gpu, count=len(known)))


def refuse_twins(gpus: Sequence[Gpu]) -> None:
    """Raise `UsageError` for two MIG devices of one GPU: a recording tells its GPUs apart by index."""
    seen: dict[int, str] = {}
    for gpu in gpus:
        if gpu.index in seen:
            raise UsageError(say("gpu.twins", one=seen[gpu.index], other=gpu.uuid, gpu=gpu.index))
        seen[gpu.index] = gpu.uuid


def library_hints(command: Sequence[str], pid: int | None) -> list[str]:
    """
    Folders in which the observed program's own libcupti may lie: its Python's site-packages.

    Root gets none from a process of anybody but root or the user who called sudo; see
    `find_libraries` for what root may load besides.
    """
    hints: list[str] = []
    interpreter = None
    if pid is not None:
        try:
            process = psutil.Process(pid)
            if os.geteuid() == 0 and not {*process.uids()} <= trusted_users():
                return []  # root runs no code of others
            interpreter = process.environ().get("VIRTUAL_ENV")
        except psutil.Error:
            interpreter = None
    roots = [Path(interpreter)] if interpreter else []
    if command and "python" in os.path.basename(command[0]):
        import shutil

        found = shutil.which(command[0])
        if found:
            roots.append(Path(found).parent.parent)
    for root in roots:
        hints += [str(p) for p in root.glob("lib/python3*/site-packages")]
    return hints


def _environment(pid: int | None, *, tries: int = ENVIRONMENT_TRIES) -> dict[str, str]:
    """A process's environment, secrets and all; empty where there is none yet, or we may not see it."""
    if pid is None:
        return {}
    found: dict[str, str] = {}
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for attempt in range(tries):
            found = dict(process.environ())
            if found:
                break
            if attempt < tries - 1:
                time.sleep(0.001)
    return found
