"""
Do fixes gain what was promised? Programs with a known fix, before and after it.

    python benchmarks/gains/run.py --out OUT [--only fp32_gemm,pageable_copies] [--budget SECONDS]
                                   [--reports FOLDER]

A case of the zoo runs under `perfzero run`: its report promises an interval for the remedy that is
the fix, and names the next limit. Then both versions run without perfzero, in turns: each is started once,
and while one works the other is stopped (SIGSTOP), two turns of 4 s each. At last the fixed program runs
under `perfzero run`, to see which limit it has met.

The gain is the mean step time before / after, by the programs' own clocks: before in the stretch that was
judged, for that is what the promise is about; after in the turns. A host changes its pace by a fifth within
seconds, and with it that of a program which waits for it. So the turns of the version before tell how much
the pace has changed since: "pace" is their step time / the watched one.

--reports FOLDER holds reports that exist already, as FOLDER/<case>/report.json with own_step.json beside it
(logs.tar.gz of tools/make_recordings.py has them); what they tell is not measured again.

Into OUT go gains.json and gains.txt.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "zoo"))

import watched  # noqa: I001 (it knows where the next one is)
import step_log
from cases import choose

from perfzero.diagnose.gain import LIMIT_NAMES

SECONDS = 14.0
"""Under perfzero; with 26 the program is looked into as well, which may settle what a remedy rests on."""

TURN_S = 4.0
ROUNDS = 2
SETTLE_S = 0.5
"""Of a turn, what is not counted: the clocks rise, loaders fill their queues."""

BESIDE_S = 14.0
"""A program's start under perfzero, the end of the recording and the analysis."""

IN_TURNS_S = 2 * ROUNDS * TURN_S + 16.0
"""What a program under perfzero and the two in turns take as a whole, start-up and analysis included."""

READY_S = 60.0
"""How long a program may take to its first steps."""

RULE_LIMITS = {
    "transfer_bound": LIMIT_NAMES["pcie"],
    "pageable_copies": LIMIT_NAMES["copy"],
    "input_starved": LIMIT_NAMES["cores"],
    "memory_bound": LIMIT_NAMES["memory"],
}
"""Verdicts that name a limit which is no class of the GPU's time, or need not be the largest one."""


@dataclass(frozen=True, slots=True)
class Pair:
    """
    The options that fix a case of the zoo, and words by which the fix is known among the remedies.

    `after` is the case that the fixed program is, where it is one.
    """

    fix: tuple[str, ...]
    remedy: str
    after: str | None = None


PAIRS: Mapping[str, Pair] = {
    "fp32_gemm": Pair(("--tf32",), "TF32"),
    "tiny_kernels": Pair(("--graph",), "CUDA graph", after="tiny_kernels_graph"),
    "pageable_copies": Pair(("--pinned",), "pinned memory"),
    "item_every_layer": Pair(("--fixed",), "read results back"),
    "optimizer_unfused": Pair(("--fixed",), "fused optimizer"),
    "elementwise_chain": Pair(("--compile",), "Fuse elementwise"),
    "resnet50_nchw": Pair(("--channels-last",), "channels-last", after="resnet50_channels_last"),
    "input_starved_resnet50": Pair(("--workers", "14"), "num_workers"),
}
"""By the name of the case in zoo/cases.py."""


@dataclass(frozen=True, slots=True)
class Promise:
    """What a report says of the fix: the interval of the gain, and the limit after it."""

    verdict: str | None
    named: bool  # the fix is among the verdict's remedies
    low: float | None
    high: float | None
    next_limit: str | None


@dataclass(frozen=True, slots=True)
class Row:
    """
    Step times in ms: `watched_ms` before the fix in the stretch that was judged; `before_ms` and `fixed_ms`
    in the turns of each version. `after` is the fixed program's verdict, `met` its limit in words.
    """

    program: str
    promise: Promise
    watched_ms: float
    before_ms: tuple[float, ...]
    fixed_ms: tuple[float, ...]
    after: str | None
    met: tuple[str, ...]

    @property
    def gain(self) -> float:
        return self.watched_ms / float(np.mean(self.fixed_ms))

    @property
    def pace(self) -> float:
        """How the step time before the fix has changed since the program was watched, as a factor."""
        return float(np.mean(self.before_ms)) / self.watched_ms

    @property
    def inside(self) -> bool:
        low, high = self.promise.low, self.promise.high
        return low is not None and high is not None and low <= self.gain <= high

    @property
    def foreseen(self) -> bool:
        """Whether a limit that was named is one that is met; a report may name two that are as likely."""
        named = (self.promise.next_limit or "").split(" or ")
        return any(limit in self.met for limit in named)

    @property
    def ok(self) -> bool:
        return self.promise.named and self.inside


