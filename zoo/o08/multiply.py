import argparse
import os
import time

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
import triton
import triton.language as tl


@triton.jit
def multiply(a, b, c, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr):
    program = tl.program_id(0)
    across = tl.cdiv(n, COLUMNS)
    group, inside = program // (GROUP * across), program % (GROUP * across)
    rows = (group * GROUP + inside % GROUP) * ROWS + tl.arange(0, ROWS)
    columns = (inside // GROUP) * COLUMNS + tl.arange(0, COLUMNS)
    depth = tl.arange(0, DEPTH)
    left = a + rows[:, None] * n + depth[None, :]
    right = b + depth[:, None] * n + columns[None, :]
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for _ in range(0, n, DEPTH):
        total = tl.dot(tl.load(left), tl.load(right), total)
        left += DEPTH
        right += DEPTH * n
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    n = 8192 if device == "cuda" else 1024
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    left = torch.randn(n, n, device=device, dtype=dtype)
    right = torch.randn(4, n, n, device=device, dtype=dtype)
    product = torch.empty(n, n, device=device, dtype=dtype)
    rows, columns, group = (128, 128, 8) if args.fixed else (128, 256, 8)
    grid = (n // rows * (n // columns),)

    step = 0
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        multiply[grid](left, right[step % 4], product, n, rows, columns, 64, group, num_warps=8, num_stages=3)
        step += 1
        if step % (100 if device == "cuda" else 2) == 0:
            print(f"step {step} corner {product[0, 0].item():.2f}", flush=True)


if __name__ == "__main__":
    main()
