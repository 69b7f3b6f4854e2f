"""
Trains a decoder on texts of 512 to 2560 tokens; each batch is as long as its texts are.

Limit: the tensor cores, as it should be. No two steps need take the same time.
Fix: none needed.
"""

from __future__ import annotations

import argparse
import random

import decoder
import loop


def parser() -> argparse.ArgumentParser:
    p = decoder.parser(__doc__, layers=2, width=4096, batch=4, sequence=2560)
    p.add_argument("--shortest", type=int, default=512)
    return p


def main() -> None:
    args = parser().parse_args()
    training = decoder.build(args)
    rng = random.Random(args.seed)

    def step() -> None:
        tokens = decoder.batch_of(args, sequence=rng.randint(args.shortest, args.sequence))
        training.optimizer.zero_grad(set_to_none=True)
        training.loss(tokens).backward()
        training.optimizer.step()

    loop.run(step, args=args, counts={"batches": 1}, warmup=8)


if __name__ == "__main__":
    main()
