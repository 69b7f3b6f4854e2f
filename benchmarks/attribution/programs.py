"""
Programs whose bytes per kernel are known from elsewhere: the same step, again and again, on the same data.

    python benchmarks/attribution/programs.py CASE --seconds 30      as a user would run it
    python benchmarks/attribution/programs.py CASE --one-step        warm-up, then one step between
                                                                     cudaProfilerStart and -Stop, for ncu
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from typing import Any

Step = Callable[[], Any]

WARM_UP = 8
"""Steps until cuDNN and the allocator have settled, and torch.compile has compiled."""


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("case", choices=sorted(CASES))
    p.add_argument("--seconds", type=float, default=30.0)
    p.add_argument("--one-step", action="store_true")
    p.add_argument("--device", default="cuda", help="cpu is for a dry run only")
    return p


def main() -> int:
    args = parser().parse_args()
    import torch

    torch.manual_seed(0)
    step = CASES[args.case](args.device)
    for _ in range(WARM_UP):
        step()
    if args.one_step:
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        step()
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()
        return 0
    end = time.monotonic() + args.seconds
    steps = 0
    while time.monotonic() < end:
        loss = step()
        steps += 1
        if steps % 3 == 0 and args.device == "cuda":  # the host does not run ahead without end
            float(loss)
    print(steps)
    return 0


def resnet50(device: str, *, batch: int, bf16: bool) -> Step:
    import torch
    import torchvision

    layout = torch.channels_last if bf16 else torch.contiguous_format
    model = torchvision.models.resnet50(weights=None).to(device, memory_format=layout).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.randn(batch, 3, 224, 224, device=device).contiguous(memory_format=layout)
    labels = torch.randint(1000, (batch,), device=device)

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16, enabled=bf16):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def gpt(device: str, *, flash: bool, layers: int = 12, width: int = 768, heads: int = 12) -> Step:
    import torch
    from torch import nn
    from torch.nn import functional

    batch, sequence, vocabulary = 16, 1024, 50304

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, k, v = self.qkv(x).view(*x.shape[:2], 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            if flash:
                y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            else:
                mask = torch.ones(x.shape[1], x.shape[1], device=x.device, dtype=torch.bool).tril()
                scores = (q @ k.transpose(-2, -1)) / math.sqrt(width // heads)
                y = scores.masked_fill(~mask, float("-inf")).softmax(-1).to(v.dtype) @ v
            return self.out(y.transpose(1, 2).reshape(x.shape))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention = Attention()
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    class Gpt(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(sequence, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            x = self.token(tokens) + self.position.weight
            return self.head(self.norm(self.blocks(x)))

    model = Gpt().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device == "cuda")
    tokens = torch.randint(vocabulary, (batch, sequence), device=device)

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16):
            logits = model(tokens)
            loss = functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def compiled(device: str) -> Step:
    import torch
    from torch import nn

    width = 2048
    parts = [nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width)) for _ in range(8)]
    model = nn.Sequential(*parts).to(device)
    called = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x = torch.randn(8192, width, device=device)

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16):
            loss = called(x).float().square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


CASES: dict[str, Callable[[str], Step]] = {
    "resnet50_fp32": lambda device: resnet50(device, batch=64, bf16=False),
    "resnet50_bf16": lambda device: resnet50(device, batch=128, bf16=True),
    "gpt_flash": lambda device: gpt(device, flash=True),
    "gpt_plain": lambda device: gpt(device, flash=False),
    "compiled": compiled,
}


if __name__ == "__main__":
    sys.exit(main())
