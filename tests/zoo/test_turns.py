"""Gains, of programs whose pace is known."""

from __future__ import annotations

import itertools
import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

STEPS = """
import sys, time
step = 0
while True:
    time.sleep({length})
    step += {by}
    print(f"{word} {{step}} loss 0.5", flush=True)
"""

WITH_WORKER = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # which cannot run while it is stopped
worker = subprocess.Popen([sys.executable, "-c", "import time\\nwhile True: time.sleep(0.01)"])
print("worker", worker.pid, flush=True)
while True:
    time.sleep(0.01)
"""


def starter(scorer, tmp_path: Path, code: str):
    log = tmp_path / f"{abs(hash(code))}.log"
    return lambda: scorer("programs").Program([sys.executable, "-c", code], log=log)


def steps(length: float, *, by: int = 1, word: str = "step") -> str:
    return STEPS.format(length=length, by=by, word=word)


def test_the_gain_is_the_ratio_of_the_paces_by_the_programs_own_count(scorer, tmp_path: Path) -> None:
    """32 samples in 40 ms against 8 in 20 ms: twice the pace, though its lines come half as often."""
    turns = scorer("turns")
    started: list = []

    def start(code: str):
        started.append(starter(scorer, tmp_path, code)())
        return started[-1]

    found = turns.in_turns(
        lambda: start(steps(0.02, by=8, word="sample")),
        lambda: start(steps(0.04, by=32, word="sample")),
        stop=scorer("programs").Stop(),
        turn_s=0.4,
        settle_s=0.1,
    )

    assert found.word == "sample"
    assert (len(found.base), len(found.fixed)) == (2, 2)
    assert turns.achieved(found).gain == pytest.approx(2.0, rel=0.25)
    base, fixed = ([line.at_s for line in program.lines] for program in started)
    held_s = max(after - before for before, after in itertools.pairwise(base))
    assert held_s > 0.75  # while the fixed program had two turns
    assert sum(1 for at_s in fixed if base[0] < at_s < base[-1]) > 10


def test_while_one_works_the_other_and_its_workers_are_stopped(scorer, tmp_path: Path) -> None:
    with starter(scorer, tmp_path, WITH_WORKER)() as program:
        while not program.lines:
            time.sleep(0.01)
        worker = psutil.Process(program.lines[0].count)
        program.hold()
        await_status(worker, psutil.STATUS_STOPPED)
        program.go_on()
        await_status(worker, psutil.STATUS_SLEEPING)
        program.hold()
        begun = time.monotonic()
    assert time.monotonic() - begun < 2  # it was not waited for in vain
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE


def await_status(process: psutil.Process, status: str) -> None:
    deadline = time.monotonic() + 5
    while process.status() != status:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_turn_lasts_until_there_are_lines_enough(scorer, tmp_path: Path) -> None:
    turns = scorer("turns")
    slow, quick = (starter(scorer, tmp_path, steps(length)) for length in (0.2, 0.02))
    found = turns.in_turns(slow, quick, stop=scorer("programs").Stop(), rounds=1, turn_s=0.2, settle_s=0.05)

    assert found.base[0] == pytest.approx(5.0, rel=0.2)
    assert math.isnan(turns.achieved(found).low)


@pytest.mark.parametrize(
    ("base", "fixed", "why"),
    [
        (
            "raise SystemExit('no GPU here')",
            steps(0.01),
            "the unfixed program prints no progress: .*no GPU here",
        ),
        (steps(0.01), steps(0.01, word="sample"), "counts steps and the fixed one samples"),
        (steps(0.01), "print('step 1', flush=True); raise SystemExit('it is over')", "ended.*it is over"),
        (steps(0.3), steps(0.01), "the unfixed program prints [012] lines in 0.5 s: too few"),
        (steps(0.01, by=0), steps(0.01), "the unfixed program counted from 0 to 0"),
    ],
)
def test_a_pace_that_cannot_be_told_is_an_error_that_says_why(
    scorer, tmp_path: Path, monkeypatch, base: str, fixed: str, why: str
) -> None:
    turns = scorer("turns")
    monkeypatch.setattr(turns, "LONGEST_TURN_S", 0.5)
    with pytest.raises(turns.NoPace, match=why):
        turns.in_turns(
            starter(scorer, tmp_path, base),
            starter(scorer, tmp_path, fixed),
            stop=scorer("programs").Stop(),
            turn_s=0.2,
            settle_s=0.05,
        )


def test_whoever_ends_the_benchmark_ends_the_programs(scorer, tmp_path: Path) -> None:
    turns, programs = scorer("turns"), scorer("programs")
    stop = programs.Stop()
    started: list = []

    def start():
        started.append(starter(scorer, tmp_path, steps(0.02))())
        return started[-1]

    threading.Timer(0.4, stop.set).start()
    with pytest.raises(programs.Stopped):
        turns.in_turns(start, start, stop=stop, turn_s=30.0)
    assert [program.running for program in started] == [False, False]


def test_a_program_that_minds_no_signal_is_ended_all_the_same(scorer, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(scorer("checkout"), "PATIENCE_S", 0.3)
    deaf = f"import signal; signal.signal({int(signal.SIGTERM)}, signal.SIG_IGN)\n{steps(0.02)}"
    with starter(scorer, tmp_path, deaf)() as program:
        while not program.lines:
            time.sleep(0.01)
    assert not program.running


def turn_of(scorer, lines: list, *, quiet_before_s: float = 0.0, quiet_after_s: float = 0.0):
    """Of *lines*, and of how long nothing came before them and after."""
    begun_s, ended_s = (lines[0].at_s, lines[-1].at_s) if lines else (0.0, 0.0)
    return scorer("turns").Turn(lines, begun_s - quiet_before_s, ended_s + quiet_after_s)


def test_the_pace_is_that_between_the_first_and_the_last_line(scorer) -> None:
    line, turns = scorer("programs").Line, scorer("turns")
    lines = [line("step", 10, 1.0), line("step", 11, 1.9), line("step", 30, 5.0)]

    assert turns.pace_of(turn_of(scorer, lines[::2])) == 5.0
    with pytest.raises(turns.NoPace, match="printed 1 lines"):
        turns.pace_of(turn_of(scorer, lines[:1]))


def in_bursts(scorer, *, of: int, every_s: float, bursts: int, cut: int = 0) -> list:
    """Lines 30 ms apart, of which the first *cut* were printed before the turn began."""
    line = scorer("programs").Line
    found = [line("step", 2 * (of * k + i), every_s * k + 0.03 * i) for k in range(bursts) for i in range(of)]
    return found[cut:]


@pytest.mark.parametrize("of", [2, 4, 5])
@pytest.mark.parametrize("cut", [0, 1, 3])
def test_lines_that_come_in_bursts_are_counted_by_whole_bursts(scorer, of: int, cut: int) -> None:
    """A line for two batches, so many every 1.28 s, wherever in a burst the turn begins."""
    lines = in_bursts(scorer, of=of, every_s=1.28, bursts=4, cut=cut)

    assert scorer("turns").pace_of(turn_of(scorer, lines)) == pytest.approx(2 * of / 1.28)


@pytest.mark.parametrize(
    ("bursts", "cut", "before_s", "after_s", "begun"),
    [
        (1, 0, 1.2, 1.2, 1),  # all its lines come evenly, 30 ms apart
        (1, 0, 0.05, 1.2, 0),  # others of its lines may have come before
        (1, 3, 0.02, 1.2, 0),
        (2, 0, 0.0, 0.0, 1),  # 14 steps in 1.37 s, but the first of them in as little as no time
        (2, 7, 0.02, 0.0, 1),
    ],
)
def test_a_turn_of_one_burst_tells_no_pace(
    scorer, bursts: int, cut: int, before_s: float, after_s: float, begun: int
) -> None:
    turns = scorer("turns")
    lines = in_bursts(scorer, of=8, every_s=1.28, bursts=bursts, cut=cut)
    turn = turn_of(scorer, lines, quiet_before_s=before_s, quiet_after_s=after_s)

    with pytest.raises(turns.NoPace, match=f"the fixed program prints in bursts, of which {begun} began in"):
        turns.pace_of(turn, name="fixed")


@pytest.mark.parametrize(("of", "seen"), [(4, slice(3, 6)), (4, slice(2, 5)), (2, slice(1, 5))])
def test_a_burst_that_has_just_begun_is_not_yet_lines_enough(scorer, of: int, seen: slice) -> None:
    """The last of one burst and the first of another, as a turn sees them that ends at its third line."""
    turns = scorer("turns")
    lines = in_bursts(scorer, of=of, every_s=1.28, bursts=3)[seen]

    assert len(turns.marks(turn_of(scorer, lines))) < turns.LEAST_LINES


def test_a_silence_before_the_first_line_shows_that_its_burst_begins(scorer) -> None:
    """So two bursts are enough, and the twin that begins within the first one has only one of them."""
    turns = scorer("turns")
    lines = in_bursts(scorer, of=4, every_s=1.28, bursts=2)

    assert turns.pace_of(turn_of(scorer, lines, quiet_before_s=0.5)) == pytest.approx(6.25)
    assert list(turns.marks(turn_of(scorer, lines, quiet_before_s=0.03))) == [lines[4]]


def test_lines_that_come_evenly_are_all_counted(scorer) -> None:
    """One of them late by a step's time is no burst, nor is a last step that takes as long as six."""
    turns, line = scorer("turns"), scorer("programs").Line
    lines = [line("step", k, 0.1 * k + (0.1 if k == 5 else 0.0)) for k in range(10)]
    turn = turn_of(scorer, lines, quiet_before_s=0.1, quiet_after_s=0.6)

    assert list(turns.marks(turn)) == lines
    assert turns.pace_of(turn) == pytest.approx(10.0)


