"""
What a GPU can do at most while a look lasts: the roofs that its kernels are held against.

The same as the diagnosis takes: peaks computed from the clock that was measured meanwhile, times the share of
them that is reached in practice, and the device memory's practical bandwidth; measured ones (`perfzero
calibrate`) go before those of the table.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np

from perfzero import hardware
from perfzero.attribute.roofline import Ceilings
from perfzero.diagnose.roofs import roofs_of
from perfzero.limits import CHOICE, Limit
from perfzero.values import FloatArray, Look, Observation

WORKING: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""GR activity of a sample; a clock that falls while the GPU rests is not the one that kernels run at."""


def ceilings(seen: Observation, look: Look) -> Ceilings:
    """The roofs of the GPU of *seen* during *look*; NaN where it does not say enough about itself."""
    roofs, clock_hz = roofs_of(seen.gpu, seen.board), _clock_hz(seen, look)
    shares = {d: roofs.tensor if d in hardware.TENSOR_DTYPES else roofs.fma for d in hardware.DTYPES}
    flops: dict[str, float] = {
        d: hardware.peak_flops(seen.gpu, d, clock_hz) * share for d, share in shares.items()
    }
    return Ceilings(flops, roofs.dram)


def _clock_hz(seen: Observation, look: Look) -> float:
    """
    The SMs' clock: in the samples beside the look; else while the GPU worked before and after, as it does in
    a program that goes on as it did; else as NVML reported it last before.
    """
    clock = _median(seen.close_up.column("gpc_clock"))
    if math.isnan(clock):
        clock = _median(seen.pm.column("gpc_clock")[seen.pm.column("gr_active") >= WORKING])
    if math.isnan(clock):
        before = seen.board.column("sm_clock")[seen.board.end_ns <= look.end_ns]
        clock = _median(before[np.isfinite(before)][-1:])
    return clock


def _median(values: FloatArray) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else math.nan
