"""
Runs the cases of the zoo under `perfzero run`, checks the verdicts, and packs a trimmed recording of each.

    python tools/make_recordings.py --out OUT [--only fp32_gemm,tiny_kernels | --part 1/2]

Into OUT go five files: results.json, results.txt (the table), recordings.tar.gz
(recordings/<case>/: the trimmed recording with command.txt and own_steps.npz, the program's own log of
its steps, as for tests/recordings/),
logs.tar.gz (what each program and perfzero printed, and the full reports) and steps.tar.gz (the
programs' own logs of their steps). The raw recordings stay
in a temporary folder. The verdict is taken twice: from the whole recording, and from the trimmed
one, which is what the tests see. A case that fails does not stop the others; the exit code is 1 if
any did.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import checkout
import step_log

sys.path.insert(0, str(checkout.ROOT / "zoo"))

from cases import Case, choose, part

LIMIT_BYTES = 400_000
"""Most that a trimmed recording may take on disk."""

STEP_BAR = 0.02
"""
By how much of itself the program's own step time may be missed: of the very steps that were seen. The mean
over the whole stretch that was judged, not all of it sampled, has to lie as near to the interval told.
"""

START_UP_S = 60.0
"""Beyond its steady loop, what a program, the recording's end and the analysis may take."""

TRIMMERS = 12
REPORTS = ("report.json", "summary.csv", "detailed_breakdown.json", "report.html", "timeline.png")

FROM_OUTSIDE = ("--no-agent", "--no-stacks")
"""Verdicts are by counters alone, and recordings have to be small."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What report.json says: rule ids, the verdict first, and what watching cost (ratios, None: unknown)."""

    rule: str | None = None
    reason: str = ""  # of no verdict
    confidence: float | None = None
    findings: tuple[str, ...] = ()
    tier: str = ""
    headline: str = ""
    step_s: float | None = None
    interval_s: tuple[float, float] | None = None  # of the mean step
    seen_ns: tuple[tuple[int, int], ...] = ()  # the times in which steps were seen
    judged_ns: tuple[int, int] | None = None  # the stretch that was judged
    slowdown: float | None = None
    cpu_share: float | None = None


@dataclass(frozen=True, slots=True)
class Own:
    """
    The mean step in ms by the program's own clock: of the steps that were seen, and of the stretch that was
    judged; `jitter` is the standard deviation / mean of the latter. None where unknown.
    """

    seen_ms: float | None = None
    step_ms: float | None = None
    jitter: float | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """How one case went; `problems` is empty for a good one."""

    case: str
    expected: str
    verdict: Verdict = field(default_factory=Verdict)
    trimmed_verdict: Verdict = field(default_factory=Verdict)
    exit_code: int | None = None
    wall_s: float = 0.0
    trimmed_bytes: int = 0
    program: dict[str, Any] = field(default_factory=dict)  # the line of JSON it printed
    own: Own = field(default_factory=Own)
    command: str = ""
    problems: tuple[str, ...] = ()


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "recordings-out")))
    chosen = p.add_mutually_exclusive_group()
    chosen.add_argument("--only", type=lambda text: text.split(","), help="names of cases, comma separated")
    chosen.add_argument("--part", type=_pair, metavar="K/N", help="the Kth of N parts of all cases")
    p.add_argument("--work", type=Path, help="folder for the raw recordings (default: a temporary one)")
    p.add_argument("--budget", type=float, default=540.0, help="no case is started after this many seconds")
    return p


def _pair(text: str) -> tuple[int, int]:
    number, of = text.split("/")
    return int(number), int(of)


def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    try:
        cases = part(*args.part) if args.part else choose(args.only)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    with checkout.ended_by_signals():
        return record(cases, args)


def record(cases: Sequence[Case], args: argparse.Namespace) -> int:
    """Run and pack *cases*; 0 if every one went as it should, else 1."""
    begun = time.monotonic()
    work = args.work or Path(tempfile.mkdtemp(prefix="perfzero-zoo-"))
    args.out.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    for case in cases:
        needed = case.seconds + 25.0
        if time.monotonic() - begun + needed > args.budget:
            results.append(Result(case.name, case.expected, problems=("not run: out of time",)))
            continue
        results.append(guarded(case, work=work))
        print(row(results[-1]), flush=True)
        save(results, out=args.out)
    # Afterwards, and together: they would disturb the programs that are limited by the host.
    with ThreadPoolExecutor(TRIMMERS) as pool:
        results = list(pool.map(lambda pair: trimmed(*pair, work=work), zip(results, cases, strict=True)))
    save(results, out=args.out)
    pack(work, out=args.out)
    print((args.out / "results.txt").read_text())
    if args.work is None:
        print(f"the raw recordings: {work}")
    return 1 if any(result.problems for result in results) else 0


