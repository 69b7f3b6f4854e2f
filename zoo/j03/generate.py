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
def attend(q, cache, part, logs, length, splits, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    row, head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    heads = tl.num_programs(1)
    columns = tl.arange(0, WIDTH)
    asker = row * heads + head
    query = tl.load(q + asker * WIDTH + columns).to(tl.float32) * (WIDTH**-0.5)
    span = length // splits
    start = row.to(tl.int64) * length + split * span
    peak, total = -float("inf"), 0.0
    mixed = tl.zeros([WIDTH], tl.float32)
    for offset in range(0, span, BLOCK):
        places = start + offset + tl.arange(0, BLOCK)
        keys = cache + (places[:, None] * 2 * heads + head) * WIDTH + columns[None, :]
        scores = tl.sum(tl.load(keys).to(tl.float32) * query[None, :], 1)
        higher = tl.maximum(peak, tl.max(scores, 0))
        weights = tl.exp(scores - higher)
        shrink = tl.exp(peak - higher)
        values = tl.load(keys + heads * WIDTH).to(tl.float32)
        mixed = mixed * shrink + tl.sum(values * weights[:, None], 0)
        total = total * shrink + tl.sum(weights, 0)
        peak = higher
    out = asker * splits + split
    tl.store(part + out * WIDTH + columns, mixed / total)
    tl.store(logs + out, peak + tl.log(total))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    cuda = torch.cuda.is_available()
    device, dtype = ("cuda", torch.bfloat16) if cuda else ("cpu", torch.float32)
    layers, batch, length, heads, width = (8, 1, 65536, 16, 128) if cuda else (1, 1, 1024, 2, 16)
    splits = 16 if args.fixed else 1
    wide = heads * width
    asks = [nn.Linear(wide, wide, bias=False, device=device, dtype=dtype) for _ in range(layers)]
    outs = [nn.Linear(wide, wide, bias=False, device=device, dtype=dtype) for _ in range(layers)]
    caches = torch.randn(layers, batch, length, 2, heads, width, device=device, dtype=dtype)
    x = torch.randn(batch, wide, device=device, dtype=dtype)
    part = torch.empty(batch, heads, splits, width, device=device)
    logs = torch.empty(batch, heads, splits, device=device)

    token = 0
    end = time.monotonic() + args.seconds
    with torch.inference_mode():
        while time.monotonic() < end:
            for ask, cache, out in zip(asks, caches, outs, strict=True):
                grid = (batch, heads, splits)
                attend[grid](ask(x), cache, part, logs, length, splits, width, 64)
                mixed = (part * logs.softmax(-1)[..., None]).sum(-2)
                x = nn.functional.rms_norm(x + out(mixed.reshape(batch, wide).to(dtype)), (wide,))
            token += 1
            if token % 20 == 0:
                print(f"token {token} peak {x.abs().max().item():.3f}", flush=True)


if __name__ == "__main__":
    main()
