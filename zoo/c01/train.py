import argparse
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional

CONTEXT = 64


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(functional.gelu(self.up(self.norm(x))))


def get_batch(data, rng, size, device):
    starts = rng.integers(len(data) - CONTEXT - 1, size=size)
    x = torch.stack([torch.from_numpy(data[i : i + CONTEXT].astype(np.int64)) for i in starts])
    y = torch.from_numpy(data[starts + CONTEXT].astype(np.int64))
    if device == "cuda":
        x, y = x.pin_memory(), y.pin_memory()
    return x.to(device, non_blocking=True), y.to(device, non_blocking=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    size, embedded = (2048, 64) if device == "cuda" else (64, 1)

    data = rng.integers(256, size=10_000_000, dtype=np.uint16)
    width = CONTEXT * embedded
    model = nn.Sequential(
        nn.Embedding(256, embedded),
        nn.Flatten(),
        *(Block(width) for _ in range(5)),
        nn.Linear(width, 256),
    ).to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    step, running = 0, 0.0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        x, y = get_batch(data, rng, size, device)
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.detach() if args.fixed else loss.item()
        step += 1
        if step % 20 == 0:
            print(f"step {step} loss {float(running) / 20:.4f}", flush=True)
            running = 0.0


if __name__ == "__main__":
    main()
