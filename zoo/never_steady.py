"""
Tries one network after another: each trial trains one of another size, on data that a simulator delivers.

Limit: the simulator, in another way in each trial. No second is like the one before.
Fix: none; such a program has no one limit.
"""

from __future__ import annotations

import argparse
import random
import time

import loop


def parser() -> argparse.ArgumentParser:
    p = loop.parser(__doc__)
    p.add_argument("--widest", type=int, default=8192)
    p.add_argument("--trial", type=float, nargs=2, default=(0.7, 2.5), help="seconds a trial takes")
    p.add_argument("--wait", type=float, nargs=2, default=(0.004, 0.080), help="seconds the simulator takes")
    return p


def main() -> None:
    args = parser().parse_args()
    import torch

    torch.manual_seed(args.seed)
    rng = random.Random(args.seed)
    weight = torch.randn(args.widest, args.widest, device=args.device, dtype=torch.bfloat16)
    width, wait, until = args.widest, args.wait[0], 0.0

    def step() -> None:
        nonlocal width, wait, until
        if time.monotonic() >= until:
            until = time.monotonic() + rng.uniform(*args.trial)
            width = rng.choice([1, 2, 4]) * args.widest // 4
            wait = rng.uniform(*args.wait)
        time.sleep(wait * rng.uniform(0.8, 1.2))
        x = torch.randn(args.widest, width, device=args.device, dtype=torch.bfloat16)
        for _ in range(6):
            x = torch.nn.functional.relu(weight[:width] @ x[:, :width])
            x = x.repeat(args.widest // width, 1) if width < args.widest else x

    loop.run(step, args=args, counts={})


if __name__ == "__main__":
    main()
