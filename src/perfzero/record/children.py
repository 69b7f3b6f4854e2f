"""
The processes that the recorder starts beside itself, sampler and judge: what they get, and how they behave.

They keep out of the observed program's way: no thread per core, and never in the middle of its time slice.
"""

from __future__ import annotations

import contextlib
import os


def plain_environment() -> dict[str, str]:
    """Our environment without what would hide the device from the sampler or load code into it."""
    hide = ("CUDA_VISIBLE_DEVICES", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "LD_PRELOAD")
    environment = {k: v for k, v in os.environ.items() if k not in hide}
    # NumPy's BLAS would start a thread per core, for arithmetic that never comes.
    return {
        **environment,
        **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    }


def stay_behind() -> None:
    """
    Never interrupt a program that is running: wait for the end of its time slice.

    This puts no limit on our share of a processor. Who needs much of one lowers its priority besides, as
    the judge does; the sampler must not, or it would empty its buffer too late.
    """
    with contextlib.suppress(OSError):  # a sandbox may forbid it
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
