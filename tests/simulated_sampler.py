"""A sampler process on a simulated device: the real protocol, the real pipe, no GPU."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

TESTS = str(Path(__file__).resolve().parent)


def simulated(setup: str = "") -> list[str]:
    """A sampler that runs in real time on a simulated device."""
    code = textwrap.dedent(
        f"""
        import os, sys, time
        sys.path.insert(0, {TESTS!r})
        import simulated
        class RealClock(simulated.Clock):
            def __call__(self): return time.time_ns()
            now_ns = property(lambda self: time.time_ns(), lambda self, value: None)
        from perfzero.record.messages import say
        from perfzero.record.sampler import Sampler, serve
        from perfzero.sources.cupti import PmSampler
        device = simulated.SimulatedDevice(RealClock())
        {setup}
        out = os.fdopen(os.dup(1), "wb")
        say(out, "ready", chip=device.chip, library_version=1, library_path="", sm_count=1, l2_bytes=1)
        sampler = Sampler(PmSampler(device), 0, out)
        serve(sampler, 0)
        sampler.close()
        say(out, "bye", cpu_s=time.process_time())
        """
    )
    return [sys.executable, "-c", code]
