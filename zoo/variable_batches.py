"""
Trains a decoder on texts of 512 to 2560 tokens; each batch is as long as its texts are.

Limit: the host, which plans the attention anew for each length it has not seen yet.
Fix: --fixed rounds lengths up to eighths of the longest, so that few plans serve all. Then the tensor cores
are the limit, as they should be, and still no two steps need take the same time.
"""

from __future__ import annotations

import argparse
import random

import decoder
import loop


def parser() -> argparse.ArgumentParser:
    p = decoder.parser(__doc__, layers=2, width=4096, batch=4, sequence=2560)
    p.add_argument("--shortest", type=int, default=512)
    p.add_argument("--fixed", action="store_true", help="the fix")
    return p


def main() -> None:
    args = parser().parse_args()
    training = decoder.build(args)
    rng = random.Random(args.seed)
    grain = args.sequence // 8 if args.fixed else 1

    def step() -> None:
        length = rng.randint(args.shortest, args.sequence)
        tokens = decoder.batch_of(args, sequence=-(-length // grain) * grain)
        training.optimizer.zero_grad(set_to_none=True)
        training.loss(tokens).backward()
        training.optimizer.step()

    loop.run(step, args=args, counts={"batches": 1}, warmup=24)


if __name__ == "__main__":
    main()
