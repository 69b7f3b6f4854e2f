"""
Measures the cases of the zoo: are perfzero's verdicts right, and do the fixes gain what was promised?

    python benchmarks/zoo/run.py --out OUT [--only a01,k04 | --part 2/6] [--gpus 0,1] [--budget SECONDS]

Of each case three things are measured, one after the other on a GPU of its own: the unfixed program under
`perfzero run` with all defaults; the unfixed and the fixed one alone, in turns; the fixed one under perfzero,
for the limit it meets (not of a healthy case, which has no fix). A case takes some 65 s of a GPU so. What is
kept already (--kept) is not measured again: gains as long as the program stays the same, recordings as long
as the recorder does, too. Nothing is begun that would not end within the budget, and what was measured is
kept at once.

Into OUT go zoo.json and zoo.txt, the scores of what was measured in this run; kept-1.tar, kept-2.tar, ...,
what was kept in it, to be unpacked in the folder --kept of another machine; and logs.tar.gz. Then
`python benchmarks/zoo/score.py` judges everything that is kept, and writes docs/zoo.md.

`--dry-run DIR` takes the recording in DIR for any, on a machine without a GPU: all else is done.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

import checkout
import table
from archive import Archive
from case import BadCase, Case, choose
from judged import Score, judged
from kept import FOLDER, VERSIONS, Kept, Version
from lanes import Afterwards, afterwards, in_lanes
from programs import Program, Stop, Stopped
from recorded import FIXED_S, Place, await_end, pack_command, watch
from replayed import Replayed
from turns import ROUNDS, TURN_S, achieved, in_turns

from perfzero.report.atomic import write_whole
from perfzero.values import jsonable

STAGES = ("base", "gain", "fixed")

BESIDE_S = 8.0
"""Of a GPU's time: a program's start and the end of its recording."""

PACKING_S = 30.0
"""Of the budget, what the last recordings take to be trimmed and judged when all is measured."""

PACKERS = 2
"""Recordings that are trimmed at once, while the GPUs go on."""

PACK_LIMIT_S = 240.0


def stages_of(case: Case, asked: Sequence[str]) -> list[str]:
    """
    Those of *asked* that *case* is scored by: of a healthy one no limit is foreseen, so what its tempting
    change meets need not be watched.
    """
    return [stage for stage in asked if not (stage == "fixed" and case.truth.healthy)]


class Run:
    """What all lanes share."""

    def __init__(self, args: argparse.Namespace, *, work: Path, stop: Stop, beside: Afterwards) -> None:
        self.kept = Kept(args.kept.resolve())
        self.failures: dict[str, list[str]] = {}
        self._args = args
        self._work = work
        self._stop = stop
        self._beside = beside
        self._out = args.out
        self._archive = Archive(args.out, root=self.kept.folder)
        self._begun = time.monotonic()
        self._lock = threading.Lock()

    def measure(self, case: Case, gpu: int) -> None:
        """
        Everything of *case* that is missing; what fails is noted, and the rest is still measured.

        Where the unfixed program cannot be watched nothing else is begun: the case has to be repaired first,
        and what was measured of another program does not count.
        """
        place = Place(self._args.python, gpu, self._args.dry_run)
        for stage in stages_of(case, self._args.stages):
            if self._is_kept(case, stage):
                self.say(gpu, case, stage, "kept")
            elif self._left_s() < self._needed_s(case, stage):
                self.fail(case, f"{stage}: not measured, out of time")
            else:
                self.say(gpu, case, stage, f"begins, some {self._needed_s(case, stage):.0f} s")
                try:
                    self._stage(case, stage, place)
                except Stopped:
                    raise
                except Exception as error:  # noqa: BLE001 - the other stages and cases must still be measured
                    self.fail(case, f"{stage}: {type(error).__name__}: {error}")
                    if stage == "base":
                        break
        self._save_logs()

    def _stage(self, case: Case, stage: str, place: Place) -> None:
        if stage == "gain":
            self._gain(case, place)
        else:
            self._record(case, "base" if stage == "base" else "fixed", place)

    def _gain(self, case: Case, place: Place) -> None:
        def start(fixed: bool) -> Program:
            command = case.command(python=place.python, seconds=self._args.loop, fixed=fixed)
            log = self._work / case.id / f"alone-{'fixed' if fixed else 'base'}.log"
            return Program(command, log=log, more=place.environment)

        turns = in_turns(
            lambda: start(False),
            lambda: start(True),
            stop=self._stop,
            rounds=self._args.rounds,
            turn_s=case.turn_s or self._args.turn,
        )
        gain = achieved(turns)
        self._archive.add(self.kept.keep_gains(case, turns))
        self.say(place.gpu, case, "gain", f"{gain.gain:.2f} ({gain.low:.2f} to {gain.high:.2f})")

    def _record(self, case: Case, version: Version, place: Place) -> None:
        raw = self._work / case.id / version
        raw.parent.mkdir(parents=True, exist_ok=True)
        if raw.exists():
            shutil.rmtree(raw)
        watch(case, version, raw, place=place, seconds=self._length_s(case, version), stop=self._stop)
        self._beside.do(lambda: self._pack(case, version, raw))

    def _pack(self, case: Case, version: Version, raw: Path) -> None:
        reports = self._work / case.id / f"{version}-reports"
        log = raw.with_name(f"{version}-packing.log")
        command = pack_command(case, version, raw, kept=self.kept.folder, reports=reports)
        try:
            nowhere = Place("", -1)
            await_end(command, log=log, place=nowhere, within_s=PACK_LIMIT_S, stop=self._stop)
        except Stopped:
            return
        except Exception as error:  # noqa: BLE001 - what was measured of the other cases must still be kept
            self.fail(case, f"{version}: packing: {error}")
            return
        checked = self.kept.checked(case, version)
        assert checked is not None
        for problem in checked.problems:
            self.fail(case, f"{version}: {problem}")
        self._archive.add(self.kept.folder / case.id / version)
        said = f"kept, {checked.size / 1000:.0f} KB: {checked.trimmed.verdict or checked.trimmed.reason}"
        self.say(None, case, version, said)

    # --- time ---

    def _length_s(self, case: Case, version: Version) -> float:
        if self._args.dry_run is not None:
            return float(self._args.dry_seconds)
        return case.seconds if version == "base" else FIXED_S

    def _needed_s(self, case: Case, stage: str) -> float:
        """
        How long *stage* takes as a rule.

        A turn of a program that prints in rare bursts may go on up to `turns.LONGEST_TURN_S`: a case that
        knows it says so by its `turn_seconds`.
        """
        if stage == "gain":
            return 2 * int(self._args.rounds) * float(case.turn_s or self._args.turn) + BESIDE_S
        return self._length_s(case, "base" if stage == "base" else "fixed") + BESIDE_S

    def _left_s(self) -> float:
        packing_s = 0.0 if self._args.dry_run is not None else PACKING_S
        return float(self._args.budget) - packing_s - (time.monotonic() - self._begun)

    # --- what is there ---

    def _is_kept(self, case: Case, stage: str) -> bool:
        if stage == "gain":
            return self.kept.gains(case) is not None
        version: Version = "base" if stage == "base" else "fixed"
        if self._args.any_recorder:
            return self.kept.recording(case, version) is not None
        return self.kept.up_to_date(case, version)

    def score(self, case: Case) -> Score | None:
        """Of what this run has packed; None where that is not the unfixed program."""
        found = {version: self._replayed(case, version) for version in VERSIONS}
        turns = self.kept.gains(case)
        if found["base"] is None:
            return None
        problems = tuple(self.failures.get(case.id, ()))
        gain = None if turns is None else achieved(turns)
        return judged(case, found["base"], fixed=found["fixed"], gain=gain, problems=problems)

    def _replayed(self, case: Case, version: Version) -> Replayed | None:
        path = self._work / case.id / f"{version}-reports" / "replayed.json"
        if not path.is_file():
            return None
        found = json.loads(path.read_text())
        texts = {name: tuple(found[name]) for name in ("layers", "waited_for", "limits")}
        return Replayed(**{**found, **texts})

    # --- words ---

    def fail(self, case: Case, why: str) -> None:
        """Told at once, too: what fails after this may take the machine away."""
        words = " ".join(why.split())
        with self._lock:
            self.failures.setdefault(case.id, []).append(words)
        print(f"{time.monotonic() - self._begun:5.0f} s         {case.id:6} FAILED {words}", flush=True)

    def _save_logs(self) -> None:
        with self._lock:
            save_logs(self._work, self._out)

    def say(self, gpu: int | None, case: Case, stage: str, words: str) -> None:
        where = "" if gpu is None else f"gpu {gpu}"
        print(f"{time.monotonic() - self._begun:5.0f} s  {where:6} {case.id:6} {stage:6} {words}", flush=True)


def results(run: Run, cases: Sequence[Case], out: Path) -> bool:
    """Write the scores into *out*, and say whether all went well."""
    scores = [score for case in cases if (score := run.score(case)) is not None]
    told = {score.case for score in scores}
    others = [f"{name}: {'; '.join(why)}" for name, why in run.failures.items() if name not in told]
    text = "\n".join([table.text(scores), *others])
    document = {"scores": [asdict(score) for score in scores], "failures": run.failures}
    (out / "zoo.json").write_text(json.dumps(jsonable(document), indent=1) + "\n")
    (out / "zoo.txt").write_text(f"{text}\n")
    print(text)
    return not run.failures


def save_logs(work: Path, out: Path) -> None:
    """What programs and recorder printed, and what was said of the recordings."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as file:
        for path in sorted(work.rglob("*")):
            if path.suffix == ".log" or path.parent.name.endswith("-reports"):
                file.add(path, arcname=str(path.relative_to(work)))
    write_whole(out / "logs.tar.gz", packed.getvalue())


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "zoo-out")))
    chosen = p.add_mutually_exclusive_group()
    chosen.add_argument("--only", type=lambda text: text.split(","), help="ids of cases, comma separated")
    chosen.add_argument("--part", type=_pair, metavar="K/N", help="the Kth of N parts of all cases")
    p.add_argument("--gpus", type=_indices, default=[0], help="NVML indices, a case at a time on each")
    p.add_argument("--budget", type=float, default=560.0, help="nothing is begun that would end after it")
    p.add_argument("--work", type=Path, help="folder for whole recordings (default: one that is removed)")
    p.add_argument("--kept", type=Path, default=FOLDER, help="what is kept from run to run")
    p.add_argument("--stages", type=_stages, default=STAGES, help=f"some of {','.join(STAGES)}")
    p.add_argument("--any-recorder", action="store_true", help="recordings of another recorder are as good")
    p.add_argument("--rounds", type=int, default=ROUNDS, help="of turns")
    p.add_argument("--turn", type=float, default=TURN_S, help="length of a turn in s")
    p.add_argument("--python", default=sys.executable, help="what runs the programs")
    p.add_argument("--zoo", type=Path, default=None, help=argparse.SUPPRESS)
    p.add_argument("--loop", type=float, default=900.0, help=argparse.SUPPRESS)
    p.add_argument("--dry-run", type=Path, metavar="DIR", help="a recording that is taken for any")
    p.add_argument("--dry-seconds", type=float, default=1.0, help="of a program that is not watched then")
    return p