# --- one case --------------------------------------------------------------------------------


def perfzero_command(case: Case, *, folder: str, steps: Path) -> list[str]:
    """`perfzero run` over the case's program, with paths relative to the project; it logs into *steps*."""
    program = [*case.command(python="python3", zoo=None), "--log", str(steps)]
    return [*checkout.PERFZERO, "run", "-o", folder, *FROM_OUTSIDE, *case.options, "--", *program]


def guarded(case: Case, *, work: Path) -> Result:
    """`observe`, but whatever goes wrong becomes the result's problem."""
    try:
        return observe(case, work=work)
    except Exception as error:  # noqa: BLE001 - the other cases must still run
        return Result(case.name, case.expected, problems=(f"{type(error).__name__}: {error}",))


def observe(case: Case, *, work: Path) -> Result:
    folder, log = work / "raw" / case.name, work / "logs" / f"{case.name}.log"
    steps = work / "steps" / case.name
    for parent in (folder.parent, steps.parent):
        parent.mkdir(parents=True, exist_ok=True)
    with held_counters(case, log=work / "logs" / f"{case.name}.holder.log") as held:
        command = perfzero_command(case, folder=str(folder), steps=steps.resolve())
        ended = checkout.run(command, log=log, timeout_s=case.seconds + START_UP_S)
    # perfzero ends as the program did, so by the same signal; a shell says 128 + its number.
    code = 128 - ended.code if ended.code is not None and ended.code < 0 else ended.code
    keep_reports(folder, into=work / "logs" / case.name)
    verdict = read_verdict(folder / "report.json")
    program = last_json(ended.output)
    own = own_step(steps, verdict)
    write_own(own, work / "logs" / case.name)
    problems = [
        *([] if held else ["the other process could not hold the counters"]),
        *(["ran into its time limit"] if ended.code is None else []),
        *([f"exit code {code}"] if code not in (None, case.exit_code) else []),
        *([] if program or case.exit_code else ["the program did not finish its loop"]),
        *disagreements(case, verdict, own=own),
    ]
    return Result(
        case.name, case.expected, verdict, exit_code=code, wall_s=round(ended.wall_s, 1),
        program=program, own=own, command=command_line(case), problems=tuple(problems),
    )  # fmt: skip


def own_step(log: Path, verdict: Verdict) -> Own:
    """The program's own step times for what *verdict* is about."""
    if verdict.judged_ns is None or not log.is_file():
        return Own()
    rows = step_log.read_steps(log)
    seen_ms, _ = _mean_step(step_log.of_spans(rows, verdict.seen_ns))
    return Own(seen_ms, *_mean_step(step_log.inside(rows, *verdict.judged_ns)))


def _mean_step(lengths: Any) -> tuple[float | None, float | None]:
    try:
        return step_log.step_of(lengths)
    except ValueError:  # fewer than two steps
        return None, None


def write_own(own: Own, folder: Path) -> None:
    """Beside the report, for what compares the program with another."""
    (folder / "own_step.json").write_text(json.dumps(asdict(own)) + "\n")


def command_line(case: Case) -> str:
    """What a person would type."""
    holder = f"python zoo/busy_holder.py --seconds {case.holder_s} &\n" if case.holder_s else ""
    options = [f"-o {case.name}", *FROM_OUTSIDE, *case.options]
    return f"{holder}perfzero run {' '.join(options)} -- {' '.join(case.command(python='python', zoo=None))}"


@contextmanager
def held_counters(case: Case, *, log: Path) -> Iterator[bool]:
    """Another process holds the counters for the case's `holder_s` seconds; yields whether it does."""
    if not case.holder_s:
        yield True
        return
    holder = checkout.start(["python3", "zoo/busy_holder.py", "--seconds", str(case.holder_s)], log=log)
    try:
        deadline = time.monotonic() + 20
        while (held := "holding" in log.read_text()) is False and holder.poll() is None:
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        yield held
    finally:
        if holder.poll() is None:
            checkout.end_group(holder)


