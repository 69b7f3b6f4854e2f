"""The arithmetic of benchmarks/planted, and that every program has its planted line once."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PLANTED = Path(__file__).parents[1] / "benchmarks" / "planted"


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


def test_no_program_is_long_and_none_says_what_is_planted(run: ModuleType) -> None:
    for name in run.PLANTED:
        text = (PLANTED / "programs" / f"{name}.py").read_text()

        assert len(text.splitlines()) <= 40
        assert "#" not in text


def test_the_truth_is_how_much_idle_time_a_step_loses(run: ModuleType) -> None:
    line = int(run.line_of("birch").split(":")[1])
    # 20 ms, a quarter of it idle: 15 ms of work. With 16 ms afterwards 1 ms of the 5 is left.
    row = run.row_of("birch", gpu(cause(line, 0.78)), before_ms=20.0, fixed_ms=16.0)

    assert row.truth == pytest.approx(0.8)
    assert (row.named, row.near, row.ok) == (True, True, True)


def test_another_line_and_another_share_are_wrong(run: ModuleType) -> None:
    line = int(run.line_of("birch").split(":")[1])

    assert not run.row_of("birch", gpu(cause(line + 1, 0.8)), before_ms=20.0, fixed_ms=16.0).ok
    assert not run.row_of("birch", gpu(cause(line, 0.6)), before_ms=20.0, fixed_ms=16.0).ok
    assert not run.row_of("birch", gpu(), before_ms=20.0, fixed_ms=16.0).ok
    assert not run.row_of("birch", {"host": None, "verdict": None}, before_ms=20.0, fixed_ms=16.0).ok


def test_a_harmless_wait_may_not_be_blamed(run: ModuleType) -> None:
    line = int(run.line_of("yew").split(":")[1])
    right = cause(line, 1.0, "python", "/x/yew.py")
    wait = cause(3, 0.3, "synchronising", "/x/yew.py")

    assert run.row_of("yew", gpu(right), before_ms=20.0, fixed_ms=15.0).ok
    assert not run.row_of("yew", gpu(right, wait), before_ms=20.0, fixed_ms=15.0).ok


def test_the_last_step_time_that_a_program_prints_counts(run: ModuleType) -> None:
    printed = "\n".join(json.dumps({"steps": n, "seconds": 2.0}) for n in (10, 100)) + "\nbye\n"

    assert run.step_ms(printed) == pytest.approx(20.0)
    with pytest.raises(RuntimeError, match="no step time"):
        run.step_ms("nothing")


def test_the_table_says_how_many_lines_are_named(run: ModuleType) -> None:
    line = int(run.line_of("birch").split(":")[1])
    rows = [run.row_of("birch", gpu(cause(n, 0.8)), before_ms=20.0, fixed_ms=16.0) for n in (line, line + 1)]

    assert run.table(rows).endswith("1 of 2 lines named, 2 of 2 shares within 0.05")
