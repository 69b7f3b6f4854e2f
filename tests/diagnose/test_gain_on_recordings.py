"""
What was predicted before a fix holds what the fix achieved, on recordings of both from an H200.

Speed before and after comes from the recordings themselves where the counters show it (step times,
launches per second of a program that launches the same kernels in every step), and else from the
programs' own reports, kept here.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import pytest
import step_log

from perfzero.diagnose.judge import judge
from perfzero.diagnose.verdict import Diagnosis, Gain
from perfzero.store.reader import open_recording

RECORDINGS = Path(__file__).parents[1] / "recordings"

FP32_TFLOPS = 50.9
"""zoo/fp32_gemm.py: 2 x 4096^3 in 2.70 ms."""

TF32_TFLOPS = (225.0, 355.0)
"""The same product with TF32, by size and power left: 4.5 to 7 times as fast."""

BF16_TFLOPS = 659.0
"""zoo/bf16_gemm.py: 2 x 8192^3 in 1.668 ms, at the power limit."""

FUSED_BYTES = 3 / 12
"""zoo/elementwise_chain.py: twelve tensors are moved per step; fused, two are read and one is written."""


ACHIEVED: Mapping[str, tuple[float, str, tuple[str, ...]]] = {
    "fp32_gemm": (6.46, "TF32", ("the tensor cores",)),
    "item_every_layer": (1.19, "read results back", ("the tensor cores",)),
    "optimizer_unfused": (2.02, "fused optimizer", ("the host",)),
    "elementwise_chain": (4.05, "Fuse elementwise", ("memory bandwidth",)),
    "resnet50_nchw": (1.93, "channels-last", ("memory bandwidth",)),
    "input_starved_resnet50": (3.02, "num_workers", ("the host", "the CPU cores of the host")),
}
"""
What `benchmarks/gains/run.py` measured on an H200 on 2026-11-29, of these very runs: the gain, words of the
remedy that gave it, and the limits that the fixed program met.
"""

FIXED_MS: Mapping[str, tuple[float, str, tuple[str, ...]]] = {
    "tiny_kernels": (0.0963, "CUDA graph", ("the number of SMs the kernels fill",)),
    "pageable_copies": (9.77, "pinned memory", ("the copies between host and GPU", "the PCIe link")),
}
"""Of programs that wait for the host before the fix only: their step time after it, always the same."""

MET: Mapping[str, tuple[str, ...]] = {name: met for name, (_, _, met) in {**ACHIEVED, **FIXED_MS}.items()}


@functools.cache
def judged(name: str) -> Diagnosis:
    folder = RECORDINGS / name
    if not (folder / "manifest.json").is_file():
        pytest.skip(f"the recording {name} is not kept")
    recording = open_recording(folder)
    return judge(recording.observation(recording.gpus[0].index))


def predicted(name: str, *, remedy: int = 0) -> Gain:
    """The gain of a remedy of the verdict: its own, or the verdict's."""
    verdict = judged(name).verdict
    assert verdict is not None
    gain = verdict.remedies[remedy].gain or verdict.gain
    assert gain is not None
    return gain


def own_ms(name: str) -> float:
    """The mean step in the stretch that was judged, by the program's own clock."""
    steady = judged(name).steady
    log = step_log.unpack(RECORDINGS / name / "own_steps.npz")
    mean, _ = step_log.step_of(step_log.inside(log, steady.start_ns, steady.end_ns))
    return mean


def promised(name: str, remedy: str) -> Gain:
    """The gain of the remedy with these words: its own, or the verdict's."""
    verdict = judged(name).verdict
    assert verdict is not None
    own = next(r for r in verdict.remedies if remedy in r.text)
    gain = own.gain or verdict.gain
    assert gain is not None
    return gain


def achieved_by_launches(before: str, after: str) -> float:
    slow, fast = (judged(name).facts["launches_per_s"].value for name in (before, after))
    return fast / slow


@pytest.mark.parametrize("name", ACHIEVED)
def test_a_fix_that_was_measured_gained_what_is_predicted(name: str) -> None:
    gain, remedy, _ = ACHIEVED[name]
    promise = promised(name, remedy)

    assert promise.low <= gain <= promise.high


def test_a_larger_batch_is_promised_less_where_only_the_optimizer_is_late() -> None:
    late = judged("optimizer_unfused").verdict
    assert late is not None
    in_part, throughout = (promised(name, "batch size") for name in ("optimizer_unfused", "decode_eager"))

    assert in_part.low == pytest.approx(2 / (2 - late.share))
    assert in_part.high == pytest.approx(1 / (1 - late.share))
    assert throughout.low == pytest.approx(4 / 1.1, rel=0.01)