def read_verdict(path: Path) -> Verdict:
    """The verdict on the worst GPU in report.json; an empty one with the reason where there is none."""
    try:
        document = json.loads(path.read_text())
        gpu = document["gpus"][0]
        rule = gpu["verdict"]
        cost = document.get("cost") or {}
        rhythm = gpu.get("rhythm")
        return Verdict(
            rule=rule["rule"] if rule else None,
            reason=gpu.get("no_verdict") or "",
            confidence=rule["confidence"] if rule else None,
            findings=tuple(finding["rule"] for finding in gpu["findings"]),
            tier=gpu.get("tier", ""),
            headline=gpu.get("headline", ""),
            step_s=gpu.get("step_s"),
            interval_s=(rhythm["low_s"], rhythm["high_s"]) if rhythm else None,
            seen_ns=tuple((start, end) for start, end in rhythm["seen_ns"]) if rhythm else (),
            judged_ns=(gpu["steady"]["start_ns"], gpu["steady"]["end_ns"]) if gpu.get("steady") else None,
            slowdown=cost.get("slowdown"),
            cpu_share=cost.get("cpu_share"),
        )
    except (OSError, ValueError, LookupError, TypeError) as error:
        return Verdict(reason=f"no readable report.json ({type(error).__name__}: {error})")


def disagreements(case: Case, verdict: Verdict, *, own: Own = Own(), where: str = "") -> list[str]:
    """What *verdict* says otherwise than the case expects, and than the program's own clock, in words."""
    wrong = []
    if verdict.rule != case.expected:
        said = verdict.rule or f"no verdict ({verdict.reason})"
        wrong.append(f"{said}, not {case.expected}")
    elif missing := [rule for rule in case.also if rule not in verdict.findings]:
        wrong += [f"{rule} is not among the findings" for rule in missing]
    wrong += [f"{rule} is among the findings" for rule in case.absent if rule in verdict.findings]
    return [where + words for words in (*wrong, *step_problems(case, verdict, own))]


def step_problems(case: Case, verdict: Verdict, own: Own) -> list[str]:
    """
    What is wrong with the step time told, in words.

    Every program of the zoo logs its steps, one that is killed as well, so without any the log is lost.
    """
    if verdict.step_s is None:
        return []
    told_ms = verdict.step_s * 1e3
    if not case.steps:
        return [f"a step time of {told_ms:.1f} ms, where there is none"]
    if own.seen_ms is None or own.step_ms is None or verdict.interval_s is None:
        return ["a step time was told and the program logged none"]
    wrong = []
    if abs(told_ms / own.seen_ms - 1) > STEP_BAR:
        wrong.append(f"a step time of {told_ms:.2f} ms, by its own clock {own.seen_ms:.2f}")
    low, high = (1e3 * end for end in verdict.interval_s)
    if not low * (1 - STEP_BAR) <= own.step_ms <= high * (1 + STEP_BAR):
        wrong.append(f"a mean step from {low:.2f} to {high:.2f} ms, by its own clock {own.step_ms:.2f}")
    return wrong


def last_json(output: str) -> dict[str, Any]:
    """The last line of *output* that is a JSON object with a number of steps."""
    for line in reversed(output.splitlines()):
        if line.startswith("{") and '"steps"' in line:
            try:
                found: dict[str, Any] = json.loads(line)
            except ValueError:
                continue
            return found
    return {}


def keep_reports(folder: Path, *, into: Path) -> None:
    """Copy the analysis of a raw recording to where the logs are kept."""
    into.mkdir(parents=True, exist_ok=True)
    for name in REPORTS:
        if (folder / name).is_file():
            shutil.copy2(folder / name, into / name)


# --- trimming --------------------------------------------------------------------------------


def trimmed(result: Result, case: Case, *, work: Path) -> Result:
    """*result* with the size and the verdict of the trimmed recording."""
    raw, small = work / "raw" / case.name, work / "recordings" / case.name
    if not (raw / "manifest.json").is_file():
        return result
    try:
        return _trimmed(result, case, raw=raw, small=small, work=work)
    except Exception as error:  # noqa: BLE001 - the other cases must still be trimmed
        return replace(result, problems=(*result.problems, f"trim: {type(error).__name__}: {error}"))


