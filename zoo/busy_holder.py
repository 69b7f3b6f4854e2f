"""
Holds the performance counters of a GPU for some seconds, as another profiler on the machine would.

No workload: it exists to see what perfzero does when the counters are taken. It prints "holding" once it
has them, "free" when it gives them back.
"""

from __future__ import annotations

import argparse
import sys
import time


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--seconds", type=float, default=10.0)
    p.add_argument("--gpu", type=int, default=0, help="NVML index")
    return p


def main() -> None:
    args = parser().parse_args()
    raise SystemExit(hold(args.gpu, args.seconds))


def hold(gpu: int, seconds: float) -> int:
    """Keep a PM sampling session open, sampling nothing. Returns an exit code."""
    from perfzero.errors import PerfzeroError
    from perfzero.sources._nvml import select
    from perfzero.sources.cupti import CuptiDevice, PmSampler

    try:
        [chosen] = select([str(gpu)])
        sampler = PmSampler(CuptiDevice(chosen.uuid))
        sampler.open(period_ns=1_000_000, drain_s=0.5)
    except PerfzeroError as error:
        print(f"cannot hold the counters: {error}", file=sys.stderr)
        return error.exit_code
    try:
        print("holding", flush=True)
        time.sleep(seconds)
    finally:
        sampler.close()
    print("free", flush=True)
    return 0


if __name__ == "__main__":
    main()
