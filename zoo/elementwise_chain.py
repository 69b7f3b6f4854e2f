"""
A chain of unfused elementwise operations on tensors of 1 GiB.

Limit: device memory; every operation reads and writes everything again.
Fix: --compile fuses the chain into one kernel.
"""

from __future__ import annotations

import argparse

import loop


def parser() -> argparse.ArgumentParser:
    p = loop.parser(__doc__)
    p.add_argument("--mib", type=int, default=1024, help="size of each tensor in MiB")
    p.add_argument("--compile", action="store_true", help="the fix")
    return p


def main() -> None:
    args = parser().parse_args()
    import torch

    torch.manual_seed(args.seed)
    x = torch.randn(args.mib << 18, device=args.device)
    b = torch.randn_like(x)

    def chain(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        y = x * 1.5
        y = y + b
        y = torch.relu(y)
        y = y * x
        return y - 0.5

    step = torch.compile(chain) if args.compile else chain
    # reads: x; y, b; y; y, x; y. Writes: one per operation.
    moved = None if args.compile else (7 + 5) * (args.mib << 20)
    with torch.inference_mode():
        loop.run(lambda: step(x, b), args=args, counts={"bytes": moved})


if __name__ == "__main__":
    main()