def _trimmed(result: Result, case: Case, *, raw: Path, small: Path, work: Path) -> Result:
    small.parent.mkdir(parents=True, exist_ok=True)
    ended = checkout.run(trim_command(raw, small), log=work / "logs" / f"{case.name}.trim.log", timeout_s=60)
    if ended.code != 0:
        return replace(result, problems=(*result.problems, f"trim ended with {ended.code}"))
    size = sum(path.stat().st_size for path in small.rglob("*") if path.is_file())
    (small / "command.txt").write_text(result.command + "\n")
    steps = work / "steps" / case.name
    if steps.is_file():
        step_log.pack(step_log.read_steps(steps), small / "own_steps.npz")
    again = work / "logs" / case.name / "trimmed"
    analysed = checkout.run(
        [*checkout.PERFZERO, "analyze", str(small), "--output-dir", str(again)],
        log=work / "logs" / f"{case.name}.analyze.log", timeout_s=60,
    )  # fmt: skip
    verdict = read_verdict(again / "report.json")
    problems = [
        *result.problems,
        *([f"trimmed to {size} bytes, more than {LIMIT_BYTES}"] if size > LIMIT_BYTES else []),
        *([f"analyze of the trimmed one ended with {analysed.code}"] if analysed.code else []),
        *disagreements(case, verdict, own=own_step(steps, verdict), where="trimmed: "),
    ]
    return replace(result, trimmed_bytes=size, trimmed_verdict=verdict, problems=tuple(problems))


def trim_command(raw: Path, small: Path) -> list[str]:
    """The only place here that knows the arguments of `perfzero trim`."""
    return [*checkout.PERFZERO, "trim", str(raw), "-o", str(small), "--max-size", "390KB", "--redact"]


# --- results ---------------------------------------------------------------------------------


def pack(work: Path, *, out: Path) -> None:
    for name in ("recordings", "logs", "steps"):
        if (work / name).is_dir():
            with tarfile.open(out / f"{name}.tar.gz", "w:gz") as archive:
                archive.add(work / name, arcname=name)


def save(results: Sequence[Result], *, out: Path) -> None:
    (out / "results.json").write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    (out / "results.txt").write_text(table(results) + "\n")


COLUMNS = (
    "expected", "verdict", "conf", "step ms", "own ms", "ratio", "low", "mean", "high", "jitter",
    "cost %", "cpu %", "wall s", "exit", "KB",
)  # fmt: skip
WIDTHS = (17, 17, 6, 9, 9, 8, 9, 9, 9, 8, 8, 7, 8, 6, 6)


def row(result: Result) -> str:
    verdict = result.verdict
    own = result.own
    both = verdict.step_s is not None and own.seen_ms is not None
    low_s, high_s = verdict.interval_s or (None, None)
    cells = (
        result.expected,
        verdict.rule or "-",
        _number(verdict.confidence, 1, 2),
        _number(verdict.step_s, 1e3, 3),
        _number(own.seen_ms, 1, 3),
        _number(verdict.step_s / own.seen_ms * 1e3 if both else None, 1, 4),
        _number(low_s, 1e3, 3),
        _number(own.step_ms, 1, 3),
        _number(high_s, 1e3, 3),
        _number(own.jitter, 1, 3),
        _number(verdict.slowdown, 100, 3),
        _number(verdict.cpu_share, 100, 1),
        _number(result.wall_s, 1, 1),
        _number(result.exit_code, 1, 0),
        _number(result.trimmed_bytes, 1e-3, 0),
    )
    outcome = "FAIL: " + "; ".join(result.problems) if result.problems else "OK"
    return f"{_line(result.case, cells)}  {outcome}"


def _line(case: str, cells: Sequence[str]) -> str:
    words = [cell.ljust(width) for cell, width in zip(cells[:2], WIDTHS[:2], strict=True)]
    numbers = [cell.rjust(width) for cell, width in zip(cells[2:], WIDTHS[2:], strict=True)]
    return "".join([case.ljust(24), *words, *numbers])


def table(results: Sequence[Result]) -> str:
    """
    A row per case. step: as told; own: that of the same steps by the program's clock; ratio: step / own.
    mean: by that clock over the whole stretch that was judged; low, high: the interval told, to hold it.
    """
    return "\n".join([_line("case", COLUMNS), *(row(result) for result in results)])


def _number(value: float | None, scale: float, digits: int) -> str:
    return "-" if value is None else f"{value * scale:.{digits}f}"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.SubprocessError as error:
        sys.exit(f"make_recordings: {error}")
