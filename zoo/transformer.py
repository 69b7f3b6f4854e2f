"""
A healthy program: a GPT-like decoder in bf16 with flash attention, a fused optimizer and large batches.

Limit: the tensor cores, as it should be.
Fix: none needed; fp8 or --compile for the last few percent.
"""

from __future__ import annotations

import argparse

import loop


def parser() -> argparse.ArgumentParser:
    p = loop.parser(__doc__)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--width", type=int, default=4096)
    p.add_argument("--heads", type=int, default=32)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--sequence", type=int, default=2048)
    p.add_argument("--vocabulary", type=int, default=32768)
    p.add_argument("--compile", action="store_true")
    return p


def main() -> None:
    args = parser().parse_args()
    import torch
    from torch import nn
    from torch.nn import functional

    class Block(nn.Module):
        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.heads = heads
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
            self.up, self.down = (
                nn.Linear(width, 4 * width, bias=False),
                nn.Linear(4 * width, width, bias=False),
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            batch, sequence, width = x.shape
            qkv = self.qkv(self.norm1(x)).view(batch, sequence, 3, self.heads, width // self.heads)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(attended.transpose(1, 2).reshape(batch, sequence, width))
            return x + self.down(functional.gelu(self.up(self.norm2(x))))

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token = nn.Embedding(args.vocabulary, args.width)
            self.position = nn.Embedding(args.sequence, args.width)
            self.blocks = nn.ModuleList(Block(args.width, args.heads) for _ in range(args.layers))
            self.norm = nn.LayerNorm(args.width)
            self.head = nn.Linear(args.width, args.vocabulary, bias=False)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    torch.manual_seed(args.seed)
    with torch.device(args.device):
        model = Decoder().to(torch.bfloat16)
        tokens = torch.randint(args.vocabulary, (args.batch, args.sequence + 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=args.device == "cuda")
    forward = torch.compile(model) if args.compile else model
    inputs, targets = tokens[:, :-1], tokens[:, 1:].reshape(-1)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(forward(inputs).view(-1, args.vocabulary), targets)
        loss.backward()
        optimizer.step()

    # 6 FLOP per weight of a matrix and token (forward and backward), and causal attention's
    # 6 * sequence * width per layer and token.
    weights = args.layers * 12 * args.width**2 + args.width * args.vocabulary
    per_token = 6 * weights + 6 * args.layers * args.sequence * args.width
    count = args.batch * args.sequence
    loop.run(step, args=args, counts={"tokens": count, "flops": per_token * count})


if __name__ == "__main__":
    main()
