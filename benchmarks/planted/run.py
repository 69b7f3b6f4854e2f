"""
Is the line named that the GPU waits for? Programs with one planted line each, and two without a guilty wait.

    python benchmarks/planted/run.py --out OUT [--only birch,cedar] [--budget SECONDS] [--seconds SECONDS]

Each program runs under `perfzero run`, and its report names lines of the program with their share of the
GPU's idle time. Then it runs with the planted line taken out (`--fixed`), sampled by GPM alone. The truth is
how much less idle time a step has then: idle share times step time, before and afterwards, step times by the
program's own clock. Step times alone do not tell it. A GPU that is never idle runs into its power limit: here
its clock falls from 1.83 to 1.74 GHz and the work of a step takes 20.1 ms instead of 19.5, with no idle time
at all (maple and willow, and oak, within their stretches without a gap; H200, 2026-11-30).

Right is a program whose planted line is named first, within five points of the truth. In willow and yew the
host also waits often for what has long been done: there no such wait may be named at all. Where the GPU is
idle for less than a twentieth of the time (`LITTLE`), only the line is judged.

Into OUT go planted.json and planted.txt. A program takes some 40 s (a step of 20 ms, start-ups and analysis
included; H200), all fourteen more than nine minutes. In two halves it fits into ten minutes each:

    python benchmarks/planted/run.py --out OUT1 --only ash,birch,cedar,elm,fir,hazel,larch
    python benchmarks/planted/run.py --out OUT2 --only maple,oak,pine,rowan,spruce,willow,yew

Without a GPU only `--dry` does something: it runs every program for two seconds, both ways, and looks for its
planted line.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import watched

from perfzero.store.reader import open_recording
from perfzero.values import Samples

PROGRAMS = Path(__file__).parent / "programs"

SECONDS = 15.0
"""Under perfzero: two or three until the program is taken to be steady, and ten to look at it closely."""

FIXED_SECONDS = 6.0
"""Of which 4.2 s are taken for steady (`WARM`), six samples of GPM."""

WARM = 0.3
"""This share of a program's time is its start, which programs/base.py leaves out of the step time."""

NEEDED_S = SECONDS + FIXED_SECONDS + 30.0
"""With both start-ups, the ends of the recordings and the analyses."""

LITTLE = 0.05
"""
Of all time. GPM tells 0.995 to 1.000 of a GPU that is never idle (H200, tests/recordings/fp32_gemm), its mean
over some seconds within 0.0025: five points of this share.
"""

WITHIN = 0.05
BLAMED = 0.2
"""From this share on a wait counts as blamed."""

WAITS = ("synchronising", "copying")


@dataclass(frozen=True, slots=True)
class Planted:
    """What was planted, and words that stand only on its line. `harmless`: other lines wait, without harm."""

    what: str
    words: str
    harmless: bool = False


PLANTED: Mapping[str, Planted] = {
    "ash": Planted("DataLoader stage", "images = next(loader)"),
    "birch": Planted(".item()", "total += loss.item()"),
    "cedar": Planted(".cpu()", "kept.append(out[:64].detach().cpu())"),
    "elm": Planted("print of a loss", 'print(f"step {i}: {loss}")'),
    "fir": Planted("synchronize()", "torch.cuda.synchronize()"),
    "hazel": Planted("nonzero", "torch.nonzero(error > 1.0)"),
    "larch": Planted("boolean mask", "loss = error[mask].mean()"),
    "maple": Planted("garbage collection", "gc.collect()"),
    "oak": Planted("checkpoint", "torch.save((net"),
    "pine": Planted("tokeniser", "ids = encode(WORDS * 12, known)"),
    "rowan": Planted("pageable copy", "else rows.to(base.DEVICE)"),
    "spruce": Planted("recompilation", "out = fast(x[:n])"),
    "willow": Planted("work, beside waits for old events", "best = max(sorted(", harmless=True),
    "yew": Planted("work, beside waits for nothing", "table = sorted(table", harmless=True),
}


