"""
What a fix gains: both versions run alone, in turns.

Both are started at once, and while one works the other is held (SIGSTOP to its process group, workers of a
data loader included). So both meet the same machine: hosts change their pace by a fifth within a minute. Of a
turn the first `SETTLE_S` are left out, in which clocks rise and queues fill. The pace is told by the
program's own lines of progress: work between the first and the last of a turn / time between them. Lines that
come in bursts, as the batches of several workers of a loader do, are counted by whole bursts: from the first
of one to the last of another there would be a burst too many, which in turns of two bursts is half as much
again. Of a turn into which one burst falls the pace would be that within the burst: so the silence before a
turn's first line counts, and that after its last one, and the turn goes on until more bursts begin.

The gain is the pace with the fix / without. Its 95 % interval is Student's, from the spread of the logarithms
of the paces within each version (pooled: 2 (n - 1) degrees of freedom for n turns each).
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise

from programs import Line, Program, Stop

ROUNDS = 2
TURN_S = 3.0
SETTLE_S = 0.5

LEAST_LINES = 3
"""Of progress in a turn: with two, one of them late by a tenth of a step's time is a tenth of the pace."""

LONGEST_TURN_S = 15.0
"""Until so long a turn waits for its lines, or for as many bursts of them."""

SILENCE = 3.0
"""A silence between two bursts is longer than so many usual ones, and silences take most of the time."""

USUAL = 4
"""
The usual silence is the longest of the shortest quarter, and no median: in bursts of two lines every second
silence is one between bursts, and so is one of two when a burst has just begun.
"""

READY_S = 90.0
"""How long a program may take to its first line: on a fresh machine Python reads gigabytes of PyTorch."""

LOOP_S = 900.0
"""The length of the main loop, so that it does not end by itself: time in which it is held counts too."""

LOOKS_S = 0.02
"""How often it is looked whether a line has come; when it came is known exactly all the same."""


class NoPace(RuntimeError):
    """A program whose pace cannot be told, and why."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What a program printed in one turn, from when it had settled until it was held (monotonic clock)."""

    lines: Sequence[Line]
    settled_s: float
    ended_s: float


@dataclass(frozen=True, slots=True)
class Turns:
    """The paces in the turns of each version, in *word* per second, in the order in which they ran."""

    word: str
    base: tuple[float, ...]
    fixed: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Achieved:
    """A gain and its 95 % interval; NaN ends where one turn each tells of no spread."""

    gain: float
    low: float
    high: float


def in_turns(
    start_base: Callable[[], Program],
    start_fixed: Callable[[], Program],
    *,
    stop: Stop,
    rounds: int = ROUNDS,
    turn_s: float = TURN_S,
    settle_s: float = SETTLE_S,
) -> Turns:
    """
    Start both versions and let them take turns: base, fixed, fixed, base, ...

    Raises `NoPace` for a program that ends, prints no progress or too little, and for two that count
    different things.
    """
    with ExitStack() as stack:
        both = [stack.enter_context(start()) for start in (start_base, start_fixed)]
        names = ("unfixed", "fixed")
        _await_first_lines(both, names, stop)
        words = [program.lines[0].word for program in both]
        if words[0] != words[1]:
            raise NoPace(f"one program counts {words[0]}s and the fixed one {words[1]}s")
        paces: tuple[list[float], list[float]] = ([], [])
        for round_ in range(rounds):
            for which in (0, 1) if round_ % 2 == 0 else (1, 0):
                turn = _turn(both[which], names[which], stop, turn_s=turn_s, settle_s=settle_s)
                paces[which].append(pace_of(turn, name=names[which]))
    return Turns(words[0], tuple(paces[0]), tuple(paces[1]))


def _await_first_lines(both: Sequence[Program], names: Sequence[str], stop: Stop) -> None:
    """Until both work; one that does is held until the other does, too."""
    deadline = time.monotonic() + READY_S
    waiting = list(range(len(both)))
    while waiting:
        stop.rest(LOOKS_S)
        for which in list(waiting):
            program = both[which]
            if program.lines:
                program.hold()
                waiting.remove(which)
            elif not program.running or time.monotonic() > deadline:
                raise NoPace(f"the {names[which]} program prints no progress: {program.said()}")


