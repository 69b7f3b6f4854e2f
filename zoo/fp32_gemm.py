"""
FP32 products with TF32 switched off, as PyTorch has it by default.

Limit: the FP32 pipe; the tensor cores do nothing.
Fix: torch.set_float32_matmul_precision("high"), or autocast to bf16.
"""

from __future__ import annotations

import argparse

import loop


def parser() -> argparse.ArgumentParser:
    p = loop.parser(__doc__)
    p.add_argument("--size", type=int, default=4096, help="rows and columns")
    p.add_argument("--tf32", action="store_true", help="the fix")
    return p


def main() -> None:
    args = parser().parse_args()
    import torch

    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high" if args.tf32 else "highest")
    n = args.size
    a = torch.randn(n, n, device=args.device)
    b = torch.randn(n, n, device=args.device)
    out = torch.empty_like(a)
    loop.run(lambda: torch.mm(a, b, out=out), args=args, counts={"flops": 2 * n**3})


if __name__ == "__main__":
    main()