@dataclass(frozen=True, slots=True)
class Row:
    """
    What is told of a program, and what is true. Shares are of the idle time; `idle` is one of all time, with
    the planted line where the host was sampled, and `fixed_idle` without it.

    `waits`: lines that wait for the GPU and are told with a share of `BLAMED` or more, the planted one aside.
    """

    program: str
    what: str
    planted: str
    told: str
    activity: str
    share: float | None
    low: float | None
    high: float | None
    truth: float
    idle: float | None
    fixed_idle: float
    before_ms: float
    fixed_ms: float
    waits: tuple[str, ...]
    others: tuple[str, ...]
    stages: tuple[str, ...]
    verdict: str | None
    reason: str

    @property
    def named(self) -> bool:
        return self.told == self.planted

    @property
    def judged(self) -> bool:
        """Whether there is enough idle time to judge a share of it."""
        return self.idle is not None and self.idle >= LITTLE

    @property
    def near(self) -> bool:
        return self.share is not None and abs(self.share - self.truth) <= WITHIN

    @property
    def ok(self) -> bool:
        right = self.named and (self.near or not self.judged)
        return right and not (PLANTED[self.program].harmless and self.waits)


def measure(name: str, folder: Path, args: argparse.Namespace) -> Row:
    program = ["python3", str(PROGRAMS / f"{name}.py")]
    folder.parent.mkdir(parents=True, exist_ok=True)
    command = [*program, "--seconds", str(args.seconds)]
    gpu = watched.watch(command, folder=folder, seconds=args.seconds)
    before_ms = step_ms(folder.with_suffix(".log").read_text(errors="replace"))
    fixed = folder.with_name(f"{name}-fixed")
    command = [*program, "--fixed", "--seconds", str(FIXED_SECONDS)]
    watched.watch(command, folder=fixed, seconds=FIXED_SECONDS, options=("--source", "gpm"))
    fixed_ms = step_ms(fixed.with_suffix(".log").read_text(errors="replace"))
    gpm = open_recording(fixed).observation(gpu["gpu"]["index"]).gpm
    fixed_idle = idle_share(gpm, seconds=FIXED_SECONDS)
    return row_of(name, gpu, before_ms=before_ms, fixed_ms=fixed_ms, fixed_idle=fixed_idle)


def idle_share(gpm: Samples, *, seconds: float) -> float:
    """
    The share of the time that the GPU was idle while a program of *seconds* ran steadily, from GPM samples.

    The program ends in the last sample in which the GPU was busy for half as much as it ever was.
    """
    gr = gpm.column("gr_active")
    if not np.nanmax(gr, initial=0.0) > 0:
        raise RuntimeError("the GPU was never busy")
    last = int(np.flatnonzero(gr >= 0.5 * np.nanmax(gr))[-1])
    first_ns = gpm.start_ns[last] - (1 - WARM) * seconds * 1e9
    steady = (gpm.start_ns >= first_ns) & (gpm.end_ns <= gpm.start_ns[last]) & np.isfinite(gr)
    if not steady.any():
        raise RuntimeError("no whole sample of GPM while the program ran steadily")
    return 1 - float(np.average(gr[steady], weights=(gpm.end_ns - gpm.start_ns)[steady]))


def step_ms(printed: str) -> float:
    """The step time that a program printed last, in ms."""
    for line in reversed(printed.splitlines()):
        if line.startswith('{"steps"'):
            found = json.loads(line)
            return 1e3 * float(found["seconds"]) / int(found["steps"])
    raise RuntimeError(f"no step time: {printed[-400:]}")