def measure(name: str, folder: Path, args: argparse.Namespace) -> Row:
    pair = PAIRS[name]
    base = program_of(name)
    fixed = [*base, *pair.fix]
    before, watched_ms = known(name, args.reports) or watch_steps(
        base, folder.with_name(f"{name}-before"), args.seconds
    )
    before_ms, fixed_ms = in_turns(base, fixed, folder=folder)
    after = reported(pair.after, args.reports) or watched.watch(
        [*fixed, "--seconds", str(args.seconds)],
        folder=folder.with_name(f"{name}-after"),
        seconds=args.seconds,
    )
    rule = after["verdict"]["rule"] if after["verdict"] else None
    promise = promise_of(before, pair.remedy)
    return Row(name, promise, watched_ms, before_ms, fixed_ms, rule, limits_of(after))


def watch_steps(program: Sequence[str], folder: Path, seconds: float) -> tuple[Mapping, float]:  # type: ignore[type-arg]
    """What the report says of the GPU under *program*, and the mean step in ms in the stretch it judged."""
    log = folder.with_suffix(".steps")
    command = [*program, "--seconds", str(seconds), "--log", str(log)]
    gpu = watched.watch(command, folder=folder, seconds=seconds)
    judged = gpu["steady"]["start_ns"], gpu["steady"]["end_ns"]
    step_ms, _ = step_log.step_of(step_log.inside(step_log.read_steps(log), *judged))
    return gpu, step_ms


def needed_s(name: str, args: argparse.Namespace) -> float:
    """How long *name* takes: what no report tells is watched."""
    watches = [known(name, args.reports), reported(PAIRS[name].after, args.reports)].count(None)
    return IN_TURNS_S + watches * (args.seconds + BESIDE_S)


def program_of(name: str) -> list[str]:
    """The program of a case, without its length."""
    [case] = choose([name])
    return ["python3", f"zoo/{case.program}", *case.arguments]


def reported(case: str | None, reports: Path | None) -> Mapping | None:  # type: ignore[type-arg]
    """What the report that exists of *case* says of its GPU; None where there is none."""
    if case is None or reports is None or not (reports / case / "report.json").is_file():
        return None
    gpu: Mapping = json.loads((reports / case / "report.json").read_text())["gpus"][0]  # type: ignore[type-arg]
    return gpu


def known(case: str, reports: Path | None) -> tuple[Mapping, float] | None:  # type: ignore[type-arg]
    """What the report that exists of *case* says of its GPU, and the own step in ms; None without both."""
    gpu = reported(case, reports)
    if gpu is None or reports is None or not (reports / case / "own_step.json").is_file():
        return None
    step_ms = json.loads((reports / case / "own_step.json").read_text())["step_ms"]
    return None if step_ms is None else (gpu, float(step_ms))


def promise_of(gpu: Mapping, remedy: str) -> Promise:  # type: ignore[type-arg]
    """The gain of the remedy whose text has the words *remedy*, or of the verdict where it has no own one."""
    verdict = gpu["verdict"]
    if verdict is None:
        return Promise(None, False, None, None, None)
    own = next((r for r in verdict["remedies"] if remedy in r["text"]), None)
    gain = (own["gain"] if own else None) or verdict["gain"] or {"low": None, "high": None}
    return Promise(verdict["rule"], own is not None, gain["low"], gain["high"], verdict["next_limit"])


def limits_of(gpu: Mapping) -> tuple[str, ...]:  # type: ignore[type-arg]
    """What limits a program, in words: the largest part of its time, and what its verdict names."""
    largest = max(gpu["time"], key=lambda name: gpu["time"][name], default="")
    rule = gpu["verdict"]["rule"] if gpu["verdict"] else ""
    return tuple(dict.fromkeys(w for w in (LIMIT_NAMES.get(largest), RULE_LIMITS.get(rule)) if w is not None))


