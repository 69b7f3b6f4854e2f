"""
The cases of the zoo: which program, with which options of perfzero, must get which verdict.

The table drives tools/make_recordings.py on a GPU; tests/recordings/expected.json repeats the verdicts
for the recordings kept, and a test holds the two against each other.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ZOO = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Case:
    """
    One program with a known cause of slowness.

    `expected` is the id of the rule that gives the verdict; `also` are further rules that must be among
    the findings, `absent` are some that must not. `steps` False: the program has no step time, so
    none may be claimed; else one that is claimed must be the program's own. `seconds` is the program's
    steady loop; start-up comes on top. `before` is what starts the program (env, timeout ...), and
    `exit_code` how it then ends, as a shell says it. `holder_s`: for how long another process holds the
    performance counters, from before the start (0: not at all).
    """

    name: str
    program: str
    expected: str
    arguments: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    steps: bool = True
    options: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    seconds: int = 14
    exit_code: int = 0
    holder_s: int = 0

    def command(self, *, python: str = sys.executable, zoo: Path | None = ZOO) -> list[str]:
        """The program as perfzero launches it; *zoo* None leaves the path relative to the project."""
        folder = Path("zoo") if zoo is None else zoo
        words = [*self.before, "python", f"zoo/{self.program}"]
        place = {"python": python, **{w: str(folder / w[4:]) for w in words if w.startswith("zoo/")}}
        return [*(place.get(w, w) for w in words), "--seconds", str(self.seconds), *self.arguments]


CASES: tuple[Case, ...] = (
    Case("bf16_gemm_capped", "bf16_gemm.py", "well_used", also=("power_capped",)),
    Case("fp32_gemm", "fp32_gemm.py", "fp32_path"),
    Case("tiny_kernels", "tiny_kernels.py", "launch_bound"),
    Case("tiny_kernels_graph", "tiny_kernels.py", "small_grid", ("--graph",)),
    Case("input_starved_resnet50", "input_starved.py", "input_starved", seconds=18),
    Case("pageable_copies", "pageable_copies.py", "pageable_copies"),
    Case("elementwise_chain", "elementwise_chain.py", "memory_bound"),
    Case("resnet50_nchw", "resnet50.py", "tensor_starved", seconds=16),
    Case("resnet50_channels_last", "resnet50.py", "memory_bound", ("--channels-last",), seconds=16),
    Case("transformer_healthy", "transformer.py", "well_used", seconds=16),
    Case("gpm_only", "fp32_gemm.py", "fp32_path", options=("--source", "gpm"), seconds=16),
    Case("busy_window", "elementwise_chain.py", "memory_bound", seconds=24, holder_s=18),
    Case("fp64_accident", "fp64_accident.py", "fp64_path"),
    Case("item_every_layer", "item_every_layer.py", "sync_bound"),
    # A wait for an event of another stream shows as a wait for the copy that the event stands for.
    Case("side_stream_copy", "side_stream_copy.py", "transfer_bound"),
    Case("checkpoint_stall", "checkpoint_stall.py", "periodic_stall", seconds=16),
    # Two phases that alternate are no stall, and none of them is idle.
    Case(
        "evaluation_every_n", "evaluation_every_n.py", "well_used",
        absent=("periodic_stall", "host_starved", "input_starved"), seconds=16,
    ),
    Case("gradient_accumulation", "gradient_accumulation.py", "well_used", absent=("periodic_stall",)),
    Case("variable_batches", "variable_batches.py", "host_starved", steps=False),
    Case("variable_batches_rounded", "variable_batches.py", "well_used", ("--fixed",), steps=False),
    Case("jittered", "jittered.py", "well_used"),
    Case("two_processes", "two_processes.py", "gpu_shared"),
    Case("decode", "decode.py", "memory_bound", absent=("launch_bound",), seconds=12),
    Case(
        "decode_eager", "decode.py", "launch_bound", ("--eager", "--width", "512", "--layers", "24"),
        seconds=12,
    ),
    Case("optimizer_unfused", "optimizer_unfused.py", "launch_bound", seconds=12),
    # How long the host keeps the GPU waiting changes every second or two, and does not come back.
    Case("never_steady", "never_steady.py", "host_starved", steps=False, seconds=16),
    Case(
        "cpu_quota", "input_starved.py", "host_starved", ("--workers", "8", "--batch", "32"),
        before=("python", "zoo/quota.py", "--cpus", "2", "--"),
    ),
    # Killed in the middle of its loop: what was recorded until then is judged.
    Case(
        "killed", "transformer.py", "well_used", before=("timeout", "--signal=KILL", "18"), seconds=22,
        exit_code=137,
    ),
    Case(
        "launch_blocking", "transformer.py", "debug_leftovers",
        ("--width", "1024", "--heads", "8", "--layers", "8", "--sequence", "1024"),
        before=("env", "CUDA_LAUNCH_BLOCKING=1"), seconds=12,
    ),
    # From outside the checks are waits for the GPU; what switched them on cannot be seen.
    Case("anomaly_mode", "anomaly_mode.py", "sync_bound", seconds=12),
    Case("write_heavy", "write_heavy.py", "memory_bound", seconds=12),
    Case("host_memory", "host_memory.py", "transfer_bound", seconds=12),
)  # fmt: skip
"""
In the order in which they are run. Every expectation was written down before the first run of its program;
some name rules that are still to come.
"""


def part(number: int, of: int) -> tuple[Case, ...]:
    """The *number*-th (from 1) of *of* parts of the table, in order and of nearly as many cases each."""
    if not 1 <= number <= of:
        raise ValueError(f"there is no part {number} of {of}")
    return CASES[(number - 1) * len(CASES) // of : number * len(CASES) // of]


def choose(names: Sequence[str] | None) -> tuple[Case, ...]:
    """The cases called *names*, in the table's order; all for None. Raises `ValueError` for a wrong name."""
    if names is None:
        return CASES
    wrong = sorted(set(names) - {case.name for case in CASES})
    if wrong:
        known = ", ".join(case.name for case in CASES)
        raise ValueError(f"no such case: {', '.join(wrong)}. There are: {known}")
    return tuple(case for case in CASES if case.name in names)
