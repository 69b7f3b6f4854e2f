import argparse
import os
import time

import torch
from torch import nn

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
    if GROUP > 0:
        inside = program % (GROUP * across)
        row = program // (GROUP * across) * GROUP + inside % GROUP
        column = inside // GROUP
    else:
        row = program % down
        column = (program // down + row) % across

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


class Head(nn.Module):
    def __init__(self, width, vocabulary, group):
        super().__init__()
        self.weight, self.group = nn.Parameter(torch.randn(vocabulary, width)), group

    def forward(self, x):
        (tokens, width), words = x.shape, len(self.weight)
        logits = x.new_empty(tokens, words)
        grid = (tokens // 128 * (words // 256),)
        project[grid](x, self.weight, logits, tokens, words, width, 128, 256, 64, self.group, num_warps=8)
        return logits


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokens, width, vocabulary = (16384, 4096, 131072) if device == "cuda" else (1024, 64, 256)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    with torch.device(device):
        head = Head(width, vocabulary, group=8 if args.fixed else 0).to(dtype)
    hidden = torch.randn(4, tokens, width, device=device, dtype=dtype)

    step = 0
    end = time.monotonic() + args.seconds
    with torch.inference_mode():
        while time.monotonic() < end:
            logits = head(hidden[step % len(hidden)])
            step += 1
            if step % 6 == 0:
                print(f"batch {step} logit {logits[0, 0].item():.3f}", flush=True)


if __name__ == "__main__":
    main()
