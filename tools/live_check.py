"""
Everything that has to be seen on a real GPU before a release, in eleven parts of under ten minutes each.

    python tools/live_check.py --part 1 [--out OUT] [--work FOLDER]

    1   the first half of the zoo: verdicts and step times (tools/make_recordings.py)
    2   the second half
    3   the end of warm-up, and what fixes gain against the reports of parts 1 and 2
    4   accuracy, kill -9 and refusals, CPU of the default policy, doctor
    5   what watching costs the program
    6   whether a look inside changes a program, what it costs, and whether it leaves anything behind
    7   the same of the other programs
    8   lines that an idle GPU waits for, planted: the first half
    9   the second half
    10  three iterations of a ResNet-50 compared, and what the live view costs
    11  are equal runs told to be equal, and slower ones slower

Run all of them on one commit and one machine: FOLDER keeps the reports of parts 1 and 2 for part 3. Each step
has a time limit of its own, one that fails does not stop the others, and the exit code is 1 if any did.
Into OUT go the steps' own results, each in a folder, and live_check.txt.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import checkout


@dataclass(frozen=True, slots=True)
class Step:
    """A command, relative to the project, with `{out}` and `{work}` in it; `seconds` is its limit."""

    name: str
    command: tuple[str, ...]
    seconds: float
    lines: int = 40  # of its output, from the end, that are shown


def _zoo(half: int) -> Step:
    out = f"{{out}}/zoo-{half}"
    words = ("tools/make_recordings.py", "--part", f"{half}/2", "--out", out, "--work", "{work}/zoo")
    return Step(f"zoo, half {half}", (*words, "--budget", "540"), 580.0)


def _look(programs: str) -> Step:
    words = ("benchmarks/look/run.py", "--out", "{out}/look", "--work", "{work}/look", "--only", programs)
    return Step("look", (*words, "--budget", "560"), 590.0)


def _planted(programs: str) -> Step:
    words = ("benchmarks/planted/run.py", "--out", "{out}/planted", "--work", "{work}/planted")
    return Step("planted", (*words, "--only", programs, "--budget", "560"), 590.0)


def _compare(what: str, budget_s: int) -> Step:
    words = ("benchmarks/compare/run.py", "--out", "{out}/compare", "--work", "{work}/compare")
    return Step(f"compare {what}", (*words, "--only", what, "--budget", f"{budget_s}"), budget_s + 20.0)


PARTS: Mapping[int, tuple[Step, ...]] = {
    1: (_zoo(1),),
    2: (_zoo(2),),
    3: (
        Step(
            "warm-up",
            (
                "benchmarks/warmup/run.py", "--out", "{out}/warmup", "--work", "{work}/warmup",
                "--budget", "250",
            ),
            260.0,
            12,
        ),
        Step(
            "gains",
            (
                "benchmarks/gains/run.py", "--out", "{out}/gains", "--reports", "{work}/zoo/logs",
                "--work", "{work}/gains", "--budget", "330",
            ),
            335.0,
            12,
        ),
    ),
    4: (
        Step("accuracy", ("benchmarks/accuracy/run.py", "--out", "{out}/accuracy"), 90.0, 9),
        Step("kill", ("tools/kill_test.py", "--out", "{out}/kill", "--budget", "140"), 150.0, 30),
        Step("CPU", ("benchmarks/overhead/run.py", "--cpu-only", "--out", "{out}/cpu"), 160.0, 8),
        Step("doctor", ("-m", "perfzero", "doctor"), 60.0),
    ),
    5: (Step("overhead", ("benchmarks/overhead/run.py", "--out", "{out}/overhead"), 590.0),),
    6: (_look("resnet50,accumulated,compiled,decode"),),
    7: (_look("small,adversaries,inference"),),
    8: (_planted("ash,birch,cedar,elm,fir,hazel,larch"),),
    9: (_planted("maple,oak,pine,rowan,spruce,willow,yew"),),
    10: (_compare("ledger", 240), Step("top", ("benchmarks/top/run.py", "--out", "{out}/top"), 120.0)),
    11: (_compare("channels_last", 560),),
}  # fmt: skip


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--part", type=int, choices=sorted(PARTS), required=True)
    p.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "live-check")))
    p.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "perfzero-live-check")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    p = parser()
    args = p.parse_args(argv)
    try:
        for folder in (args.out, args.work):
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        p.error(f"no results can be kept there: {error}")
    said: list[str] = []
    with checkout.ended_by_signals(), (args.out / "live_check.txt").open("a", buffering=1) as file:

        def say(line: str) -> None:
            said.append(line)
            file.write(line + "\n")

        say(f"{commit()}, part {args.part} of {len(PARTS)}")
        try:
            for step in PARTS[args.part]:
                say(run(step, out=args.out.resolve(), work=args.work.resolve()))
        except KeyboardInterrupt:
            say("interrupted: what is missing above was not run to its end: FAIL")
        print("\n".join(said))
    return 1 if any(line.endswith("FAIL") for line in said) else 0


def run(step: Step, *, out: Path, work: Path) -> str:
    """Run one step, show the end of what it printed; returns a line of outcome."""
    print(f"=== {step.name}", flush=True)
    words = [word.format(out=out, work=work) for word in step.command]
    log = work / f"{step.name.replace(' ', '-').replace(',', '')}.log"
    ended = checkout.run(["python3", *words], log=log, timeout_s=step.seconds)
    print("\n".join(ended.output.rstrip().splitlines()[-step.lines :]), flush=True)
    how = "OK" if ended.code == 0 else "ran into its time limit: FAIL" if ended.code is None else "FAIL"
    return f"{step.name:16}{ended.wall_s:7.0f} s  {how}"


def commit() -> str:
    """Which commit this is, where git knows."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=checkout.ROOT, capture_output=True, text=True, timeout=20, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return "an export without git"
    return found.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
