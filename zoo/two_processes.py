"""
Two processes of the same program on one GPU.

Limit: the other process. Kernels of two processes do not run side by side: the GPU switches between them.
Fix: --fixed starts one only; give each a GPU, or let NVIDIA's MPS merge them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

import loop


def parser() -> argparse.ArgumentParser:
    p = loop.parser(__doc__)
    p.add_argument("--size", type=int, default=4096, help="rows and columns")
    p.add_argument("--fixed", action="store_true", help="the fix")
    return p


def main() -> None:
    args = parser().parse_args()
    if args.fixed:
        work(args)
        return
    sizes = ["--size", str(args.size), "--device", args.device, "--seconds", str(args.seconds + 2)]
    second = subprocess.Popen([sys.executable, __file__, "--fixed", *sizes], stdout=subprocess.DEVNULL)
    try:
        work(args)
    finally:
        second.terminate()
        second.wait()


def work(args: argparse.Namespace) -> None:
    import torch

    torch.manual_seed(args.seed)
    a = torch.randn(args.size, args.size, device=args.device, dtype=torch.bfloat16)
    b = torch.randn_like(a)
    loop.run(lambda: torch.relu(a @ b), args=args, counts={"flops": 2 * args.size**3})


if __name__ == "__main__":
    main()
