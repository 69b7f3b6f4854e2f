"""The measuring program alone, on a simulated device whose calls take a known time."""

from __future__ import annotations

import ast
import json
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from perfzero.record import calibration_program as program


class Device:
    """A queue of work that runs on a clock of its own: calls are queued at once and take *call_s* each."""

    name = "simulated 1.0"

    def __init__(self, *, call_s: float) -> None:
        self.call_s = call_s
        self.clock_s = 0.0
        self.calls = 0

    def call(self) -> None:
        self.calls += 1
        time.sleep(0.001)
        # Now and then one is held up, as by an interrupt: a median does not notice.
        self.clock_s += self.call_s * (50.0 if self.calls % 20 == 0 else 1.0)

    def event(self) -> float:
        return self.clock_s

    def between_s(self, first: float, last: float) -> float:
        return last - first

    def synchronize(self) -> None:
        time.sleep(1e-4)

    def clean(self) -> None:
        pass

    def free_bytes(self) -> int:
        return 80 << 30

    def __getattr__(self, stage: str) -> Any:
        if stage == "product":
            raise AttributeError("no products here")
        return lambda *_: self.call


def test_the_time_of_a_call_is_the_median_by_the_devices_events() -> None:
    before = time.time_ns()

    device = Device(call_s=0.002)
    found = program.measure(device, device.call, 0.2)
    assert found["seconds"] == pytest.approx(0.002)
    assert before < found["start_ns"] < found["end_ns"] < time.time_ns()


def test_a_stage_that_fails_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "framework", lambda: Device(call_s=0.002))
    monkeypatch.setattr(
        program,
        "stages",
        lambda device: [
            ("copy", 8, lambda: device.call),
            ("bf16", 2, lambda: 1 / 0),
            ("l2_chain", 4, lambda: device.call),
        ],
    )

    program.main(0.05)

    said = json.loads(capsys.readouterr().out)
    assert list(said["stages"]) == ["copy", "l2_chain"]
    assert said["stages"]["copy"]["amount"] == 8
    assert said["skipped"] == {"bf16": "ZeroDivisionError: division by zero"}


def test_amounts_are_the_bytes_and_flop_of_one_call() -> None:
    class Everything(Device):
        def product(self, kind: str) -> Any:
            return self.call

    amounts = {name: amount for name, amount, _ in program.stages(Everything(call_s=1.0))}

    gib = 1 << 30
    assert amounts["triad"] == 3 * gib  # two read, one written
    assert amounts["copy"] == 2 * gib
    assert amounts["pcie_rx"] == amounts["pcie_tx"] == gib // 4
    assert amounts["l2_chain"] == 32 << 20
    assert amounts["l2_reread"] == 64 * (8 << 20)
    assert amounts["bf16"] == amounts["fp32"] == 2 * 8192**3


def test_little_memory_makes_smaller_tensors() -> None:
    device = Device(call_s=1.0)
    device.free_bytes = lambda: 4 << 30  # type: ignore[method-assign]
    device.product = lambda kind: device.call  # type: ignore[attr-defined]

    assert {n: a for n, a, _ in program.stages(device)}["copy"] == 2 * (4 << 30) // 8


def test_cupy_is_taken_where_torch_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Module(ModuleType):
        def __getattr__(self, name: str) -> Any:
            return Module(name)

    cupy = Module("cupy")
    cupy.__version__ = "14.2.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    assert program.framework().name == "cupy 14.2.0"

    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(SystemExit, match="torch"):
        program.framework()


def test_the_program_stands_alone() -> None:
    """It runs in a Python that has neither perfzero nor its dependencies."""
    tree = ast.parse(Path(program.__file__).read_text())
    modules = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [a.name for a in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }

    assert modules - {"numpy"} <= sys.stdlib_module_names  # cupy brings numpy along
