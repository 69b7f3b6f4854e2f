"""
What the benchmarks of the analysis share: they run a program under perfzero and read its report.

Each measures some programs by name, one after the other. One that fails becomes a failure in the
results and does not stop the others; nothing is begun that would not end within the budget; results
are saved after each program; and whatever ends the benchmark, it ends every process that it started.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from subprocess import Popen
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(ROOT / "src"))

import checkout  # noqa: E402 (needs the path above)

from perfzero.values import jsonable  # noqa: E402

START_UP_S = 60.0
"""Beyond its own length, what a program's start, the end of the recording and the analysis may take."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """
    What a benchmark measures: *measure* turns the name of a program, a folder and the options into a row.

    A row is a dataclass with `ok`. `needed_s`: how long a program takes, by its name and the options where
    it depends on them. `table` puts rows in words.
    `options` adds what the benchmark takes beyond the options that all have.
    """

    name: str
    programs: Sequence[str]
    measure: Callable[[str, Path, argparse.Namespace], Any]
    table: Callable[[Sequence[Any]], str]
    needed_s: float | Callable[[str, argparse.Namespace], float]
    options: Callable[[argparse.ArgumentParser], object] = lambda _parser: None


@dataclass(slots=True)
class Results:
    """Rows, and for the programs that gave none the reason."""

    rows: list[Any] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return bool(self.rows) and not self.failures and all(row.ok for row in self.rows)


def arguments(benchmark: Benchmark, argv: Sequence[str] | None, *, description: str | None) -> Any:
    """The options of a benchmark; ends the process for a program that does not exist."""
    p = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", benchmark.name)))
    p.add_argument("--only", type=lambda text: text.split(","), default=list(benchmark.programs))
    p.add_argument("--budget", type=float, default=540.0, help="nothing is begun that would end after it")
    p.add_argument("--work", type=Path, help="folder for logs and recordings (default: one that is removed)")
    benchmark.options(p)
    args = p.parse_args(argv)
    wrong = sorted(set(args.only) - set(benchmark.programs))
    if wrong:
        p.error(f"no such program: {', '.join(wrong)}. There are: {', '.join(benchmark.programs)}")
    return args


def run(benchmark: Benchmark, *, description: str | None, argv: Sequence[str] | None) -> int:
    """Measure the chosen programs; 0 if every one of them was as it should be, else 1."""
    args = arguments(benchmark, argv, description=description)
    args.out.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    results = Results()
    with scratch(benchmark.name, args.work) as work, checkout.ended_by_signals():
        for name in args.only:
            needed_s = benchmark.needed_s(name, args) if callable(benchmark.needed_s) else benchmark.needed_s
            if time.monotonic() - begun + needed_s > args.budget:
                results.failures[name] = "not run: out of time"
            else:
                print(name, flush=True)
                try:
                    results.rows.append(benchmark.measure(name, work / name, args))
                except Exception as error:  # noqa: BLE001 - the other programs must still be measured
                    results.failures[name] = f"{type(error).__name__}: {error}"
            save(benchmark, results, out=args.out)
    print(words(benchmark, results))
    return 0 if results.ok else 1


def words(benchmark: Benchmark, results: Results) -> str:
    failed = [f"{name:24}FAIL: {' '.join(why.split())}" for name, why in results.failures.items()]
    return "\n".join([benchmark.table(results.rows), *failed])


def save(benchmark: Benchmark, results: Results, *, out: Path) -> None:
    document = {"rows": [values(row) for row in results.rows], "failures": results.failures}
    (out / f"{benchmark.name}.json").write_text(json.dumps(jsonable(document), indent=1) + "\n")
    (out / f"{benchmark.name}.txt").write_text(words(benchmark, results) + "\n")


def values(row: Any) -> dict[str, Any]:
    """The fields of *row* and what is derived from them."""
    derived = [name for name, value in vars(type(row)).items() if isinstance(value, property)]
    return asdict(row) | {name: getattr(row, name) for name in derived}


@contextmanager
def scratch(name: str, kept: Path | None) -> Iterator[Path]:
    """A folder for logs and recordings, which stay out of the results: *kept*, or a temporary one."""
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix=f"perfzero-{name}-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def child(command: Sequence[str], *, log: Path) -> Iterator[Popen[bytes]]:
    """*command* in a process group of its own, of which nothing is left afterwards."""
    process = checkout.start(command, log=log)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGCONT)  # a stopped process cannot end
        checkout.end_group(process)


def watch(
    command: Sequence[str], *, folder: Path, seconds: float, options: Sequence[str] = ()
) -> dict[str, Any]:
    """
    Run *command*, which takes some *seconds*, under perfzero; returns what report.json says of its GPU,
    and as "recording_start_ns" when the recording began.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    log = folder.with_suffix(".log")
    with child([*checkout.PERFZERO, "run", *options, "-o", str(folder), "--", *command], log=log) as process:
        ended = checkout.finish(process, log=log, timeout_s=seconds + START_UP_S)
    if ended.code != 0:
        how = "ran into its time limit" if ended.code is None else f"ended with {ended.code}"
        raise RuntimeError(f"{how}: {ended.output[-600:].strip()}")
    document = json.loads((folder / "report.json").read_text())
    gpu: dict[str, Any] = document["gpus"][0]
    return {**gpu, "recording_start_ns": document["start_ns"]}
