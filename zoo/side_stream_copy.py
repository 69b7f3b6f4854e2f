"""
Copies each batch from pinned memory in a stream of its own, into the one buffer that the products read.

Limit: the copy. It may not begin before the last product is done with the buffer, so nothing overlaps.
Fix: --fixed has two buffers, and copies the next batch while this one is worked on.
"""

from __future__ import annotations

import argparse

import loop


def parser() -> argparse.ArgumentParser:
    p = loop.parser(__doc__)
    p.add_argument("--rows", type=int, default=16384)
    p.add_argument("--width", type=int, default=8192)
    p.add_argument("--products", type=int, default=2, help="per batch")
    p.add_argument("--fixed", action="store_true", help="the fix")
    return p


def main() -> None:
    args = parser().parse_args()
    import torch

    torch.manual_seed(args.seed)
    size = (args.rows, args.width)
    host = torch.randn(size).to(torch.bfloat16).pin_memory()
    buffers = [torch.empty(size, dtype=torch.bfloat16, device=args.device) for _ in range(1 + args.fixed)]
    weight = torch.randn(args.width, args.width, device=args.device, dtype=torch.bfloat16) / args.width**0.5
    compute, copies = torch.cuda.current_stream(), torch.cuda.Stream()
    free = [torch.cuda.Event() for _ in buffers]
    full = [torch.cuda.Event() for _ in buffers]
    count = 0

    def step() -> None:
        nonlocal count
        at, count = count % len(buffers), count + 1
        with torch.cuda.stream(copies):
            copies.wait_event(free[at])
            buffers[at].copy_(host, non_blocking=True)
            full[at].record(copies)
        compute.wait_event(full[at])
        x = buffers[at]
        for _ in range(args.products):
            x = x @ weight
        free[at].record(compute)

    loop.run(step, args=args, counts={"host_to_device_bytes": host.nbytes})


if __name__ == "__main__":
    main()
