import argparse
import time

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batch, length, width, layers = (15, 1021, 2048, 6) if device == "cuda" else (2, 13, 64, 2)
    vocabulary = 8192 if device == "cuda" else 64
    padded = (length + 7) // 8 * 8 if args.fixed else length
    with torch.device(device):
        blocks = [Block(width, 16) for _ in range(layers)]
        ends = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary, bias=False)
        model = nn.Sequential(ends[0], *blocks, nn.LayerNorm(width), ends[1]).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    data = torch.randint(vocabulary, (8, batch, length + 1), device=device)

    step = 0
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        tokens = data[step % len(data)]
        inputs = functional.pad(tokens[:, :-1], (0, padded - length))
        targets = functional.pad(tokens[:, 1:], (0, padded - length), value=-100)
        loss = functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
