"""
Clears 32 buffers of 256 MiB in every step and hardly reads them.

Limit: device memory, by writes alone.
Fix: do not clear what is overwritten anyway: optimizer.zero_grad(set_to_none=True), torch.empty.
"""

from __future__ import annotations

import argparse

import loop


def parser() -> argparse.ArgumentParser:
    p = loop.parser(__doc__)
    p.add_argument("--mib", type=int, default=256, help="size of each buffer in MiB")
    p.add_argument("--buffers", type=int, default=32)
    return p


def main() -> None:
    args = parser().parse_args()
    import torch

    buffers = [torch.empty(args.mib << 18, device=args.device) for _ in range(args.buffers)]

    def step() -> None:
        for buffer in buffers:
            buffer.fill_(1.0)

    loop.run(step, args=args, counts={"bytes": args.buffers * (args.mib << 20)})


if __name__ == "__main__":
    main()
