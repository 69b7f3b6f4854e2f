import argparse
import time

import torch
from torch import nn
from torch.nn import functional


def rotated(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Block(nn.Module):
    def __init__(self, width, length, dropout=0.1):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.gate, self.up = nn.Linear(width, 4 * width), nn.Linear(width, 4 * width)
        self.down, self.dropout = nn.Linear(4 * width, width), nn.Dropout(dropout)
        self.scale1, self.scale2 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.ones(width))
        angle = torch.arange(length)[:, None] * 10_000.0 ** -(torch.arange(64) % 32 / 32)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, x):
        rows, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(rows, length, 3, width // 64, 64).permute(2, 0, 3, 1, 4)
        q, k = rotated(q, self.cos, self.sin), rotated(k, self.cos, self.sin)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        mixed = self.out(mixed.transpose(1, 2).reshape(rows, length, width))
        x = x + self.scale1 * self.dropout(mixed)
        h = self.norm2(x)
        h = self.dropout(functional.silu(self.gate(h)) * self.up(h))
        return x + self.scale2 * self.dropout(self.down(h))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    size, length, width = (128, 512, 384) if device == "cuda" else (2, 32, 64)

    blocks = nn.Sequential(*(Block(width, length) for _ in range(6)))
    model = nn.Sequential(nn.Embedding(1000, width), blocks, nn.Linear(width, 1000))
    model = model.to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(1000, (16, size, length + 1), device=device)
    if args.fixed and device == "cuda":
        for block in blocks:
            block.compile()

    def train_step(batch):
        loss = functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    for i in range(3):
        train_step(tokens[i])
    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        loss = train_step(tokens[step % 16])
        step += 1
        if step % 8 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