def row_of(name: str, gpu: Mapping[str, Any], *, before_ms: float, fixed_ms: float, fixed_idle: float) -> Row:
    """What *gpu*, of report.json, tells of a program."""
    host = gpu["host"] or {"causes": [], "idle": None, "reason": "the host was not sampled"}
    causes = host["causes"]
    first = causes[0] if causes else None
    planted = line_of(name)
    idle = host["idle"]
    idle_ms = (idle or 0.0) * before_ms
    left_ms = fixed_idle * fixed_ms
    waits = tuple(
        place(c) for c in causes if c["activity"] in WAITS and c["share"] >= BLAMED and place(c) != planted
    )
    return Row(
        program=name,
        what=PLANTED[name].what,
        planted=planted,
        told=place(first) if first else "-",
        activity=first["activity"] if first else "",
        share=first["share"] if first else None,
        low=first["low"] if first else None,
        high=first["high"] if first else None,
        truth=1 - left_ms / idle_ms if idle_ms > 0 else math.nan,
        idle=idle,
        fixed_idle=fixed_idle,
        before_ms=before_ms,
        fixed_ms=fixed_ms,
        waits=waits,
        others=tuple(f"{place(c)} {c['activity']} {c['share']:.2f}" for c in causes[1:5]),
        stages=tuple(
            f"{s['stage']} {s['share']:.2f} {Path(s['file']).name}:{s['line']}"
            for s in (first["stages"] if first else ())
        ),
        verdict=gpu["verdict"]["rule"] if gpu["verdict"] else None,
        reason=host["reason"],
    )


def place(cause: Mapping[str, Any]) -> str:
    return f"{Path(cause['file']).name}:{cause['line']}"


def line_of(name: str) -> str:
    """Where the planted line of a program stands."""
    text = (PROGRAMS / f"{name}.py").read_text().splitlines()
    found = [i for i, line in enumerate(text, 1) if PLANTED[name].words in line]
    if len(found) != 1:
        raise ValueError(f"{name}.py has {len(found)} lines with {PLANTED[name].words!r}")
    return f"{name}.py:{found[0]}"


def table(rows: Sequence[Row]) -> str:
    lines = [
        f"{'program':8}{'planted':34}{'at':14}{'told':14}{'activity':20}{'share':>6}{'interval':>13}{'truth':>7}"
        f"{'idle':>6}{'fixed':>7}{'step':>8}{'fixed':>8}"
    ]
    for row in rows:
        share = "-" if row.share is None else f"{row.share:.2f}"
        interval = "-" if row.low is None else f"{row.low:.2f}-{row.high:.2f}"
        idle = "-" if row.idle is None else f"{row.idle:.2f}"
        lines.append(
            f"{row.program:8}{row.what:34}{row.planted:14}{row.told:14}{row.activity:20}{share:>6}{interval:>13}"
            f"{row.truth:7.2f}{idle:>6}{row.fixed_idle:7.3f}{row.before_ms:8.2f}{row.fixed_ms:8.2f}"
            f"  {'OK' if row.ok else 'FAIL'}"
            f"{'' if row.judged else ' (too little idle time to judge a share)'}"
            f"{' ' + row.reason if row.reason else ''}"
        )
        details = [*row.stages, *(f"then {other}" for other in row.others)]
        if details:
            lines.append(f"{'':8}{'; '.join(details)}")
    judged = [row for row in rows if row.judged]
    named, near = sum(row.named for row in rows), sum(row.near for row in judged)
    lines.append(f"{named} of {len(rows)} lines named, {near} of {len(judged)} shares within {WITHIN:.2f}")
    return "\n".join(lines)


def dry() -> int:
    """Run every program for two seconds, both ways; 0 if all print their step time."""
    for name in PLANTED:
        for options in ((), ("--fixed",)):
            command = [sys.executable, str(PROGRAMS / f"{name}.py"), "--seconds", "2", *options]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            print(
                f"{name:8}{line_of(name):14}{' '.join(options):8}{step_ms(done.stdout):9.2f} ms", flush=True
            )
    return 0


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each program under perfzero")


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if "--dry" in argv:
        return dry()
    benchmark = watched.Benchmark(
        "planted", tuple(PLANTED), measure, table, needed_s=NEEDED_S, options=options
    )
    return watched.run(benchmark, description=__doc__, argv=argv)


if __name__ == "__main__":
    sys.exit(main())
