"""
Ask CUPTI which metrics fit one pass on every chip, and keep the answer as data.

    python tools/check_metric_sets.py                       every libcupti found here, every chip it knows
    python tools/check_metric_sets.py --library PATH ...    these libraries
    python tools/check_metric_sets.py --chip GH100 ...      these chips only (nothing is written)

Run it on a machine with an NVIDIA driver, as any user: libcupti needs libcuda even for its
host API, but no GPU counter is touched, and the chip need not be there. Each library is
asked in a process of its own, since two of them cannot be loaded side by side.

Versions that are not found here keep their last answer, as long as it was given for the same
ladders. The result is `src/perfzero/data/metric_sets.json`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perfzero.counters import pm_counters
from perfzero.errors import PerfzeroError
from perfzero.metric_sets import parse

DESTINATION = Path(__file__).parents[1] / "src" / "perfzero" / "data" / "metric_sets.json"


def main(argv: Sequence[str] | None = None) -> int:
    options = _arguments(argv)
    if options.ask is not None:
        try:
            print(json.dumps(ask(options.ask, options.chip)))
        except (PerfzeroError, OSError) as error:
            print(error, file=sys.stderr)
            return 1
        return 0
    answers = [_in_own_process(path, options.chip) for path in options.library or _found_here()]
    usable = [answer for answer in answers if answer is not None]
    for answer in usable:
        print(table(answer))
    if not usable:
        print("no libcupti answered; nothing was written", file=sys.stderr)
        return 1
    if options.chip:
        print("only some chips were asked; nothing was written", file=sys.stderr)
        return 0
    kept = json.loads(options.output.read_text()) if options.output.exists() else None
    result = merge(kept, usable, ladders=declared_ladders())
    parse(result)  # what is written can be read
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(f"wrote {options.output.name}: versions {', '.join(result['checked'])}")
    return 0


SAMPLED = ("TU", "GA", "AD", "GH", "GB", "GR")
"""Chips whose counters can be PM-sampled: Turing and later (cupti_pmsampling.h)."""


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--library", action="append", metavar="PATH", help="a libcupti.so; may be repeated")
    parser.add_argument("--chip", action="append", default=[], help="only this chip; may be repeated")
    parser.add_argument("--output", type=Path, default=DESTINATION, metavar="FILE")
    parser.add_argument("--ask", metavar="PATH", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def declared_ladders() -> dict[str, list[str]]:
    """The ladders as `perfzero.counters` declares them now."""
    return {c.name: list(c.cupti) for c in pm_counters()}


def merge(
    kept: Mapping[str, Any] | None, answers: Sequence[Mapping[str, Any]], *, ladders: Mapping[str, list[str]]
) -> dict[str, Any]:
    """The file's new content: *answers*, and from *kept* the other versions if their ladders are these."""
    checked = dict(kept["checked"]) if kept is not None and kept["ladders"] == ladders else {}
    for answer in answers:
        checked[str(answer["version"])] = {key: answer[key] for key in ("date", "driver", "chips")}
    return {"checked": dict(sorted(checked.items(), key=lambda c: int(c[0]))), "ladders": dict(ladders)}


def ask(path: str, chips: Sequence[str]) -> dict[str, Any]:
    """What the library at *path* says about *chips* (none given: about every chip it knows)."""
    from perfzero.sources import cupti
    from perfzero.sources._libcupti import CuptiError, Library

    cupti.load_cuda()
    library = Library(path)
    library.initialize()
    answers: dict[str, Any] = {}
    for chip in chips or [c for c in library.supported_chips() if c.startswith(SAMPLED)]:
        try:
            found = cupti.resolve_for_chip(library, chip)
        except (PerfzeroError, CuptiError) as error:
            print(f"{chip}: {error}", file=sys.stderr)
            continue
        answers[chip] = {"one_pass": dict(found.metrics), "left_out": dict(found.left_out)}
    return {
        "version": library.version,
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "driver": _driver(),
        "chips": answers,
    }


def table(answer: Mapping[str, Any]) -> str:
    """One line per chip: how many counters fit, and which do not and why."""
    lines = [f"libcupti {answer['version']}, driver {answer['driver']}"]
    for chip, found in answer["chips"].items():
        reasons = "; ".join(f"{name}: {why}" for name, why in found["left_out"].items())
        lines.append(f"  {chip:<7}{len(found['one_pass']):>3} fit   {reasons}")
    return "\n".join(lines)


def _found_here() -> list[str]:
    from perfzero.sources import cupti

    return [str(found.path) for found in cupti.find_libraries()]


def _in_own_process(path: str, chips: Sequence[str]) -> dict[str, Any] | None:
    command = [sys.executable, __file__, "--ask", path, *(f"--chip={chip}" for chip in chips)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        print(f"{path}: no answer (exit code {done.returncode})", file=sys.stderr)
        return None
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _driver() -> str:
    import pynvml

    pynvml.nvmlInit()
    try:
        return str(pynvml.nvmlSystemGetDriverVersion())
    finally:
        pynvml.nvmlShutdown()


if __name__ == "__main__":
    sys.exit(main())
