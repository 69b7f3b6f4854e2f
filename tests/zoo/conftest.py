"""The modules of benchmarks/zoo, and cases made up for tests."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SCORER = ROOT / "benchmarks" / "zoo"

CASE = """
title = "A made-up case"
sources = ["https://example.org/1"]
category = "made-up"
program = "train.py"
arguments = []
seconds = 24

[truth]
healthy = false
causes = ["sync_bound", "host_starved"]
also = ["launch_bound"]
why = "It waits."

[named]
kind = "line"
what = "time.sleep"

[fix]
text = "Wait less."
remedy = "read.*back"
least_gain = 1.5
gain = [3.0, 5.0]
no_help = []
arithmetic = "40 ms / 10 ms"
"""

PROGRAM = """
import argparse
import time

parser = argparse.ArgumentParser()
parser.add_argument("--seconds", type=float, default=30)
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()
step, end = 0, time.monotonic() + args.seconds
while time.monotonic() < end:
    time.sleep(
        0.01 if args.fixed else 0.04
    )
    step += 1
    print(f"step {step}", flush=True)
"""


@pytest.fixture
def scorer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Import a module of benchmarks/zoo as its scripts find it, and forget all of them afterwards."""
    for folder in (ROOT / "tools", SCORER):
        monkeypatch.syspath_prepend(str(folder))
    names = {path.stem for path in SCORER.glob("*.py")}
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def made_up(tmp_path: Path) -> Path:
    """A zoo of one case, whose fix makes steps of 40 ms take 10."""
    folder = tmp_path / "zoo" / "x01"
    folder.mkdir(parents=True)
    (folder / "case.toml").write_text(CASE)
    (folder / "train.py").write_text(PROGRAM)
    return folder
