"""What was left on after a search for a bug: what counts, what does not, and when it is the cause."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfzero.diagnose.evidence import collect
from perfzero.diagnose.judge import judge
from perfzero.diagnose.leftovers import SWITCHES, leftovers
from perfzero.diagnose.rules.host import debug_leftovers
from perfzero.sources.synthetic import Phase, observe
from perfzero.values import Observation, Process


def left_on(observation: Observation, *, tracers: tuple[str, ...] = (), **variables: str) -> Observation:
    return replace(observation, process=Process(threads_env=variables, tracers=tracers))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CUDA_LAUNCH_BLOCKING", "1"),
        ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1"),
        ("PYTORCH_NO_CUDA_MEMORY_CACHING", "0"),  # PyTorch asks whether it is there, not what it is
        ("NVIDIA_TF32_OVERRIDE", "0"),
        ("TORCH_DISTRIBUTED_DEBUG", "detail"),
        ("NCCL_DEBUG", "TRACE"),
        ("NCCL_DEBUG", "INFO"),
        ("PYTHONMALLOC", "pymalloc_debug"),
        ("XLA_FLAGS", "--xla_gpu_x=1 --xla_dump_to=/tmp/x"),
        ("LD_PRELOAD", "/usr/lib/x86_64-linux-gnu/libasan.so.8"),
        ("CUDA_INJECTION64_PATH", "/opt/nsys/libToolsInjection64.so"),
    ],
)
def test_a_switch_that_is_on_is_found(name, value):
    assert [one.name.split("=")[0] for one in leftovers(Process(threads_env={name: value}))] == [name]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CUDA_LAUNCH_BLOCKING", "0"),
        ("CUDA_LAUNCH_BLOCKING", ""),
        ("NVIDIA_TF32_OVERRIDE", "1"),
        ("TORCH_DISTRIBUTED_DEBUG", "OFF"),
        ("NCCL_DEBUG", "WARN"),
        ("NCCL_DEBUG", "VERSION"),
        ("PYTHONMALLOC", "malloc"),
        ("XLA_FLAGS", "--xla_gpu_x=1"),
        ("LD_PRELOAD", "/usr/lib/libjemalloc.so.2"),
        ("PYTHONUNBUFFERED", "1"),
        ("CUDA_VISIBLE_DEVICES", "0"),
    ],
)
def test_a_switch_that_is_off_or_harmless_is_not_found(name, value):
    assert leftovers(Process(threads_env={name: value})) == ()


def test_a_path_is_not_repeated_and_a_short_value_is():
    found = leftovers(Process(threads_env={"CUDA_INJECTION64_PATH": "/home/ada/x.so", "NCCL_DEBUG": "INFO"}))

    assert {one.name for one in found} == {"CUDA_INJECTION64_PATH", "NCCL_DEBUG=INFO"}


def test_blocking_launches_are_the_cause_of_short_gaps_and_come_first(program):
    diagnosis = judge(left_on(program("tiny_kernels"), CUDA_LAUNCH_BLOCKING="1"))

    assert diagnosis.verdict is not None
    assert diagnosis.verdict.rule == "debug_leftovers"
    assert diagnosis.verdict.severity == "bad"
    assert diagnosis.verdict.remedies[0].text == "Unset CUDA_LAUNCH_BLOCKING."
    launches = next(f for f in diagnosis.findings if f.rule == "launch_bound")
    assert diagnosis.verdict.gain == launches.gain
    assert "decides" in diagnosis.verdict.undecided


def test_blocking_launches_explain_gaps_between_longer_kernels_too(program):
    found = debug_leftovers(collect(left_on(program("synchronising"), CUDA_LAUNCH_BLOCKING="1")))

    assert found is not None
    assert found.severity == "bad"
    assert found.gain is not None


@pytest.mark.parametrize("name", ["fp32_gemm", "input_starved_resnet50", "sleeping"])
def test_blocking_launches_are_not_the_cause_where_no_gap_follows_each_kernel(program, name):
    found = debug_leftovers(collect(left_on(program(name), CUDA_LAUNCH_BLOCKING="1")))

    assert found is not None
    assert found.severity == "info"
    assert found.gain is None


def test_blocking_launches_are_not_the_cause_of_long_pauses_after_many_kernels():
    """100,000 launches a second, back to back for 20 ms, and then 20 ms of nothing."""
    bursts = observe([Phase(0.020, {"gr_active": 1.0, "sm_active": 0.05, "launches": 1e5}), Phase(0.020)])

    found = debug_leftovers(collect(left_on(bursts, CUDA_LAUNCH_BLOCKING="1")))

    assert found is not None
    assert found.severity == "info"


def test_what_is_felt_is_named_before_what_is_not(program):
    both = left_on(program("sleeping"), TORCH_LOGS="+dynamo", CUDA_INJECTION64_PATH="/opt/x.so")

    found = debug_leftovers(collect(both))

    assert found is not None
    assert found.title.startswith("Left on for debugging: CUDA_INJECTION64_PATH, TORCH_LOGS")


def test_a_host_that_is_seen_to_run_ahead_contradicts_blocking_launches(program):
    """The program has unset the variable before CUDA read it."""
    ahead = program("synchronising")
    gr = ahead.pm.column("gr_active")
    queue = {"queue_empty": 1.0 - 0.95 * gr, "queue_semaphore": 0.95 * gr}
    ahead = replace(ahead, pm=ahead.pm.with_columns(queue))

    found = debug_leftovers(collect(left_on(ahead, CUDA_LAUNCH_BLOCKING="1")))

    assert found is not None
    assert found.severity == "info"


def test_a_queue_that_never_holds_the_next_command_agrees_with_blocking_launches(program):
    late = program("synchronising")
    queue = {"queue_empty": np.full(len(late.pm), 0.9), "queue_semaphore": np.zeros(len(late.pm))}

    found = debug_leftovers(
        collect(left_on(replace(late, pm=late.pm.with_columns(queue)), CUDA_LAUNCH_BLOCKING="1"))
    )

    assert found is not None
    assert found.severity == "bad"


def test_what_slows_the_host_is_a_reason_to_act_only_where_the_gpu_waits(program):
    waiting = debug_leftovers(collect(left_on(program("sleeping"), PYTHONDEVMODE="1")))
    busy = debug_leftovers(collect(left_on(program("fp32_gemm"), PYTHONDEVMODE="1")))

    assert waiting is not None
    assert waiting.severity == "watch"
    assert waiting.remedies
    assert busy is not None
    assert busy.severity == "info"
    assert busy.remedies == ()


def test_a_forbidden_tf32_is_a_reason_to_act_only_where_fp32_takes_the_time(program):
    slow = debug_leftovers(collect(left_on(program("fp32_gemm"), NVIDIA_TF32_OVERRIDE="0")))
    fast = debug_leftovers(collect(left_on(program("transformer_healthy"), NVIDIA_TF32_OVERRIDE="0")))

    assert slow is not None
    assert slow.severity == "watch"
    assert "NVIDIA_TF32_OVERRIDE" in slow.remedies[0].text
    assert fast is not None
    assert fast.severity == "info"


def test_switches_of_collectives_matter_only_where_there_are_any(program):
    many = debug_leftovers(collect(left_on(program("collectives"), NCCL_DEBUG="TRACE")))
    none = debug_leftovers(collect(left_on(program("sleeping"), NCCL_DEBUG="TRACE")))

    assert many is not None
    assert many.severity == "watch"
    assert none is not None
    assert none.severity == "info"


def test_a_tool_that_watches_an_idle_program_is_named_and_to_be_ended(program):
    found = debug_leftovers(collect(left_on(program("sleeping"), tracers=("py-spy",))))

    assert found is not None
    assert "py-spy" in found.title
    assert "End the tool" in found.remedies[0].text


def test_a_healthy_program_with_a_switch_left_on_stays_healthy(program):
    diagnosis = judge(left_on(program("transformer_healthy"), NCCL_DEBUG="INFO", PYTHONDEVMODE="1"))

    assert diagnosis.verdict is not None
    assert diagnosis.verdict.rule == "well_used"


def test_a_clean_environment_has_no_leftovers(program):
    assert debug_leftovers(collect(program("tiny_kernels"))) is None


def test_every_switch_says_what_it_does_in_words():
    assert all(what and not what.endswith(".") for _, _, what, _ in SWITCHES)
