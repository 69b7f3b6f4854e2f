"""
Trains a decoder and evaluates it every 40 steps.

Limit: the tensor cores, in training as in evaluation. The program has two phases, and both are work.
Fix: none needed.
"""

from __future__ import annotations

import argparse

import decoder
import loop


def parser() -> argparse.ArgumentParser:
    p = decoder.parser(__doc__, layers=2, width=4096, batch=2, sequence=2048)
    p.add_argument("--every", type=int, default=40, help="training steps between two evaluations")
    p.add_argument("--evaluation", type=int, default=30, help="batches of one evaluation")
    return p


def main() -> None:
    args = parser().parse_args()
    import torch

    training = decoder.build(args)
    tokens, unseen = decoder.batch_of(args), decoder.batch_of(args)
    count = 0

    @torch.inference_mode()
    def evaluate() -> torch.Tensor:
        return torch.stack([training.loss(unseen) for _ in range(args.evaluation)]).mean()

    def step() -> None:
        nonlocal count
        count += 1
        training.optimizer.zero_grad(set_to_none=True)
        training.loss(tokens).backward()
        training.optimizer.step()
        if count % args.every == 0:
            evaluate()

    loop.run(step, args=args, counts={"evaluations": 1 / args.every})


if __name__ == "__main__":
    main()
