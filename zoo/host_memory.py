"""
Sums an array that stays in pinned host memory: the kernels read it over PCIe.

Limit: the link. The kernels run all the time, so the GPU reads as fully used, and they wait for every byte.
Fix: --fixed copies the array to the GPU once, where it is read many times.
"""

from __future__ import annotations

import argparse

import loop


def parser() -> argparse.ArgumentParser:
    p = loop.parser(__doc__)
    p.add_argument("--mib", type=int, default=512, help="size of the array in MiB")
    p.add_argument("--fixed", action="store_true", help="the fix")
    return p


def main() -> None:
    args = parser().parse_args()
    import cupy
    import torch

    torch.manual_seed(args.seed)
    host = torch.randn(args.mib << 18).pin_memory()
    if args.fixed:
        array = cupy.asarray(host.numpy())
    else:
        memory = cupy.cuda.UnownedMemory(host.data_ptr(), host.nbytes, owner=host, device_id=0)
        array = cupy.ndarray(tuple(host.shape), cupy.float32, cupy.cuda.MemoryPointer(memory, 0))
    loop.run(lambda: array.sum(), args=args, counts={"bytes": host.nbytes})


if __name__ == "__main__":
    main()
