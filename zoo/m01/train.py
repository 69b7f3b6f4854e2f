import argparse
import time

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.enter = nn.Linear(width, width)
        self.leave = nn.Linear(width, width)

    def forward(self, x):
        return x + self.leave(functional.gelu(self.enter(self.norm(x))))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    rows, width = (8192, 2048) if device == "cuda" else (16, 16)

    model = nn.Sequential(*(Block(width) for _ in range(6))).to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    x = torch.randn(rows, width, device=device, dtype=torch.bfloat16)
    target = torch.randn(rows, width, device=device, dtype=torch.bfloat16)

    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        loss = functional.mse_loss(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if not args.fixed:
            torch.cuda.empty_cache()
        step += 1
        if step % 25 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
