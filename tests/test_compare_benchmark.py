"""The benchmark of comparisons: its arithmetic, on pairs whose answer is known."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from perfzero.report.ledger.measure import Iteration, iteration
from perfzero.series.compare import BUSY, Series, measured

ROOT = Path(__file__).parents[1]
BEFORE, AFTER = (ROOT / "tests" / "recordings" / name for name in ("resnet50_nchw", "resnet50_channels_last"))


def load(monkeypatch: pytest.MonkeyPatch, path: str) -> ModuleType:
    file = ROOT / "benchmarks" / path
    for folder in (file.parent, file.parents[1], ROOT / "tools"):
        monkeypatch.syspath_prepend(str(folder))
    name = "benchmark_" + path.replace("/", "_").removesuffix(".py")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    for imported in ("watched", "checkout", "step_log", "programs", "loop"):
        sys.modules.pop(imported, None)
    return module


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load(monkeypatch, "compare/run.py")


@pytest.fixture(scope="module")
def recorded() -> Iteration:
    return iteration("resnet50_channels_last", [AFTER])


def run_of(
    benchmark: ModuleType, recorded: Iteration, *, seed: int, slower: float = 0.0, noise: float = 0.002
):
    """A run as the recorded one, whose steps were others."""
    rng = np.random.default_rng(seed)
    steps = 0.05 * (1 + slower) * (1 + 0.0004 * rng.normal() + noise * rng.normal(size=200))
    step = measured([Series(steps, np.ones(200), np.repeat(np.arange(10), 20))], scale="ratio", usual=BUSY)
    means = {"step_time": step, "step_rate": step.inverse()}
    return benchmark.Run(dataclasses.replace(recorded, means=means), float(steps.mean()))


def test_equal_runs_are_the_same_and_slow_ones_are_found(benchmark: ModuleType, recorded: Iteration) -> None:
    plain = [run_of(benchmark, recorded, seed=k) for k in range(3)]
    slow = [run_of(benchmark, recorded, seed=9 + k, slower=0.02) for k in range(3)]
    row = benchmark.pairs_of("channels_last", plain, slow)

    assert (row.same, row.equal) == (6, 6)
    assert (row.found, row.slower) == (9, 9)
    assert row.own == pytest.approx(0.02, abs=0.002)
    assert row.runs < 0.002
    assert row.ok


def test_a_slow_down_that_is_none_is_not_ok(benchmark: ModuleType, recorded: Iteration) -> None:
    plain, slow = ([run_of(benchmark, recorded, seed=s + k) for k in range(2)] for s in (0, 9))
    row = benchmark.pairs_of("channels_last", plain, slow)

    assert row.found == 0
    assert row.contrary == 4
    assert not row.ok


def test_runs_without_steps_are_not_ok(benchmark: ModuleType, recorded: Iteration) -> None:
    plain = [benchmark.Run(dataclasses.replace(recorded, means={}), 0.05)] * 2
    row = benchmark.pairs_of("channels_last", plain, plain)

    assert row.same == 0
    assert not row.ok


def test_recordings_that_exist_are_scored_without_a_gpu(
    benchmark: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two stages of the ledger, by the recordings of the tests and the programs' own logs."""
    step_log = load(monkeypatch, "../tools/step_log.py")
    for stage, recording in (("nchw", BEFORE), ("channels_last", AFTER), ("graph", AFTER)):
        shutil.copytree(recording, tmp_path / "ledger" / stage)
        rows = step_log.unpack(recording / "own_steps.npz")
        (tmp_path / "ledger" / f"{stage}.steps").write_bytes(rows.tobytes())
    out = tmp_path / "out"
    code = benchmark.main(
        ["--out", str(out), "--only", "ledger", "--third", "graph", "--recordings", str(tmp_path)]
    )
    first, second = json.loads((out / "compare.json").read_text())["rows"][0]["gains"]

    assert code == 1  # the third is the second once more: nothing was gained
    assert first["own"] == pytest.approx(1.926, abs=0.005)
    assert first["kept"] == "kept"
    assert second["kept"] == "less"
    assert "B is 1.93× as fast as A" in (out / "ledger.txt").read_text()
    assert "nchw to channels_last" in capsys.readouterr().out


def test_what_takes_longer_than_the_budget_is_not_begun(benchmark: ModuleType) -> None:
    args = argparse.Namespace(recordings=None, runs=5, third="compiled")

    assert benchmark.needed_s("channels_last", args) < 360
    assert benchmark.needed_s("ledger", args) < 360
    assert benchmark.needed_s("ledger", argparse.Namespace(recordings=Path("x"))) == 0


def test_the_simulation_knows_a_program_from_a_slower_one(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = load(monkeypatch, "compare/simulated.py")
    row = simulated.simulate(simulated.KINDS[1], runs=1, pairs=20)

    assert row.same >= 0.9
    assert row.found >= 0.9
    assert row.alone > 0.3


def test_the_halves_of_a_real_log_are_told_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = load(monkeypatch, "compare/simulated.py")
    row = simulated.halves(BEFORE / "own_steps.npz")

    assert (row.same, row.found) == (1.0, 1.0)


class Products:
    """As much of PyTorch as the extra work needs: a product takes 30 µs."""

    bfloat16 = "bfloat16"

    def __init__(self) -> None:
        self.count = 0
        self.cuda = self

    def randn(self, *_shape: int, **_kind: object) -> str:
        return "matrix"

    def randn_like(self, _matrix: str) -> str:
        return "matrix"

    empty_like = randn_like

    def mm(self, _a: str, _b: str, *, out: str) -> None:
        assert out == "matrix"
        self.count += 1

    def Event(self, *, enable_timing: bool) -> Products:
        assert enable_timing
        return self

    def record(self) -> None:
        pass

    synchronize = record

    def elapsed_time(self, _end: Products) -> float:
        return 200 * 0.03


def test_the_extra_work_of_a_step_takes_as_long_as_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = load(monkeypatch, "compare/programs.py")
    torch = Products()
    monkeypatch.setitem(sys.modules, "torch", torch)
    steps = []
    slower = programs.slower(lambda: steps.append(1), 1080.0)
    torch.count = 0
    slower()

    assert len(steps) == 1
    assert torch.count == 36


def test_a_program_of_the_zoo_runs_as_it_is_with_the_work_after_each_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The zoo's own loop runs it; nothing of the program is written anew."""
    programs = load(monkeypatch, "compare/programs.py")
    (tmp_path / "zoo").mkdir()
    program = "import loop, sys\nloop.run(lambda: loop.done.append(sys.argv[1:]), args=None, counts={})\n"
    (tmp_path / "zoo" / "p.py").write_text(program)
    monkeypatch.setattr(programs, "ROOT", tmp_path)
    monkeypatch.setattr(programs, "CASES", {"p": ("p.py", "--fix")})
    monkeypatch.setitem(sys.modules, "loop", programs.loop)
    done: list[list[str]] = []
    monkeypatch.setattr(programs.loop, "done", done, raising=False)
    monkeypatch.setattr(programs.loop, "run", lambda step, **_rest: [step() for _ in range(3)])
    monkeypatch.setattr(sys, "argv", ["x"])
    monkeypatch.setattr(programs, "slower", lambda step, extra_us: step if extra_us == 5 else None)
    programs.of_the_zoo("p", argparse.Namespace(extra_us=5, seconds=1.0, log="l"))

    assert done == [["--fix", "--seconds", "1.0", "--log", "l"]] * 3
