"""
What does `perfzero top` cost, and what does it show beside a training job? Under 90 s.

    python benchmarks/top/run.py --out OUT

A training of the zoo runs without end and logs the time of each step. Two tops are started beside it: one
writes lines of JSON, the other draws its screen in a pseudo-terminal of 80x24. Blocks of three treatments
alternate, each order forwards and then backwards: one top, the other, or neither; who is not meant is stopped
(SIGSTOP). The slow-down is that of overhead/estimate.py. Then both run undisturbed, which gives their CPU
time. At last the screen is written into a file, at 80x24 and, resized, at 200x50, and a close look is asked
for by its key: its verdict, how long it took, and what time of the program it cost (the steps meanwhile
beyond as many usual ones).

Into OUT go top.json, top.txt and the screens. `--dry-run DIR` replays the recording in DIR beside a program
that only sleeps, on a machine without a GPU; there is no close look then, and no figure means anything.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import math
import os
import pty
import random
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "overhead"))

import numpy as np  # noqa: E402
import watched  # noqa: E402 (needs the path above)
from estimate import Block, slowdown  # noqa: E402

checkout = watched.checkout
import step_log  # noqa: E402 (watched puts tools/ on the path)

PROGRAMS: dict[str, tuple[str, ...]] = {"resnet50": ("resnet50.py", "--channels-last")}

TREATMENTS = ("lines", "screen", "bare")

GUARD_S = 0.3
"""After each change of treatment, before its block begins."""

WARMUP_S = 3.0
"""Of the program, from its first logged step on."""

START_S = 60.0
"""How long a program may take to its first step: on a fresh machine Python reads gigabytes of PyTorch."""

LOOK_AND_SCREENS_S = 24.0
"""Kept back from the budget for what comes after the blocks, the undisturbed stretch left out."""

MOST_CPU = 0.01
"""Of a core: what a top at one refresh a second may take for one GPU."""

FIRST_FIGURES_S = 20.0
"""How long a top may take to its first figures while a program is being started beside it."""


@dataclass(frozen=True, slots=True)
class Row:
    """
    One program. Slow-downs are ratios with the ends of their 95 % interval, CPU in cores, times in s.

    `verdict`: what the screen said after the close look. `look_lost_s`: program time that it cost.
    """

    name: str
    gpu: str
    step_ms: float
    groups: int
    lines_slowdown: tuple[float, float, float]
    screen_slowdown: tuple[float, float, float]
    lines_cpu: float
    screen_cpu: float
    lines_start_cpu_s: float
    screen_start_cpu_s: float
    readings: int
    sm_active: float
    smi_utilization: float
    look_s: float
    look_lost_s: float
    longest_step_ms: float
    verdict: str
    screens: tuple[str, ...]
    dry: bool

    @property
    def ok(self) -> bool:
        """Both cost little, and the close look ended with words on the screen."""
        cheap = self.lines_cpu < MOST_CPU and self.screen_cpu < MOST_CPU
        return len(self.screens) >= 2 and (self.dry or (cheap and bool(self.verdict)))


class Lines:
    """`perfzero top --format json`, into a file."""

    def __init__(self, options: Sequence[str], work: Path) -> None:
        self.path = work / "lines.jsonl"
        command = [*checkout.PERFZERO, "top", "--format", "json", *options]
        with self.path.open("wb") as out, (work / "lines.err").open("wb") as err:
            self.process = subprocess.Popen(
                command, cwd=work, env=checkout.environment(), stdin=subprocess.DEVNULL, stdout=out,
                stderr=err, start_new_session=True,
            )  # fmt: skip

    @property
    def shows(self) -> bool:
        return self.path.stat().st_size > 0

    def readings(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines() if line.endswith("}")]

    def close(self) -> None:
        end(self.process)


class Screen:
    """`perfzero top` in a pseudo-terminal that somebody looks at."""

    def __init__(self, options: Sequence[str], work: Path) -> None:
        self.work = work
        self._master, slave = pty.openpty()
        self.resize(80, 24, tell=False)
        environment = {**checkout.environment(), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        for name in ("COLUMNS", "LINES"):
            environment.pop(name, None)
        self.process = subprocess.Popen(
            [*checkout.PERFZERO, "top", *options], cwd=work, env=environment, stdin=slave, stdout=slave,
            stderr=slave, start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self.written = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def shows(self) -> bool:
        return b"GPU 0" in self.written

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def resize(self, columns: int, rows: int, *, tell: bool = True) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if tell:
            os.kill(self.process.pid, signal.SIGWINCH)

    def saved(self, *, timeout_s: float = 5.0) -> str:
        """What is on the screen, by the key that writes it into a file."""
        time.sleep(1.1)  # files are named after the second
        before = set(self.work.glob("perfzero-top-*.txt"))
        self.press("w")
        deadline = time.monotonic() + timeout_s
        while not (new := set(self.work.glob("perfzero-top-*.txt")) - before):
            if time.monotonic() > deadline:
                raise RuntimeError(f"no screen was written; the last of it: {bytes(self.written[-300:])!r}")
            time.sleep(0.05)
        return new.pop().read_text()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.press("q")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        end(self.process)
        self._reader.join(2)
        os.close(self._master)

    def _read(self) -> None:
        while True:
            try:
                chunk = os.read(self._master, 65536)
            except OSError:  # the other side is closed
                return
            if not chunk:
                return
            self.written += chunk


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.kill(process.pid, signal.SIGCONT)
    checkout.end_group(process)


def cpu_seconds(pid: int) -> float:
    """User and system time of the process, to the nanosecond (clock_getcpuclockid(3))."""
    return time.clock_gettime((~pid << 3) | 2)


@contextmanager
def program(command: Sequence[str], *, log: Path) -> Iterator[None]:
    """The training, from a while after its first step on."""
    with watched.child(command, log=log.with_suffix(".log")) as process:
        deadline = time.monotonic() + START_S
        while not (log.exists() and log.stat().st_size):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no step: {log.with_suffix('.log').read_text(errors='replace')[-400:]}")
            time.sleep(0.1)
        time.sleep(WARMUP_S)
        yield


def measure(name: str, folder: Path, args: argparse.Namespace) -> Row:
    begun = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    dry = args.dry_run is not None
    options = ["--replay", str(args.dry_run.resolve())] if dry else ["--gpu", str(args.gpu)]
    log = folder / "steps"
    script, *more = PROGRAMS[name]
    command = ["python3", f"zoo/{script}", "--seconds", "600", "--log", str(log.resolve()), *more]
    if dry:
        command = ["python3", "-c", SLEEPER, str(log.resolve())]
    with ExitStack() as open_:
        lines, screen = Lines(options, folder), Screen(options, folder)
        open_.callback(lines.close)
        open_.callback(screen.close)
        open_.enter_context(program(command, log=log))
        await_figures(lines, screen)
        started = {"lines": cpu_seconds(lines.process.pid), "screen": cpu_seconds(screen.process.pid)}
        tops = {"lines": lines.process.pid, "screen": screen.process.pid}
        until = begun + args.budget - args.undisturbed - (0 if dry else LOOK_AND_SCREENS_S)
        blocks = list(alternate(tops, groups=args.groups, block_s=args.block, until=until))
        cpu = undisturbed(tops, seconds=args.undisturbed)
        screens = {"top-80x24.txt": screen.saved()}
        looked_ns = (0, 0)
        if not dry:
            looked_ns = close_look(screen)
            screens["top-80x24-look.txt"] = screen.saved()
        screen.resize(200, 50)
        time.sleep(1.2)
        screens["top-200x50.txt"] = screen.saved()
        readings = lines.readings()
    for file, text in screens.items():
        (args.out / file).write_text(text)
    steps = step_log.read_steps(log)
    gpu = readings[-1]["gpus"][0]
    rng = np.random.default_rng(args.seed)
    slow = {t: slowdown(steps, blocks, treatment=t, rng=rng) for t in ("lines", "screen")}
    usual = step_log.of_spans(steps, [(b.start_ns, b.end_ns) for b in blocks if b.treatment == "bare"])
    touched = step_log.inside(steps, *looked_ns) if looked_ns[1] else np.empty(0)
    return Row(
        name=name, gpu=f"{gpu['name']}, driver {readings[-1]['driver']}",
        step_ms=float(usual.mean()) if len(usual) else math.nan, groups=len({b.group for b in blocks}),
        lines_slowdown=(slow["lines"].value, slow["lines"].low, slow["lines"].high),
        screen_slowdown=(slow["screen"].value, slow["screen"].low, slow["screen"].high),
        lines_cpu=cpu["lines"], screen_cpu=cpu["screen"],
        lines_start_cpu_s=started["lines"], screen_start_cpu_s=started["screen"], readings=len(readings),
        sm_active=mean_of(readings, "sm_active"), smi_utilization=mean_of(readings, "smi_utilization"),
        look_s=(looked_ns[1] - looked_ns[0]) / 1e9,
        look_lost_s=float((touched - usual.mean()).sum()) / 1e3 if len(touched) and len(usual) else math.nan,
        longest_step_ms=float(touched.max()) if len(touched) else math.nan,
        verdict=verdict_in(screens.get("top-80x24-look.txt", "")), screens=tuple(screens), dry=dry,
    )  # fmt: skip


def await_figures(lines: Lines, screen: Screen) -> None:
    deadline = time.monotonic() + FIRST_FIGURES_S
    while not (lines.shows and screen.shows):
        ended = lines.process.poll() is not None or screen.process.poll() is not None
        if ended or time.monotonic() > deadline:
            said = (lines.path.parent / "lines.err").read_text(errors="replace")
            raise RuntimeError(f"a top shows nothing: {said} {bytes(screen.written[-400:])!r}")
        time.sleep(0.05)


def alternate(tops: dict[str, int], *, groups: int, block_s: float, until: float) -> Iterator[Block]:
    """Blocks of treatments, as long as a whole group still fits before *until*. Both run afterwards."""
    rng = random.Random(0)
    order = list(TREATMENTS)
    for pid in tops.values():
        os.kill(pid, signal.SIGSTOP)
    for group in range(groups):
        if time.monotonic() + len(TREATMENTS) * (block_s + GUARD_S) > until:
            break
        if group % 2 == 0:
            rng.shuffle(order)
        for treatment in order if group % 2 == 0 else reversed(order):
            if treatment in tops:
                os.kill(tops[treatment], signal.SIGCONT)
            time.sleep(GUARD_S)
            start = time.time_ns()
            time.sleep(block_s)
            yield Block(group, treatment, start, time.time_ns())
            if treatment in tops:
                os.kill(tops[treatment], signal.SIGSTOP)
    for pid in tops.values():
        os.kill(pid, signal.SIGCONT)
    time.sleep(GUARD_S)


def undisturbed(tops: dict[str, int], *, seconds: float) -> dict[str, float]:
    """The CPU share of both, running at once."""
    begun, before = time.monotonic(), {name: cpu_seconds(pid) for name, pid in tops.items()}
    time.sleep(seconds)
    wall = time.monotonic() - begun
    return {name: (cpu_seconds(pid) - before[name]) / wall for name, pid in tops.items()}


def close_look(screen: Screen, *, timeout_s: float = 20.0) -> tuple[int, int]:
    """Ask for one by its keys and wait for the verdict; returns when it began and when sampling was over."""
    seen = len(screen.written)
    screen.press("c")
    time.sleep(0.3)
    start = time.time_ns()
    screen.press("\r")
    await_word(screen, (b"Judging",), seen, timeout_s)
    over = time.time_ns()
    await_word(screen, (b"more lines", b"perfzero analyze"), len(screen.written), timeout_s)
    return start, over


def await_word(screen: Screen, words: Sequence[bytes], seen: int, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not any(word in screen.written[seen:] for word in words):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{words} did not come: {screen.saved()}")
        time.sleep(0.05)


def verdict_in(screen: str) -> str:
    """The first words below the title of the panel."""
    below = screen.partition("close look at")[2].splitlines()[1:]
    return next((line.strip() for line in below if line.strip()), "")


def mean_of(readings: Sequence[dict[str, Any]], name: str) -> float:
    """Of the last ten readings; NaN where it was never known."""
    values = [r["gpus"][0][name] for r in readings[-10:] if r["gpus"][0][name] is not None]
    return sum(values) / len(values) if values else math.nan


SLEEPER = """
import struct, sys, time
log = open(sys.argv[1], "wb", buffering=0)
while True:
    begun = time.perf_counter(); time.sleep(0.02)
    log.write(struct.pack("<qd", time.time_ns(), 1e3 * (time.perf_counter() - begun)))
