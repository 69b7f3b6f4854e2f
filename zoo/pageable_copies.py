"""
Each step copies a large pageable tensor to the GPU, waits for it, and does a little with it.

Limit: the copy, which the driver stages through its own pinned buffer.
Fix: --pinned (pin_memory() once, then non_blocking=True), and overlap it with compute.
"""

from __future__ import annotations

import argparse

import loop


def parser() -> argparse.ArgumentParser:
    p = loop.parser(__doc__)
    p.add_argument("--mib", type=int, default=512, help="size of the tensor in MiB")
    p.add_argument("--pinned", action="store_true", help="the fix")
    return p


def main() -> None:
    args = parser().parse_args()
    import torch

    torch.manual_seed(args.seed)
    host = torch.randn(args.mib << 18)
    if args.pinned:
        host = host.pin_memory()
    weight = torch.randn(1024, 1024, device=args.device)

    def step() -> None:
        x = host.to(args.device, non_blocking=args.pinned)
        torch.mm(x[: 1 << 20].view(1024, 1024), weight).sum()

    loop.run(step, args=args, counts={"host_to_device_bytes": args.mib << 20})


if __name__ == "__main__":
    main()