# --- in turns --------------------------------------------------------------------------------


def in_turns(
    base: Sequence[str], fixed: Sequence[str], *, folder: Path
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The mean step in ms in each turn of *base*, and of *fixed*, without perfzero."""
    folder.mkdir(parents=True, exist_ok=True)
    logs = [folder / "base.steps", folder / "fixed.steps"]
    turns: list[tuple[int, int, int]] = []
    with ExitStack() as stack:
        processes = []
        for command, log in zip((base, fixed), logs, strict=True):
            whole = [*command, "--seconds", "600", "--log", str(log)]
            processes.append(stack.enter_context(watched.child(whole, log=log.with_suffix(".log"))))
        for process, log in zip(processes, logs, strict=True):
            wait_for_steps(log, process)
            os.killpg(process.pid, signal.SIGSTOP)
        for round_ in range(ROUNDS):
            for which in (0, 1) if round_ % 2 == 0 else (1, 0):
                turns.append((which, *turn(processes[which])))
    return means_of([step_log.read_steps(log) for log in logs], turns)


def means_of(
    steps: Sequence[np.ndarray],  # type: ignore[type-arg]
    turns: Sequence[tuple[int, int, int]],
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """
    The mean step in ms in each turn before the fix, and in each after it, of the steps that lie in it whole.

    *steps*: the logs before and after the fix; *turns*: (0 or 1 of them, begin, end).
    """
    means: tuple[list[float], list[float]] = [], []
    for which, begin, end in turns:
        lengths = step_log.inside(steps[which], begin, end)
        if not len(lengths):
            raise ValueError(f"no step of the {'fixed' if which else 'first'} program lies in its turn")
        means[which].append(float(lengths.mean()))
    return tuple(means[0]), tuple(means[1])


def turn(process: Popen[bytes]) -> tuple[int, int]:
    """Let the stopped *process* go on for a turn; the time that counts, [begin, end) in Unix ns."""
    os.killpg(process.pid, signal.SIGCONT)
    try:
        time.sleep(SETTLE_S)
        begin = time.time_ns()
        time.sleep(TURN_S - SETTLE_S)
        return begin, time.time_ns()
    finally:
        os.killpg(process.pid, signal.SIGSTOP)


def wait_for_steps(log: Path, process: Popen[bytes]) -> None:
    """Until the program logs steps; raises `RuntimeError` if it ends before or takes too long."""
    deadline = time.monotonic() + READY_S
    while not log.exists() or log.stat().st_size < 3 * step_log.STEP.itemsize:
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"no steps: {log.with_suffix('.log').read_text(errors='replace')[-600:]}")
        time.sleep(0.05)


# --- results ---------------------------------------------------------------------------------


def table(rows: Sequence[Row]) -> str:
    lines = [
        f"{'program':24}{'verdict':17}{'fix':6}{'promised':>14}{'achieved':>10}{'pace':>7}  "
        f"{'next limit, foreseen':36}{'after the fix':17}"
    ]
    for row in rows:
        promise = row.promise
        promised = "-" if promise.low is None else f"{promise.low:.2f}-{promise.high:.2f}"
        next_limit = f"{promise.next_limit or '-'} ({'yes' if row.foreseen else 'no'})"
        lines.append(
            f"{row.program:24}{promise.verdict or '-':17}{'named' if promise.named else '-':6}{promised:>14}"
            f"{row.gain:10.2f}{row.pace:7.2f}  {next_limit:36}{row.after or '-':17}"
            f"{'OK' if row.ok else 'FAIL'}"
        )
    return "\n".join(lines)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each program under perfzero")
    parser.add_argument("--reports", type=_folder, metavar="FOLDER", help="reports that exist already")


def _folder(text: str) -> Path:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {text}")
    return Path(text)


def main(argv: Sequence[str] | None = None) -> int:
    benchmark = watched.Benchmark("gains", tuple(PAIRS), measure, table, needed_s=needed_s, options=options)
    return watched.run(benchmark, description=__doc__, argv=argv)


if __name__ == "__main__":
    sys.exit(main())