def _pair(text: str) -> tuple[int, int]:
    number, of = text.split("/")
    return int(number), int(of)


def _indices(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _stages(text: str) -> tuple[str, ...]:
    wrong = set(text.split(",")) - set(STAGES)
    if wrong:
        raise argparse.ArgumentTypeError(f"no such stage: {', '.join(sorted(wrong))}")
    return tuple(stage for stage in STAGES if stage in text.split(","))


@contextmanager
def working_folder(wanted: Path | None) -> Iterator[Path]:
    if wanted is not None:
        wanted.mkdir(parents=True, exist_ok=True)
        yield wanted.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="perfzero-zoo-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    try:
        more: Mapping[str, Any] = {} if args.zoo is None else {"zoo": args.zoo.resolve()}
        cases = choose(args.only, args.part, **more)
    except BadCase as error:
        print(error, file=sys.stderr)
        return 2
    args.out.mkdir(parents=True, exist_ok=True)
    args.kept.mkdir(parents=True, exist_ok=True)
    stop = Stop()
    with working_folder(args.work) as work, checkout.ended_by_signals():
        with afterwards(PACKERS * len(args.gpus), stop=stop) as beside:
            run = Run(args, work=work, stop=stop, beside=beside)
            try:
                in_lanes(cases, args.gpus, run.measure, stop=stop)
                beside.wait()
            finally:
                save_logs(work, args.out)
                good = results(run, cases, args.out)
        return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