def _turn(program: Program, name: str, stop: Stop, *, turn_s: float, settle_s: float) -> Turn:
    """A turn, which lasts until there are `LEAST_LINES`, or so many bursts of them have begun."""
    begun = time.monotonic()
    program.go_on()
    try:
        _let_work(program, name, stop, begun + settle_s)
        settled_s, first = time.monotonic(), len(program.lines)
        _let_work(program, name, stop, begun + turn_s)
        while len(marks(turn := Turn(program.lines[first:], settled_s, time.monotonic()))) < LEAST_LINES:
            if turn.ended_s > begun + max(LONGEST_TURN_S, turn_s):
                if len(turn.lines) >= LEAST_LINES:
                    break
                came = len(turn.lines)
                raise NoPace(f"the {name} program prints {came} lines in {LONGEST_TURN_S:g} s: too few")
            _let_work(program, name, stop, time.monotonic() + LOOKS_S)
        return turn
    finally:
        program.hold()


def _let_work(program: Program, name: str, stop: Stop, until_s: float) -> None:
    while (left := until_s - time.monotonic()) > 0:
        stop.rest(min(left, 0.2))
    if not program.running:
        raise NoPace(f"the {name} program ended in its turn: {program.said()}")


def marks(turn: Turn) -> Sequence[Line]:
    """The lines between which the pace is told: all, or the first of each burst that was seen to begin."""
    lines = turn.lines
    if len(lines) < 2:
        return lines
    within = [after.at_s - before.at_s for before, after in pairwise(lines)]
    before_each = [lines[0].at_s - turn.settled_s, *within]
    after_last = turn.ended_s - lines[-1].at_s
    long_s = SILENCE * sorted(within)[len(within) // USUAL]
    silent_s = sum(silence for silence in [*before_each, after_last] if silence > long_s)
    if 2 * silent_s < turn.ended_s - turn.settled_s:
        return lines
    return [line for line, silence in zip(lines, before_each, strict=True) if silence > long_s]


def pace_of(turn: Turn, *, name: str = "") -> float:
    """
    Work per second between the first and the last of the `marks` of *turn*.

    Raises `NoPace` for lines or bursts of which there are not two, where no work was done, and where a count
    is no more than the one before: a counter that begins anew in every epoch does not tell how much was done.
    """
    if len(turn.lines) < 2:
        raise NoPace(f"the {name} program printed {len(turn.lines)} lines")
    ends = marks(turn)
    if len(ends) < 2:
        lasted_s = turn.ended_s - turn.settled_s
        raise NoPace(f"the {name} program prints in bursts, of which {len(ends)} began in {lasted_s:.3g} s")
    first, last = ends[0], ends[-1]
    work, time_s = last.count - first.count, last.at_s - first.at_s
    if work <= 0 or time_s <= 0:
        raise NoPace(f"the {name} program counted from {first.count} to {last.count}")
    for before, after in pairwise(turn.lines):
        if after.count <= before.count:
            raise NoPace(f"the {name} program's count does not rise: {before.count}, then {after.count}")
    return work / time_s


def achieved(turns: Turns) -> Achieved:
    """The gain that *turns* tell."""
    logs = [[math.log(pace) for pace in paces] for paces in (turns.base, turns.fixed)]
    ratio = statistics.fmean(logs[1]) - statistics.fmean(logs[0])
    freedom = sum(len(each) - 1 for each in logs)
    if freedom < 1:
        return Achieved(math.exp(ratio), math.nan, math.nan)
    from scipy.stats import t

    within = sum((x - statistics.fmean(each)) ** 2 for each in logs for x in each) / freedom
    error = math.sqrt(within * sum(1 / len(each) for each in logs)) * float(t.ppf(0.975, freedom))
    return Achieved(math.exp(ratio), math.exp(ratio - error), math.exp(ratio + error))
