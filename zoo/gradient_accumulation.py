"""
Trains a decoder with gradients summed over eight batches before each step of the optimizer.

Limit: the tensor cores, as it should be. A step is eight times the same work and then an update.
Fix: none needed.
"""

from __future__ import annotations

import argparse

import decoder
import loop


def parser() -> argparse.ArgumentParser:
    p = decoder.parser(__doc__, layers=2, width=4096, batch=2, sequence=2048)
    p.add_argument("--accumulate", type=int, default=8, help="batches per step of the optimizer")
    return p


def main() -> None:
    args = parser().parse_args()
    training = decoder.build(args)
    batches = [decoder.batch_of(args) for _ in range(args.accumulate)]

    def step() -> None:
        training.optimizer.zero_grad(set_to_none=True)
        for tokens in batches:
            (training.loss(tokens) / args.accumulate).backward()
        training.optimizer.step()

    loop.run(step, args=args, counts={"batches": args.accumulate}, warmup=2)


if __name__ == "__main__":
    main()