class Clock:
    """Time that passes only while somebody rests."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def rest(self, seconds: float) -> None:
        self.now_s += seconds


class Bursty:
    """Prints eight lines 20 ms apart, each for eight batches, and then nothing for *pause_s*."""

    running = True

    def __init__(self, scorer, clock: Clock, *, pause_s: float) -> None:
        self._line, self._clock, self._period_s = scorer("programs").Line, clock, 0.16 + pause_s
        self._lines: list = []
        self._count = 0
        self._next_s: float | None = 0.02
        self._held_s = 0.0

    def __enter__(self) -> Bursty:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def lines(self) -> list:
        while self._next_s is not None and self._next_s <= self._clock.now_s:
            self._count += 8
            self._lines.append(self._line("batch", self._count, self._next_s))
            self._next_s += 0.02 if self._count % 64 else self._period_s - 0.14
        return self._lines

    def hold(self) -> None:
        assert self.lines
        assert self._next_s is not None
        self._held_s, self._next_s = self._next_s - self._clock.now_s, None

    def go_on(self) -> None:
        self._next_s = self._clock.now_s + self._held_s


@pytest.mark.parametrize("pauses_s", [(5.0, 2.5), (2.2, 1.1)])
@pytest.mark.parametrize("rounds", [1, 2])
def test_the_gain_of_programs_that_print_in_rare_bursts_is_that_of_their_periods(
    scorer, monkeypatch, pauses_s: tuple[float, float], rounds: int
) -> None:
    """64 batches in 5.16 s against 2.66 s, wherever in a burst or a silence the turns begin."""
    turns, (base_s, fixed_s) = scorer("turns"), pauses_s
    for settle_s in (0.05 * k for k in range(1, 90)):
        clock = Clock()
        monkeypatch.setattr(turns, "time", clock)
        base, fixed = (Bursty(scorer, clock, pause_s=pause_s) for pause_s in pauses_s)
        found = turns.in_turns(
            lambda b=base: b,
            lambda f=fixed: f,
            stop=clock,
            rounds=rounds,
            turn_s=settle_s + 2.5,
            settle_s=settle_s,
        )

        assert found.base == pytest.approx([64 / (0.16 + base_s)] * rounds), settle_s
        assert turns.achieved(found).gain == pytest.approx((0.16 + base_s) / (0.16 + fixed_s)), settle_s


@pytest.mark.parametrize(
    ("pause_s", "why"),
    [(10.0, r"in bursts, of which 1 began in 14\.5 s"), (20.0, "0 lines in 15 s: too few")],
)
def test_bursts_too_rare_for_the_longest_turn_are_refused(
    scorer, monkeypatch, pause_s: float, why: str
) -> None:
    turns, clock = scorer("turns"), Clock()
    monkeypatch.setattr(turns, "time", clock)
    rare, frequent = (Bursty(scorer, clock, pause_s=each_s) for each_s in (pause_s, 1.0))

    with pytest.raises(turns.NoPace, match=f"the unfixed program prints {why}"):
        turns.in_turns(lambda: rare, lambda: frequent, stop=clock)


def test_a_turn_lasts_until_there_are_bursts_enough(scorer, tmp_path: Path) -> None:
    """Three lines at once every 0.3 s are 10 a second."""
    turns = scorer("turns")
    bursts = """
