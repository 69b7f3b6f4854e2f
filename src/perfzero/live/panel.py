"""What the panel below the live figures says: help, what a close look costs, how far it is, its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perfzero.live.close_look import LOOK_S, SET_UP_S, Looked
from perfzero.live.snapshot import GpuNow
from perfzero.text import printable

IDLE_SHARE = 0.005
"""A GPU that worked less than this in the last minute has nothing that could be looked at."""

HELP = (
    "up, down, Tab  choose a GPU       c  look at it closely, for a verdict",
    "s              sort processes     p  pause: nothing is read meanwhile",
    "PgUp, PgDn     scroll             w  write the screen into a file",
    "?              this               q  end",
    "",
    "SMs busy: a warp was resident; stalled ones count. tensor cores: share of their cycles. DRAM, PCIe and "
    "NVLink: share of what this GPU reaches in practice. nvidia-smi: some kernel was running, however little "
    "of the GPU it used.",
    "last 60 s: where the time went, by what was used most. GPM averages over many kernels, so this is "
    "rougher than a close look.",
)


def before(gpu: GpuNow) -> list[str]:
    """What a close look at *gpu* costs, before it is begun."""
    told = [
        f"A close look samples the hardware counters of GPU {gpu.gpu.index} for {LOOK_S:.0f} s, "
        f"some {LOOK_S + SET_UP_S:.0f} s in all, and ends with a verdict.",
        "It holds up the programs there for about 10 ms, once; one at the power cap is 1 % slower meanwhile.",
        "No other tool can sample that GPU until it is over: Nsight, DCGM's profiling fields, or another "
        "perfzero.",
    ]
    if gpu.shares.get("idle", 0.0) > 1 - IDLE_SHARE:
        told.append("It has had no work in the last minute, so there is little to see.")
    return [*told, "", "Enter  look now        Esc  not now"]


def during(index: int, *, elapsed_s: float, takes_s: float, judging: bool) -> list[str]:
    """How far it is."""
    if judging:
        return [f"Judging what was seen of GPU {index}."]
    left = max(0.0, takes_s - elapsed_s)
    when = f"{left:.0f} s more" if left >= 0.5 else "closing the device"
    return [
        f"Sampling the hardware counters of GPU {index}: {when}.",
        "",
        "Esc  end it and give the device back",
    ]


def without_verdict(looked: Looked) -> list[str]:
    """Why there is no verdict, and what would give one."""
    first = {
        "busy": "Another tool holds the hardware counters of this GPU; only one can have them at a time.",
        "refused": "The hardware counters cannot be read here.",
        "failed": "The look did not succeed.",
        "recorded": "",
    }[looked.ending]
    after = {
        "busy": "Nothing was disturbed. Try again when it has ended; who it may be: perfzero doctor",
        "refused": "What unlocks them: perfzero doctor",
        "failed": "",
        "recorded": "",
    }[looked.ending]
    return [line for line in (first, *looked.words.splitlines(), after) if line]


def verdict(report: str, folder: Path) -> list[str]:
    """The report in *report*, and where the recording lies."""
    lines = report.strip("\n").splitlines()
    return [*lines, "", f"  The recording: perfzero analyze {printable(str(folder))}"]


def wrapped(lines: Sequence[str], width: int) -> list[str]:
    """*lines* broken where they are longer than *width*, at a space if there is one."""
    import textwrap

    out: list[str] = []
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()))
        out += textwrap.wrap(line, width, subsequent_indent=indent, drop_whitespace=True) or [""]
    return out
