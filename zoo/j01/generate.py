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
def attend(
    q, cache, part, logs, length, splits, GROUP: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    row, head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    heads = tl.num_programs(1)
    members, columns = tl.arange(0, 16), tl.arange(0, WIDTH)
    mine = members < GROUP
    asker = (row * heads + head) * GROUP + members
    query = tl.load(q + asker[:, None] * WIDTH + columns[None, :], mask=mine[:, None], other=0.0)
    span = length // splits
    start = row.to(tl.int64) * length + split * span
    peak = tl.full([16], float("-inf"), tl.float32)
    total = tl.zeros([16], tl.float32)
    mixed = tl.zeros([16, WIDTH], tl.float32)
    for offset in range(0, span, BLOCK):
        places = start + offset + tl.arange(0, BLOCK)
        keys = cache + (places[:, None] * 2 * heads + head) * WIDTH + columns[None, :]
        scores = tl.dot(query, tl.trans(tl.load(keys))) * (WIDTH**-0.5)
        higher = tl.maximum(peak, tl.max(scores, 1))
        weights = tl.exp(scores - higher[:, None])
        shrink = tl.exp(peak - higher)
        values = tl.load(keys + heads * WIDTH)
        mixed = mixed * shrink[:, None] + tl.dot(weights.to(values.dtype), values)
        total = total * shrink + tl.sum(weights, 1)
        peak = higher
    out = asker * splits + split
    tl.store(part + out[:, None] * WIDTH + columns[None, :], mixed / total[:, None], mask=mine[:, None])
    tl.store(logs + out, peak + tl.log(total), mask=mine)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    cuda = torch.cuda.is_available()
    device, dtype = ("cuda", torch.bfloat16) if cuda else ("cpu", torch.float32)
    layers, batch, length, heads, group, width = (8, 1, 262144, 4, 8, 128) if cuda else (1, 1, 2048, 1, 4, 16)
    splits = 64 if args.fixed else 8
    wide = heads * group * width
    asks = [nn.Linear(wide, wide, bias=False, device=device, dtype=dtype) for _ in range(layers)]
    outs = [nn.Linear(wide, wide, bias=False, device=device, dtype=dtype) for _ in range(layers)]
    caches = torch.randn(layers, batch, length, 2, heads, width, device=device, dtype=dtype)
    x = torch.randn(batch, wide, device=device, dtype=dtype)
    part = torch.empty(batch, heads * group, splits, width, device=device)
    logs = torch.empty(batch, heads * group, splits, device=device)

    token = 0
    end = time.monotonic() + args.seconds
    with torch.inference_mode():
        while time.monotonic() < end:
            for ask, cache, out in zip(asks, caches, outs, strict=True):
                grid = (batch, heads, splits)
                attend[grid](ask(x), cache, part, logs, length, splits, group, width, 32, num_stages=2)
                mixed = (part * logs.softmax(-1)[..., None]).sum(-2)
                x = nn.functional.rms_norm(x + out(mixed.reshape(batch, wide).to(dtype)), (wide,))
            token += 1
            if token % (40 if cuda else 2) == 0:
                print(f"token {token} peak {x.abs().max().item():.3f}", flush=True)


if __name__ == "__main__":
    main()
