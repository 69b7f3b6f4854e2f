"""
What a look names in real programs of other kinds: CuPy, JAX, several processes, a step that is one graph.

`tests/recordings/_looks` has the recordings, and README.md there how they were made. In one of them the
trace's clock is held against the burst, by kernels that begin after a gap.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from perfzero.attribute.breakdown import (
    COLLECTIVES_ROW,
    OPTIMIZER_ROW,
    REPLAYS_ROW,
    UNATTRIBUTED_ROW,
    Breakdown,
)
from perfzero.report.analysis import judged_report
from perfzero.report.breakdown import lines
from perfzero.report.model import Report

ROOT = Path(__file__).parents[2]
LOOKS = ROOT / "tests" / "recordings" / "_looks"
OTHERS = ("adversaries", "cupy", "ddp", "decode", "jax")


@cache
def report_of(name: str) -> Report:
    return judged_report(LOOKS / name)


def look_of(name: str) -> Breakdown:
    [found] = report_of(name).breakdowns.values()
    return found


def share(breakdown: Breakdown, row: str) -> float:
    return next(r.time.share for r in breakdown.elsewhere if r.name == row)


def benchmark(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / "benchmarks" / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", OTHERS)
def test_a_recording_is_small_enough_to_be_sent(name: str) -> None:
    assert sum(path.stat().st_size for path in (LOOKS / name).iterdir()) < 1_000_000


def test_of_cupy_the_kernels_are_named_and_advice_is_in_its_words() -> None:
    """Each step of cupy_solver.py is one product, twelve kernels beside it, an FFT and back."""
    found = look_of("cupy")
    told = lines(found)

    assert found.steps == pytest.approx(81, abs=2)
    assert not found.alike
    assert told[0].startswith("xmma_gemm_f32f32")
    assert all("kernel" in line for line in told)
    remedies = [r.text for g in report_of("cupy").gpus for f in g.diagnosis.findings for r in f.remedies]
    assert any("CUPY_TF32=1" in text for text in remedies)
    assert not any("torch" in text for text in remedies)


def test_of_jax_the_kernels_of_its_graphs_are_named() -> None:
    """Ten layers: their products forward, and for weights and inputs backward."""
    found = look_of("jax")
    told = lines(found)

    assert found.steps == pytest.approx(22, abs=2)
    assert all(line.endswith("by replay") for line in told)
    assert [line.split()[2] for line in told[:3]] == ["×10", "×10", "×9"]
    assert all(line.startswith("nvjet_tst") for line in told[:3])


def test_of_several_processes_each_has_its_layers_and_what_the_gpus_exchange() -> None:
    found = report_of("ddp").breakdowns

    assert len(found) == 2
    for breakdown in found.values():
        classes = {alike.class_name: alike.count for alike in breakdown.alike}
        assert classes == {"Linear": 10, "GELU": 10}
        assert 0.05 < share(breakdown, COLLECTIVES_ROW) < 0.3
        assert share(breakdown, UNATTRIBUTED_ROW) < 0.02
        assert share(breakdown, OPTIMIZER_ROW) > 0.01
    assert any(line.startswith("collectives") and "AllReduce" in line for line in lines(found[min(found)]))


def test_of_a_step_that_is_one_graph_the_kernels_are_named_and_its_modules_are_not() -> None:
    """16 layers: attention over what is kept of 1,024 tokens takes half of a token's time."""
    found = look_of("decode")
    told = lines(found)

    assert share(found, REPLAYS_ROW) > 0.99
    assert not found.alike
    assert told[0].startswith("fmha_cutlassF")
    assert "kernel ×16" in told[0]
    assert all("by replay" in line for line in told)


@pytest.mark.parametrize(("name", "offered"), [("decode", False), ("resnet50_fp32", True)])
def test_channels_last_is_for_programs_that_convolve(name: str, offered: bool) -> None:
    """Of a replay only the names of kernels tell; a ResNet-50 in float32 has convolutions in NCHW."""
    [gpu] = report_of(name).gpus
    starved = next(f for f in gpu.diagnosis.findings if f.rule == "tensor_starved")

    assert starved.remedies
    assert ("channels-last" in starved.remedies[0].text) == offered
    assert offered or all("channels-last" not in remedy.text for remedy in starved.remedies)


def test_trace_and_samples_are_on_one_clock_to_a_third_of_a_microsecond() -> None:
    """Kernels that begin after a gap, in samples of 23 us. The engine is at work before the first SM is."""
    onsets = benchmark("attribution/onsets.py")
    [(samples, start_ns, end_ns)] = onsets.looks_of(LOOKS / "adversaries")
    of_sms = onsets.seen(samples, start_ns, end_ns, counter="sm_active")
    of_engine = onsets.seen(samples, start_ns, end_ns, counter="gr_active")

    assert of_sms.many[0] > 200
    assert of_sms.begin_us[1] == pytest.approx(0.0, abs=0.33)
    assert of_sms.begin_us[2] - of_sms.begin_us[0] < 0.3
    assert of_engine.begin_us[1] == pytest.approx(1.4, abs=0.4)
    late = onsets.seen(samples, start_ns + 3000, end_ns + 3000, counter="sm_active")
    assert late.begin_us[1] == pytest.approx(of_sms.begin_us[1] + 3, abs=0.05)


def test_kernels_without_a_gap_before_them_show_no_onset() -> None:
    onsets = benchmark("attribution/onsets.py")
    [(samples, start_ns, end_ns)] = onsets.looks_of(LOOKS / "decode")

    assert onsets.seen(samples, start_ns, end_ns, counter="sm_active").many == (0, 0)
