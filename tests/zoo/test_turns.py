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


def test_the_pace_is_that_between_the_first_and_the_last_line(scorer) -> None:
    line, turns = scorer("programs").Line, scorer("turns")

    assert turns.pace_of([line("step", 10, 1.0), line("step", 11, 1.9), line("step", 30, 5.0)]) == 5.0
    with pytest.raises(turns.NoPace, match="printed 1 lines"):
        turns.pace_of([line("step", 10, 1.0)])


def in_bursts(scorer, *, of: int, every_s: float, bursts: int, cut: int = 0) -> list:
    """Lines 30 ms apart, of which the first *cut* were printed before the turn began."""
    line = scorer("programs").Line
    found = [line("step", 2 * (of * k + i), every_s * k + 0.03 * i) for k in range(bursts) for i in range(of)]
    return found[cut:]


@pytest.mark.parametrize("cut", [0, 1, 3])
def test_lines_that_come_in_bursts_are_counted_by_whole_bursts(scorer, cut: int) -> None:
    """Eight batches every 1.28 s, a line for two: 6.25 a second, wherever in a burst the turn begins."""
    lines = in_bursts(scorer, of=4, every_s=1.28, bursts=4, cut=cut)

    assert scorer("turns").pace_of(lines) == pytest.approx(6.25)


def test_of_one_whole_burst_the_pace_is_that_between_the_ends(scorer) -> None:
    """Which is too much, 14 steps in 1.37 s: so a turn waits for more of them."""
    lines = in_bursts(scorer, of=4, every_s=1.28, bursts=2)

    assert scorer("turns").pace_of(lines) == pytest.approx(14 / 1.37)


def test_lines_that_come_evenly_are_all_counted(scorer) -> None:
    """One of them late by a step's time is no burst."""
    turns, line = scorer("turns"), scorer("programs").Line
    lines = [line("step", k, 0.1 * k + (0.1 if k == 5 else 0.0)) for k in range(10)]

    assert list(turns.marks(lines)) == lines
    assert turns.pace_of(lines) == pytest.approx(10.0)


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
        turns.pace_of(lines, name="fixed")


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
