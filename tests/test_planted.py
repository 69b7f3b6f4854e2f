"""The arithmetic of benchmarks/planted, and that every program has its planted line once."""

from __future__ import annotations

import importlib.util
import json
import math
import shutil
import sys
from argparse import Namespace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from perfzero.values import Samples

PLANTED = Path(__file__).parents[1] / "benchmarks" / "planted"
RECORDED = Path(__file__).parent / "recordings" / "_stacks" / "birch"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for folder in (PLANTED.parent, PLANTED.parents[1] / "tools"):
        monkeypatch.syspath_prepend(str(folder))
    spec = importlib.util.spec_from_file_location("benchmark_planted_run", PLANTED / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def gpu(*causes: dict[str, Any], idle: float | None = 0.25) -> dict[str, Any]:
    host = {"causes": list(causes), "idle": idle, "reason": ""}
    return {"host": host, "verdict": {"rule": "sync_bound"}}


def cause(
    line: int, share: float, activity: str = "synchronising", file: str = "/x/birch.py"
) -> dict[str, Any]:
    return {
        "file": file, "line": line, "share": share, "low": share, "high": share, "activity": activity,
        "stages": [],
    }  # fmt: skip


def test_every_program_has_its_planted_line_once(run: ModuleType) -> None:
    programs = {p.stem for p in (PLANTED / "programs").glob("*.py")} - {"base"}

    assert programs == set(run.PLANTED)
    assert {name: run.line_of(name).split(":")[0] for name in programs} == {n: f"{n}.py" for n in programs}


def test_the_start_of_a_program_is_left_out_as_the_program_itself_does(run: ModuleType) -> None:
    assert f"WARM = {run.WARM}\n" in (PLANTED / "programs" / "base.py").read_text()


def test_no_program_is_long_and_none_says_what_is_planted(run: ModuleType) -> None:
    for name in run.PLANTED:
        text = (PLANTED / "programs" / f"{name}.py").read_text()

        assert len(text.splitlines()) <= 40
        assert "#" not in text


# 20 ms, a quarter of it idle; afterwards 16 ms, a sixteenth of it idle: of 5 ms 1 ms is left.
TIMES = {"before_ms": 20.0, "fixed_ms": 16.0, "fixed_idle": 1 / 16}


def test_the_truth_is_how_much_idle_time_a_step_loses(run: ModuleType) -> None:
    line = int(run.line_of("birch").split(":")[1])
    row = run.row_of("birch", gpu(cause(line, 0.78)), **TIMES)

    assert row.truth == pytest.approx(0.8)
    assert (row.idle, row.fixed_idle) == (0.25, 1 / 16)
    assert (row.named, row.near, row.ok) == (True, True, True)


def test_work_that_takes_longer_when_the_gpu_is_never_idle_is_no_idle_time(run: ModuleType) -> None:
    line = int(run.line_of("birch").split(":")[1])
    row = run.row_of("birch", gpu(cause(line, 1.0)), before_ms=20.0, fixed_ms=17.0, fixed_idle=0.0)

    assert row.truth == 1.0
    assert row.ok


def test_with_too_little_idle_time_the_line_alone_is_judged(run: ModuleType) -> None:
    line = int(run.line_of("birch").split(":")[1])
    little = gpu(cause(line, 0.3), idle=0.04)
    row = run.row_of("birch", little, **TIMES)

    assert (row.near, row.judged, row.ok) == (False, False, True)
    assert "too little idle time to judge a share" in run.table([row])
    assert run.table([row]).endswith("1 of 1 lines named, 0 of 0 shares within 0.05")
    assert not run.row_of("birch", gpu(cause(line + 1, 0.3), idle=0.04), **TIMES).ok
    assert "too little" not in run.table([run.row_of("birch", gpu(cause(line, 0.3)), **TIMES)])


def samples(*gr: float) -> Samples:
    """Of GPM, one each second."""
    start = np.arange(len(gr), dtype=np.int64) * 1_000_000_000
    return Samples(start, start + 1_000_000_000, {"gr_active": np.array(gr)})


def test_the_idle_share_is_taken_while_the_program_runs_steadily(run: ModuleType) -> None:
    # Work begins at 2 s and ends within the sample at 12 s; of its 10 s the first three are its start.
    gpm = samples(0, 0, 0.3, 0.4, 0.5, 0.9, 0.9, 0.8, math.nan, 0.9, 0.9, 0.8, 0.7, 0.01, 0)

    assert run.idle_share(gpm, seconds=10.0) == pytest.approx(1 - (0.9 + 0.9 + 0.8 + 0.9 + 0.9 + 0.8) / 6)


@pytest.mark.parametrize(
    ("gr", "why"), [((0.0, 0.0, 0.0), "never busy"), ((0.0, 1.0, 0.0), "no whole sample")]
)
def test_an_idle_share_is_not_made_up(run: ModuleType, gr: tuple[float, ...], why: str) -> None:
    with pytest.raises(RuntimeError, match=why):
        run.idle_share(samples(*gr), seconds=0.5)


def test_another_line_and_another_share_are_wrong(run: ModuleType) -> None:
    line = int(run.line_of("birch").split(":")[1])

    assert not run.row_of("birch", gpu(cause(line + 1, 0.8)), **TIMES).ok
    assert not run.row_of("birch", gpu(cause(line, 0.6)), **TIMES).ok
    assert not run.row_of("birch", gpu(), **TIMES).ok
    assert not run.row_of("birch", {"host": None, "verdict": None}, **TIMES).ok


def test_a_harmless_wait_may_not_be_blamed(run: ModuleType) -> None:
    line = int(run.line_of("yew").split(":")[1])
    right = cause(line, 1.0, "python", "/x/yew.py")
    wait = cause(3, 0.3, "synchronising", "/x/yew.py")

    assert run.row_of("yew", gpu(right), before_ms=20.0, fixed_ms=15.0, fixed_idle=0.0).ok
    assert not run.row_of("yew", gpu(right, wait), before_ms=20.0, fixed_ms=15.0, fixed_idle=0.0).ok


def test_both_ways_of_a_program_run_under_perfzero(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The recording stands for both; its GPU is idle for an eighth of the time."""
    asked = []

    def watch(
        command: list[str], *, folder: Path, seconds: float, options: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        asked.append((command[2:], seconds, options))
        shutil.copytree(RECORDED, folder)
        folder.with_suffix(".log").write_text(json.dumps({"steps": 100, "seconds": 2 + len(asked)}))
        line = int(run.line_of("birch").split(":")[1])
        return {"gpu": {"index": 0}, **gpu(cause(line, 1.0), idle=0.125)}

    monkeypatch.setattr(run.watched, "watch", watch)
    row = run.measure("birch", tmp_path / "birch", Namespace(seconds=14.0))

    assert asked == [
        (["--seconds", "14.0"], 14.0, ()),
        (["--fixed", "--seconds", "6.0"], 6.0, ("--source", "gpm")),
    ]
    assert (row.before_ms, row.fixed_ms, row.idle) == (30.0, 40.0, 0.125)
    assert row.fixed_idle == pytest.approx(0.125, abs=0.02)
    assert row.truth == pytest.approx(1 - row.fixed_idle * 40 / (0.125 * 30))


def test_the_last_step_time_that_a_program_prints_counts(run: ModuleType) -> None:
    printed = "\n".join(json.dumps({"steps": n, "seconds": 2.0}) for n in (10, 100)) + "\nbye\n"

    assert run.step_ms(printed) == pytest.approx(20.0)
    with pytest.raises(RuntimeError, match="no step time"):
        run.step_ms("nothing")


def test_the_table_says_how_many_lines_are_named(run: ModuleType) -> None:
    line = int(run.line_of("birch").split(":")[1])
    rows = [run.row_of("birch", gpu(cause(n, 0.8)), **TIMES) for n in (line, line + 1)]

    assert run.table(rows).endswith("1 of 2 lines named, 2 of 2 shares within 0.05")
