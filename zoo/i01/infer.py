import argparse
import os
import time

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
import triton
import triton.language as tl


@triton.jit
def project(
    a, w, c, m, n, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr
):
    program = tl.program_id(0)
    down, across = tl.cdiv(m, ROWS), tl.cdiv(n, COLUMNS)
    group = program // (GROUP * across)
    height = tl.minimum(down - group * GROUP, GROUP)
    row = group * GROUP + (program % (GROUP * across)) % height
    column = (program % (GROUP * across)) // height

    rows = row * ROWS + tl.arange(0, ROWS)
    columns = column * COLUMNS + tl.arange(0, COLUMNS)
    depth = tl.arange(0, DEPTH)
    left = a + rows[:, None] * k + depth[None, :]
    right = w + columns[None, :].to(tl.int64) * k + depth[:, None]
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for _ in range(0, k, DEPTH):
        total = tl.dot(tl.load(left), tl.load(right), total)
        left += DEPTH
        right += DEPTH
    out = c + rows[:, None].to(tl.int64) * n + columns[None, :]
    tl.store(out, total.to(c.dtype.element_ty))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokens, width, vocabulary = (4096, 4096, 131072) if device == "cuda" else (64, 64, 512)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    hidden = torch.randn(4, tokens, width, device=device, dtype=dtype)
    weight = torch.randn(vocabulary, width, device=device, dtype=dtype)
    logits = torch.empty(tokens, vocabulary, device=device, dtype=dtype)
    grid = (tokens // 64 * (vocabulary // 256),)
    group = 8 if args.fixed else 1

    step = 0
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        x = hidden[step % len(hidden)]
        project[grid](
            x, weight, logits, tokens, vocabulary, width, 64, 256, 64, group, num_warps=4, num_stages=3
        )
        step += 1
        if step % 20 == 0:
            print(f"batch {step} logit {logits[0, 0].item():.3f}", flush=True)


if __name__ == "__main__":
    main()
