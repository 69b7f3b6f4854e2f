"""
One large bf16 product after another, on random data.

Limit: the tensor cores, at the power cap of the board (random bits cost more power than zeros).
Fix: none needed; fp8, or a higher power limit.
"""

from __future__ import annotations

import argparse

import loop


def parser() -> argparse.ArgumentParser:
    p = loop.parser(__doc__)
    p.add_argument("--size", type=int, default=8192, help="rows and columns")
    return p


def main() -> None:
    args = parser().parse_args()
    import torch

    torch.manual_seed(args.seed)
    n = args.size
    a = torch.randn(n, n, device=args.device, dtype=torch.bfloat16)
    b = torch.randn(n, n, device=args.device, dtype=torch.bfloat16)
    out = torch.empty_like(a)
    loop.run(lambda: torch.mm(a, b, out=out), args=args, counts={"flops": 2 * n**3})


if __name__ == "__main__":
    main()