@pytest.mark.parametrize("name", FIXED_MS)
def test_a_program_freed_of_its_host_gained_what_is_predicted_of_the_pace_it_had(name: str) -> None:
    fixed_ms, remedy, _ = FIXED_MS[name]
    promise = promised(name, remedy)

    assert promise.low <= own_ms(name) / fixed_ms <= promise.high


@pytest.mark.parametrize("name", MET)
def test_the_limit_that_the_fix_met_is_one_of_those_named_before(name: str) -> None:
    verdict = judged(name).verdict
    assert verdict is not None
    assert verdict.next_limit is not None
    assert {*verdict.next_limit.split(" or ")} & {*MET[name]}


@pytest.mark.parametrize(
    ("name", "limit"), [("host_memory", "the PCIe link"), ("side_stream_copy", "the tensor cores")]
)
def test_of_a_full_link_what_is_left_still_waits_for_it(name: str, limit: str) -> None:
    """Kernels that read host memory in place, all the time; and copies, half of it."""
    verdict = judged(name).verdict
    assert verdict is not None
    assert (verdict.rule, verdict.next_limit) == ("transfer_bound", limit)


def test_channels_last_gained_what_was_predicted() -> None:
    gain = predicted("resnet50_nchw")

    assert gain.low <= own_ms("resnet50_nchw") / own_ms("resnet50_channels_last") <= gain.high


def test_after_channels_last_the_limit_is_the_one_announced() -> None:
    before, after = judged("resnet50_nchw").verdict, judged("resnet50_channels_last").verdict
    assert before is not None
    assert after is not None
    assert before.next_limit is not None
    assert "memory bandwidth" in before.next_limit.split(" or ")
    assert after.rule == "memory_bound"


def test_a_graph_of_tiny_kernels_gained_what_was_predicted() -> None:
    achieved = achieved_by_launches("tiny_kernels", "tiny_kernels_graph")
    gain = predicted("tiny_kernels")

    assert 7 < achieved < 15
    assert gain.low <= achieved <= gain.high


def test_after_the_graph_the_limit_is_the_one_announced() -> None:
    before, after = judged("tiny_kernels").verdict, judged("tiny_kernels_graph").verdict
    assert before is not None
    assert after is not None
    assert (before.next_limit, after.rule) == ("the number of SMs the kernels fill", "small_grid")


@pytest.mark.parametrize("name", ["fp32_gemm", "gpm_only"])
def test_tf32_gained_what_was_predicted(name: str) -> None:
    gain = predicted(name)

    assert gain.low <= TF32_TFLOPS[0] / FP32_TFLOPS
    assert TF32_TFLOPS[1] / FP32_TFLOPS <= gain.high


@pytest.mark.parametrize("name", ["fp32_gemm", "gpm_only"])
def test_bf16_gained_what_was_predicted_of_it_and_more_than_tf32_can(name: str) -> None:
    gain = predicted(name, remedy=1)

    assert gain.low <= BF16_TFLOPS / FP32_TFLOPS <= gain.high
    assert predicted(name).high < BF16_TFLOPS / FP32_TFLOPS


def test_fusing_the_chain_gained_what_was_predicted() -> None:
    gain = predicted("elementwise_chain")

    assert gain.low <= 1 / FUSED_BYTES <= gain.high


def test_no_loader_can_gain_more_than_the_time_the_gpu_is_busy_leaves() -> None:
    """And none more than the cores that are left."""
    diagnosis = judged("input_starved_resnet50")
    gain = predicted("input_starved_resnet50")

    assert gain.high <= 1 / (1 - diagnosis.shares["idle"])
    assert gain.high <= 1 / diagnosis.facts["host_cpu_busy"].value * 1.001
    assert gain.low > 1.5


@pytest.mark.parametrize(
    "name",
    ["fp32_gemm", "tiny_kernels", "elementwise_chain", "resnet50_nchw", "resnet50_channels_last"],
)
def test_a_prediction_is_narrow_enough_to_be_of_use(name: str) -> None:
    """A wide interval always holds the truth."""
    gain = predicted(name)

    assert gain.low > 1
    assert gain.high / gain.low < 6


@pytest.mark.parametrize(
    ("name", "step_s"),
    [("resnet50_channels_last", 0.05417), ("elementwise_chain", 0.002993)],
)
def test_the_step_time_is_that_of_the_programs_own_clock(name: str, step_s: float) -> None:
    assert judged(name).step_s == pytest.approx(step_s, rel=0.01)


@pytest.mark.parametrize(("name", "step_s"), [("bf16_gemm_capped", 0.00168), ("fp32_gemm", 0.00269)])
def test_steps_shorter_than_samples_are_seen_in_the_burst(name: str, step_s: float) -> None:
    """The burst sees 50 ms of it."""
    assert judged(name).step_s == pytest.approx(step_s, rel=0.02)
