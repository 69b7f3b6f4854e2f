"""
Learns from a buffer that grows: each turn adds what a simulation gave, then trains on all of it once.

Limit: at first the simulation on the host, later the training. No second is like the one before.
Fix: none; such a program has no one limit.
"""

from __future__ import annotations

import argparse
import random

import loop


def parser() -> argparse.ArgumentParser:
    p = loop.parser(__doc__)
    p.add_argument("--width", type=int, default=1024)
    p.add_argument("--rows", type=int, default=256, help="added per turn")
    p.add_argument("--batch", type=int, default=4096, help="rows per step of training")
    p.add_argument("--simulate", type=int, default=40_000, help="moves of the simulation per turn")
    return p


def main() -> None:
    args = parser().parse_args()
    import torch
    from torch import nn

    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    rng = random.Random(args.seed)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(args.width, args.width), nn.ReLU()) for _ in range(3)))
    model = model.to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    buffer = torch.empty(0, args.width, device=args.device)

    def simulate() -> torch.Tensor:
        """A random walk; its end seeds the new rows."""
        place = 0
        for _ in range(args.simulate):
            place += 1 if rng.random() < 0.5 else -1
        return torch.randn(args.rows, args.width, device=args.device) + place / args.simulate

    def step() -> None:
        nonlocal buffer
        buffer = torch.cat([buffer, simulate()])
        for rows in buffer.split(args.batch):
            optimizer.zero_grad(set_to_none=True)
            (model(rows) - rows).square().mean().backward()
            optimizer.step()

    loop.run(step, args=args, counts={"rows": args.rows})


if __name__ == "__main__":
    main()
