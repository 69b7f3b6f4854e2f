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
    the findings. `seconds` is the program's steady loop; start-up comes on top. `holder_s`: for
    how long another process holds the performance counters, from before the start (0: not at all).
    """

    name: str
    program: str
    expected: str
    arguments: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    seconds: int = 14
    holder_s: int = 0

    def command(self, *, python: str = sys.executable, zoo: Path | None = ZOO) -> list[str]:
        """The program as perfzero launches it; *zoo* None leaves the path relative to the project."""
        path = str((Path("zoo") if zoo is None else zoo) / self.program)
        return [python, path, "--seconds", str(self.seconds), *self.arguments]


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
)


def choose(names: Sequence[str] | None) -> tuple[Case, ...]:
    """The cases called *names*, in the table's order; all for None. Raises `ValueError` for a wrong name."""
    if names is None:
        return CASES
    wrong = sorted(set(names) - {case.name for case in CASES})
    if wrong:
        known = ", ".join(case.name for case in CASES)
        raise ValueError(f"no such case: {', '.join(wrong)}. There are: {known}")
    return tuple(case for case in CASES if case.name in names)
