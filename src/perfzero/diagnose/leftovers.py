"""
What was left on after a search for a bug: variables of the program's environment, tools that watch it.

Only what the program was started with is seen: variables that it sets for itself after its start do
not reach /proc. Switches inside the program, such as autograd's anomaly detection, cannot be seen
from outside at all.

Sources: CUDA C++ Programming Guide, "CUDA Environment Variables" (CUDA_LAUNCH_BLOCKING,
CUDA_DEVICE_WAITS_ON_EXCEPTION, CUDA_CACHE_DISABLE); c10/cuda/CUDACachingAllocator.cpp of PyTorch (any
value of PYTORCH_NO_CUDA_MEMORY_CACHING counts, "0" too); PyTorch's pages on distributed, logging and
torch.compile; NCCL's user guide; cuBLAS, "NVIDIA_TF32_OVERRIDE"; the CPython manual, "Environment
variables"; JAX's pages on configuration.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from perfzero.values import Process
from perfzero.words.said import say

Slows = Literal["launches", "host", "fp32", "collectives", "start"]
"""What a leftover slows: each launch, the host at large, FP32 products, collectives; or the start at most."""

LAUNCH_BLOCKING = "CUDA_LAUNCH_BLOCKING"
TF32_OVERRIDE = "NVIDIA_TF32_OVERRIDE"


@dataclass(frozen=True, slots=True)
class Leftover:
    """One of them: its `name` as the user knows it, `what` it does, and what that slows."""

    name: str
    what: str
    slows: Slows


def on(value: str) -> bool:
    """Any value but those that mean no."""
    return value.strip().lower() not in ("", "0", "false", "off", "no", "n")


def off(value: str) -> bool:
    """Zero, for switches whose harm is in being off."""
    return value.strip() == "0"


def given(_: str) -> bool:
    """Any value at all, the empty one included."""
    return True


def one_of(*values: str) -> Callable[[str], bool]:
    """One of *values*, in capitals or not."""
    return lambda value: value.strip().upper() in values


def holding(pattern: str) -> Callable[[str], bool]:
    """A value in which *pattern* is found."""
    return lambda value: re.search(pattern, value) is not None


SWITCHES: tuple[tuple[str, Callable[[str], bool], str, Slows], ...] = (
    (LAUNCH_BLOCKING, on, say("leftover.launches"), "launches"),
    (
        "PYTORCH_NO_CUDA_MEMORY_CACHING",
        given,
        say("leftover.no_caching"),
        "host",
    ),
    ("NCCL_BLOCKING_WAIT", on, say("leftover.collectives"), "collectives"),
    ("TORCH_NCCL_BLOCKING_WAIT", on, say("leftover.collectives"), "collectives"),
    (
        "TORCH_DISTRIBUTED_DEBUG",
        one_of("DETAIL"),
        say("leftover.checked"),
        "collectives",
    ),
    ("NCCL_DEBUG", one_of("TRACE"), say("leftover.nccl_trace"), "collectives"),
    (TF32_OVERRIDE, off, say("leftover.no_tf32"), "fp32"),
    ("PYTHONDEVMODE", on, say("leftover.dev_mode"), "host"),
    ("PYTHONMALLOC", holding("debug$"), say("leftover.malloc"), "host"),
    ("PYTHONASYNCIODEBUG", on, say("leftover.asyncio"), "host"),
    ("PYTHONTRACEMALLOC", on, say("leftover.tracemalloc"), "host"),
    ("TORCH_LOGS", on, say("leftover.torch_logs"), "start"),
    ("TORCH_COMPILE_DEBUG", on, say("leftover.compile_debug"), "start"),
    ("TORCHDYNAMO_DISABLE", on, say("leftover.no_dynamo"), "start"),
    ("PYTORCH_JIT", off, say("leftover.no_jit"), "host"),
    ("JAX_DISABLE_JIT", on, say("leftover.jax_no_jit"), "host"),
    ("JAX_DEBUG_NANS", on, say("leftover.jax_nans"), "host"),
    ("XLA_FLAGS", holding("--xla_dump_to"), say("leftover.xla_dump"), "start"),
    ("CUDA_CACHE_DISABLE", on, say("leftover.no_cache"), "start"),
    ("CUDA_DEVICE_WAITS_ON_EXCEPTION", on, say("leftover.waits_on_fault"), "start"),
    ("NCCL_DEBUG", one_of("INFO"), say("leftover.nccl_info"), "start"),
    ("CUDA_INJECTION64_PATH", on, say("leftover.injected"), "host"),
    ("NVTX_INJECTION64_PATH", on, say("leftover.nvtx"), "host"),
    ("NSYS_PROFILING_SESSION_ID", on, say("leftover.nsys"), "host"),
    (
        "LD_PRELOAD",
        holding(r"lib(?:a|t|l|m|ub)san|vgpreload"),
        say("leftover.sanitizer"),
        "host",
    ),
)
"""Variable, the values that count, what they do, and what that slows."""


def leftovers(process: Process) -> tuple[Leftover, ...]:
    """What was left on in *process* or beside it, in the order of the table; the tools last."""
    found = [
        # The value is a path or long in some; it is short and tells something in the others.
        Leftover(f"{name}={value}" if len(value) <= SHORT and "/" not in value else name, what, slows)
        for name, counts, what, slows in SWITCHES
        if (value := process.threads_env.get(name)) is not None and counts(value)
    ]
    return (*found, *(Leftover(tool, say("leftover.watched"), "host") for tool in process.tracers))


SHORT = 16
"""Letters of a value that are shown: the longest of those that matter is "malloc_debug"."""


def launch_blocking(process: Process) -> bool:
    """Whether every launch of *process* waits for its kernel."""
    return on(process.threads_env.get(LAUNCH_BLOCKING, "0"))


def tf32_forbidden(process: Process) -> bool:
    """Whether *process* cannot use TF32 whatever it allows."""
    return off(process.threads_env.get(TF32_OVERRIDE, ""))
