"""
The decoder that several programs of the zoo train: GPT-like, bf16, flash attention, a fused optimizer.

No workload by itself.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import loop

VOCABULARY = 32768


@dataclass(frozen=True, slots=True)
class Training:
    """A model, its optimizer, and the loss of one batch of `tokens` (batch, sequence + 1)."""

    model: Any
    optimizer: Any

    def loss(self, tokens: Any) -> Any:
        from torch.nn import functional

        logits = self.model(tokens[:, :-1])
        return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def parser(description: str | None, *, layers: int, width: int, batch: int, sequence: int) -> Any:
    """The options of `loop.parser`, and the sizes of the model and its batches."""
    p: argparse.ArgumentParser = loop.parser(description)
    p.add_argument("--layers", type=int, default=layers)
    p.add_argument("--width", type=int, default=width)
    p.add_argument("--batch", type=int, default=batch)
    p.add_argument("--sequence", type=int, default=sequence)
    return p


def batch_of(args: argparse.Namespace, *, sequence: int | None = None) -> Any:
    """Random tokens (batch, sequence + 1)."""
    import torch

    length = (args.sequence if sequence is None else sequence) + 1
    return torch.randint(VOCABULARY, (args.batch, length), device=args.device)


def build(args: argparse.Namespace) -> Training:
    """The model on the device, with random weights; every head is 128 wide."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
            self.up = nn.Linear(width, 4 * width, bias=False)
            self.down = nn.Linear(4 * width, width, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            heads = self.qkv(self.norm1(x)).unflatten(-1, (3, -1, 128)).permute(2, 0, 3, 1, 4)
            attended = functional.scaled_dot_product_attention(*heads, is_causal=True)
            x = x + self.out(attended.transpose(1, 2).flatten(2))
            return x + self.down(functional.gelu(self.up(self.norm2(x))))

    torch.manual_seed(args.seed)
    with torch.device(args.device):
        blocks = [Block(args.width) for _ in range(args.layers)]
        head = nn.Linear(args.width, VOCABULARY, bias=False)
        embedding = nn.Embedding(VOCABULARY, args.width)
        model = nn.Sequential(embedding, *blocks, nn.LayerNorm(args.width), head).to(torch.bfloat16)
    return Training(model, torch.optim.AdamW(model.parameters(), lr=1e-4, fused=args.device == "cuda"))
