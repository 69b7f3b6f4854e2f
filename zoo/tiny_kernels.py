"""
Fifty tiny linear layers at batch 1, one kernel each.

Limit, eager: the host cannot launch as fast as the GPU finishes.
Fix: --graph replays the same kernels from a CUDA graph. Then the limit is the size of the kernels: a few
blocks each, so nearly all SMs are empty; its fix is a larger batch.
"""

from __future__ import annotations

import argparse

import loop


def parser() -> argparse.ArgumentParser:
    p = loop.parser(__doc__)
    p.add_argument("--layers", type=int, default=50)
    p.add_argument("--width", type=int, default=64)
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--graph", action="store_true", help="replay from a CUDA graph")
    return p


def main() -> None:
    args = parser().parse_args()
    import torch

    torch.manual_seed(args.seed)
    model = torch.nn.Sequential(*(torch.nn.Linear(args.width, args.width) for _ in range(args.layers)))
    model = model.to(args.device).eval()
    x = torch.randn(args.batch, args.width, device=args.device)
    with torch.inference_mode():
        step = lambda: model(x)  # noqa: E731 (replaced below)
        if args.graph:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    model(x)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                model(x)
            step = graph.replay
        loop.run(step, args=args, counts={"layers": args.layers})


if __name__ == "__main__":
    main()