"""
"""What stands for a training in a dry run."""


def table(rows: Sequence[Row]) -> str:
    out = []
    for row in rows:
        out += [
            f"{row.gpu}; {row.name}, step {row.step_ms:.2f} ms, {row.groups} groups of blocks",
            f"{'':24}{'CPU of a core':16}{'to start':12}slow-down of the program, %",
            f"{'lines of JSON':24}{row.lines_cpu:<16.2%}{row.lines_start_cpu_s:.2f} s      "
            f"{shown(row.lines_slowdown)}",
            f"{'screen, 80x24':24}{row.screen_cpu:<16.2%}{row.screen_start_cpu_s:.2f} s      "
            f"{shown(row.screen_slowdown)}",
            f"SMs busy {row.sm_active:.0%}, nvidia-smi {row.smi_utilization:.0%}; {row.readings} lines",
        ]
        if not row.dry:
            out.append(
                f"close look: {row.look_s:.1f} s, {1e3 * row.look_lost_s:.0f} ms of the program, "
                f"longest step {row.longest_step_ms:.1f} ms: {row.verdict}"
            )
        out.append(f"{'ok' if row.ok else 'FAIL'}; screens: {', '.join(row.screens)}")
    return "\n".join(out)


def shown(estimate: tuple[float, float, float]) -> str:
    value, low, high = (100 * x for x in estimate)
    return f"{value:+.3f} [{low:+.3f}, {high:+.3f}]"


def options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(budget=85.0)
    parser.add_argument("--gpu", type=int, default=0, help="NVML index")
    parser.add_argument("--groups", type=int, default=6, help="of blocks, as many as fit (default: 6)")
    parser.add_argument("--block", type=float, default=2.5, help="length of a block in s")
    parser.add_argument("--undisturbed", type=float, default=8.0, help="length of the CPU measurement in s")
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap")
    parser.add_argument("--dry-run", type=Path, metavar="DIR", help="a recording to replay instead of a GPU")


BENCHMARK = watched.Benchmark(
    name="top", programs=tuple(PROGRAMS), measure=measure, table=table, needed_s=20.0, options=options
)

if __name__ == "__main__":
    sys.exit(watched.run(BENCHMARK, description=__doc__, argv=None))
