"""
Judges all recordings of the zoo that are kept by the rules of today, and writes the table. Needs no GPU.

    python benchmarks/zoo/score.py [--kept FOLDER] [--only a01,k04] [--out OUT] [--docs]

Into OUT go zoo.json, zoo.txt and the picture of the calibration. With --docs docs/zoo.md and its picture are
written, and verdicts.json beside the recordings, which the tests hold against every later change of a rule.
A case takes some seconds, most of them for the look; --quick leaves out from when on a verdict is stable.

Ends with 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

import calibration
import summary
import table
from case import ROOT, ZOO, BadCase, Case, choose
from judged import Score, judged
from kept import FOLDER, Kept
from page import PICTURE, page
from replayed import replay, stable_after_s
from turns import achieved

from perfzero.errors import PerfzeroError
from perfzero.report.atomic import write_whole
from perfzero.values import jsonable

VERDICTS = "verdicts.json"
JSON = "zoo.json"
TEXT = "zoo.txt"


@dataclass(frozen=True, slots=True)
class Scored:
    """A case whose recording is kept: its score, and when and on what it was made."""

    score: Score
    made: str
    hardware: str


class Unread(RuntimeError):
    """What is kept of a case and cannot be read, and how to get it anew."""


def scored(case: Case, *, kept: Path, quick: bool) -> Scored | None:
    """As `_scored`; raises `Unread` for what is damaged."""
    try:
        return _scored(case, kept=kept, quick=quick)
    except (PerfzeroError, OSError, ValueError, KeyError, TypeError) as error:
        again = f"Remove {kept / case.id}, and measure it again: benchmarks/zoo/run.py --only {case.id}"
        raise Unread(
            f"{case.id}: what is kept of it cannot be read: {str(error).splitlines()[0]}\n{again}"
        ) from error


def _scored(case: Case, *, kept: Path, quick: bool) -> Scored | None:
    """The score of *case* by what is in *kept*; None without a recording of the unfixed program."""
    place = Kept(kept)
    path, checked = place.recording(case, "base"), place.checked(case, "base")
    if path is None or checked is None:
        return None
    base = replay(path)
    after, turns = place.recording(case, "fixed"), place.gains(case)
    fixed_checked = place.checked(case, "fixed")
    score = judged(
        case,
        base,
        fixed=None if after is None else replay(after),
        gain=None if turns is None else achieved(turns),
        stable_s=None if quick else stable_after_s(path),
        problems=(*checked.problems, *(fixed_checked.problems if fixed_checked else ())),
        at_first=checked.at_first,
    )
    return Scored(score, checked.made, base.hardware)


def all_scored(cases: Sequence[Case], *, kept: Path, quick: bool, jobs: int) -> list[Scored | None]:
    work = partial(scored, kept=kept, quick=quick)
    if jobs == 1:
        return [work(case) for case in cases]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        return list(pool.map(work, cases))


def verdicts(scores: Sequence[Score]) -> Mapping[str, Any]:
    """What later rules may not lose: the verdict of each case, and whether it is right."""
    return {s.case: {"verdict": s.verdict, "right": s.right, "rank": s.rank} for s in scores}


def text_of(scores: Sequence[Score], *, with_stable: bool) -> str:
    found = summary.rows(scores, with_stable=with_stable)
    widths = [max(len(row[i]) for row in found) for i in range(len(found[0]))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in found]
    return "\n".join([table.text(scores), "", *lines])


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--kept", type=Path, default=FOLDER, help="what run.py has kept")
    p.add_argument("--only", type=lambda text: text.split(","), help="ids of cases, comma separated")
    p.add_argument("--out", type=Path, help="folder for the scores and the picture")
    p.add_argument("--docs", action="store_true", help="write docs/zoo.md, its picture, and verdicts.json")
    p.add_argument("--quick", action="store_true", help="leave out from when on a verdict is stable")
    p.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 1), help="cases at once")
    p.add_argument("--zoo", type=Path, default=ZOO, help=argparse.SUPPRESS)
    p.add_argument("--pages", type=Path, default=ROOT / "docs", help=argparse.SUPPRESS)
    return p


def main(argv: Sequence[str] | None = None) -> int:
    p = parser()
    args = p.parse_args(argv)
    if args.docs and (args.only or args.quick):
        p.error("--docs tells of all cases, and of everything: without --only and --quick")
    try:
        cases = choose(args.only, zoo=args.zoo)
    except BadCase as error:
        print(error, file=sys.stderr)
        return 2
    if not args.kept.is_dir():
        print(
            f"There is no folder {args.kept}. What was measured is kept by benchmarks/zoo/run.py.",
            file=sys.stderr,
        )
        return 2
    try:
        all_found = all_scored(cases, kept=args.kept, quick=args.quick, jobs=args.jobs)
    except Unread as error:
        print(error, file=sys.stderr)
        return 2
    found = [one for one in all_found if one is not None]
    scores = [one.score for one in found]
    unmeasured = [case for case, one in zip(cases, all_found, strict=True) if one is None]
    text = text_of(scores, with_stable=not args.quick)
    print(text)
    if unmeasured:
        print(f"\nnot measured: {', '.join(case.id for case in unmeasured)}")
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        document = jsonable({"scores": [{**asdict(s), "misses": s.misses} for s in scores]})
        write_whole(args.out / JSON, (json.dumps(document, indent=1) + "\n").encode())
        write_whole(args.out / TEXT, f"{text}\n".encode())
        write_whole(args.out / PICTURE, calibration.svg(scores).encode())
    if args.docs:
        dates, hardware = {one.made for one in found}, {one.hardware for one in found}
        whole = page(scores, unmeasured=unmeasured, dates=dates, hardware=hardware)
        write_whole(args.pages / "zoo.md", whole.encode())
        if scores:
            write_whole(args.pages / PICTURE, calibration.svg(scores).encode())
            snapshot = json.dumps(verdicts(scores), indent=1) + "\n"
            write_whole(args.kept / VERDICTS, snapshot.encode())
    found_bars = summary.bars(scores, with_stable=not args.quick)
    return 0 if all(bar.met is not False for bar in found_bars) else 1


if __name__ == "__main__":
    sys.exit(main())