import time
step = 0
while True:
    for _ in range(3):
        time.sleep(0.01)
        step += 1
        print(f"step {step}", flush=True)
    time.sleep(0.27)
"""
    slow, quick = starter(scorer, tmp_path, bursts), starter(scorer, tmp_path, steps(0.02))
    found = turns.in_turns(slow, quick, stop=scorer("programs").Stop(), rounds=1, turn_s=0.7, settle_s=0.05)

    assert found.base[0] == pytest.approx(10.0, rel=0.1)


@pytest.mark.parametrize("counts", [(10, 30, 20, 40), (10, 30, 30, 40)])
def test_a_count_that_does_not_rise_tells_no_pace(scorer, counts: tuple[int, ...]) -> None:
    """Of a loop whose counter begins anew the last count less the first is not the work done."""
    turns = scorer("turns")
    lines = [scorer("programs").Line("step", count, float(at_s)) for at_s, count in enumerate(counts)]

    with pytest.raises(turns.NoPace, match=f"the fixed program's count does not rise: 30, then {counts[2]}"):
        turns.pace_of(turn_of(scorer, lines), name="fixed")


def test_the_interval_is_students_over_the_spread_of_the_turns(scorer) -> None:
    """Paces 1 % apart in two turns each: s = 0.01/sqrt(2), half width = s x t(0.975; 2) = 0.0304."""
    turns = scorer("turns")
    found = turns.achieved(turns.Turns("step", (1.0, math.exp(0.01)), (2.0, 2.0 * math.exp(0.01))))

    assert found.gain == pytest.approx(2.0)
    assert math.log(found.high / found.gain) == pytest.approx(0.01 / math.sqrt(2) * 4.3027, rel=1e-3)
    assert math.log(found.gain / found.low) == pytest.approx(0.01 / math.sqrt(2) * 4.3027, rel=1e-3)


def test_other_lines_are_no_progress(scorer, tmp_path: Path) -> None:
    code = """
