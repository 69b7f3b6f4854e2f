"""
Inference through a deep network that looks for overflow after each layer.

Limit: host and GPU in turns. Each `.item()` waits for the GPU, which then has nothing queued.
Fix: --fixed keeps the sums on the GPU and looks once, at the end.
"""

from __future__ import annotations

import argparse
import math

import loop


def parser() -> argparse.ArgumentParser:
    p = loop.parser(__doc__)
    p.add_argument("--layers", type=int, default=20)
    p.add_argument("--width", type=int, default=2048)
    p.add_argument("--batch", type=int, default=8192)
    p.add_argument("--fixed", action="store_true", help="the fix")
    return p


def main() -> None:
    args = parser().parse_args()
    import torch
    from torch.nn import functional

    torch.manual_seed(args.seed)
    with torch.device(args.device):
        layers = [torch.nn.Linear(args.width, args.width).to(torch.bfloat16) for _ in range(args.layers)]
        x = torch.randn(args.batch, args.width, dtype=torch.bfloat16)

    def eager_check() -> None:
        y = x
        for number, layer in enumerate(layers):
            y = functional.gelu(layer(y))
            if not math.isfinite(y.sum().item()):
                raise OverflowError(f"layer {number}")

    def late_check() -> None:
        y, sums = x, []
        for layer in layers:
            y = functional.gelu(layer(y))
            sums.append(y.sum())
        if not math.isfinite(torch.stack(sums).sum().item()):
            raise OverflowError("some layer")

    step = late_check if args.fixed else eager_check
    flops = 2 * args.layers * args.batch * args.width**2
    with torch.inference_mode():
        loop.run(step, args=args, counts={"layers": args.layers, "flops": flops})


if __name__ == "__main__":
    main()
