"""
Asks of each of 67 million counts how likely one that small is, given its expected rate.

Limit: the FP64 pipe. The counts were divided in NumPy, so they are float64, and everything that they meet
becomes float64 too, although the rates are float32.
Fix: --fixed converts the counts once.
"""

from __future__ import annotations

import argparse

import loop


def parser() -> argparse.ArgumentParser:
    p = loop.parser(__doc__)
    p.add_argument("--cells", type=int, default=16384)
    p.add_argument("--genes", type=int, default=4096)
    p.add_argument("--fixed", action="store_true", help="the fix")
    return p


def main() -> None:
    args = parser().parse_args()
    import numpy as np
    import torch

    rng = np.random.default_rng(args.seed)
    depth = rng.integers(1, 9, (args.cells, 1))
    sample = rng.integers(0, 40, (args.cells, args.genes), dtype=np.int16) / depth
    counts = torch.from_numpy(sample).to(args.device)
    if args.fixed:
        counts = counts.float()
    rates = 1 + 9 * torch.rand(args.genes, device=args.device)

    def step() -> torch.Tensor:
        likelihood = torch.special.gammaincc(counts + 1, rates)
        return (likelihood < 0.01).sum(dim=0)

    with torch.inference_mode():
        loop.run(step, args=args, counts={"counts": args.cells * args.genes})


if __name__ == "__main__":
    main()
