import argparse
import time

import torch
from torch import nn
from torch.nn import functional


class Model(nn.Module):
    def __init__(self, categories, width, fixed):
        super().__init__()
        self.table = nn.Parameter(torch.randn(categories, width))
        self.layers = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, 1))
        self.fixed = fixed

    def forward(self, category):
        rows = self.table.index_select(0, category) if self.fixed else self.table[category]
        return self.layers(rows).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows, categories = (1_000_000, 100) if device == "cuda" else (10_000, 100)
    model = Model(categories, 64, args.fixed).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    category = torch.randint(categories, (rows,), device=device)
    target = torch.randn(categories, device=device)[category] + 0.1 * torch.randn(rows, device=device)

    step = 0
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        loss = functional.mse_loss(model(category), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
