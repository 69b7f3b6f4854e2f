"""
Steps of two phases: one at the memory's roof, then 17 to 33 products, as chance will have it.

Limit: the tensor cores, for three quarters of each step, though steps vary by 15 %.
Fix: none needed.
"""

from __future__ import annotations

import argparse
import random

import loop


def parser() -> argparse.ArgumentParser:
    p = loop.parser(__doc__)
    p.add_argument("--size", type=int, default=6912, help="rows and columns of the products")
    p.add_argument("--mib", type=int, default=1024, help="size of the tensors of the first phase in MiB")
    return p


def main() -> None:
    args = parser().parse_args()
    import torch

    rng = random.Random(args.seed)
    torch.manual_seed(args.seed)
    a = torch.randn(args.size, args.size, device=args.device, dtype=torch.bfloat16)
    b, out = torch.randn_like(a), torch.empty_like(a)
    x = torch.zeros(args.mib << 18, device=args.device)

    def step() -> None:
        for _ in range(16):
            x.add_(1.0)
        for _ in range(rng.randint(17, 33)):
            torch.mm(a, b, out=out)

    loop.run(step, args=args, counts={"products": 25})


if __name__ == "__main__":
    main()