for line in ("12 steps", "loss 0.5", "step: 4", "epoch 3 done", "step 9", "epoch 4"):
    print(line)
"""
    with starter(scorer, tmp_path, code)() as program:
        while program.running:
            time.sleep(0.01)
    assert [(line.word, line.count) for line in program.lines] == [("epoch", 3), ("epoch", 4)]
    assert "12 steps" in program.said()


def test_a_number_of_thousands_of_digits_is_no_count_and_what_follows_is_read(scorer, tmp_path: Path) -> None:
    code = """
print("step " + "9" * 5000)
print("step ٣")
print("step " + "9" * 18)
"""
    with starter(scorer, tmp_path, code)() as program:
        while program.running:
            time.sleep(0.01)
        program._reader.join()
    assert [line.count for line in program.lines] == [10**18 - 1]


def test_nothing_is_left_of_a_benchmark_that_was_killed(scorer, tmp_path: Path) -> None:
    """The guard of tools/checkout.py ends a stopped program, its worker too."""
    folders = [str(Path(scorer(name).__file__).parent) for name in ("programs", "checkout")]
    code = f"""
import os, pathlib, signal, sys, time
sys.path[:0] = {folders!r}
from programs import Program
program = Program([sys.executable, "-c", {WITH_WORKER!r}], log=pathlib.Path({str(tmp_path / "log")!r}))
while not program.lines:
    time.sleep(0.01)
program.hold()
print(program.lines[0].count, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
    assert done.returncode == -signal.SIGKILL, done.stderr
    worker = int(done.stdout)
    deadline = time.monotonic() + 5
    while os.path.exists(f"/proc/{worker}") and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not os.path.exists(f"/proc/{worker}")
