"""
Trains a small decoder and writes its weights to a file every 64 steps.

Limit: the checkpoint. It takes most of a second every two or three, and meanwhile the GPU has nothing to do.
Fix: --fixed copies the weights to pinned memory and lets a thread write them.
"""

from __future__ import annotations

import argparse
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor

import decoder
import loop


def parser() -> argparse.ArgumentParser:
    p = decoder.parser(__doc__, layers=4, width=2048, batch=8, sequence=1024)
    p.add_argument("--every", type=int, default=64, help="steps between two checkpoints")
    p.add_argument("--fixed", action="store_true", help="the fix")
    return p


def main() -> None:
    args = parser().parse_args()
    import torch

    training = decoder.build(args)
    tokens = decoder.batch_of(args)
    file = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the program)
    writer, writing = ThreadPoolExecutor(1), Future[None]()
    writing.set_result(None)
    held: dict[str, torch.Tensor] = {}
    if args.fixed:
        for name, value in training.model.state_dict().items():
            held[name] = torch.empty_like(value, device="cpu", pin_memory=args.device == "cuda")
    count = 0

    def write(state: dict[str, torch.Tensor]) -> None:
        file.seek(0)
        torch.save(state, file)

    def checkpoint() -> None:
        nonlocal writing
        state = training.model.state_dict()
        if args.fixed:
            writing.result()
            for name, value in state.items():
                held[name].copy_(value)
            writing = writer.submit(write, held)
        else:
            write(state)

    def step() -> None:
        nonlocal count
        count += 1
        training.optimizer.zero_grad(set_to_none=True)
        training.loss(tokens).backward()
        training.optimizer.step()
        if count % args.every == 0:
            checkpoint()

    loop.run(step, args=args, counts={"checkpoints": 1 / args.every})


if __name__ == "__main__":
    main()
