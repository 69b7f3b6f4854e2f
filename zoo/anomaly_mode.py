"""
Trains a small decoder with autograd's anomaly detection still switched on from a search for a NaN.

Limit: host and GPU in turns. Every backward operation is checked, and every check waits for the GPU.
Fix: --fixed leaves it off.
"""

from __future__ import annotations

import argparse

import decoder
import loop


def parser() -> argparse.ArgumentParser:
    p = decoder.parser(__doc__, layers=8, width=1024, batch=8, sequence=1024)
    p.add_argument("--fixed", action="store_true", help="the fix")
    return p


def main() -> None:
    args = parser().parse_args()
    import torch

    torch.autograd.set_detect_anomaly(not args.fixed)
    training = decoder.build(args)
    tokens = decoder.batch_of(args)

    def step() -> None:
        training.optimizer.zero_grad(set_to_none=True)
        training.loss(tokens).backward()
        training.optimizer.step()

    loop.run(step, args=args, counts={"tokens": args.batch * args.sequence})


if __name__ == "__main__":
    main()
