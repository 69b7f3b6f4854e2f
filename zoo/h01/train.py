import argparse
import time

import torch
from torch import nn
from torch.nn import functional


class LayerNorm(nn.LayerNorm):
    def forward(self, x):
        weight, bias = self.weight.float(), self.bias.float()
        y = functional.layer_norm(x.float(), self.normalized_shape, weight, bias, self.eps)
        return y.to(x.dtype)


class Adapter(nn.Module):
    def __init__(self, width, norm):
        super().__init__()
        self.norm = norm(width)
        self.down = nn.Linear(width, 64)
        self.up = nn.Linear(64, width)

    def forward(self, x):
        return x + self.up(functional.gelu(self.down(self.norm(x))))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    rows, width = (131_072, 1024) if device == "cuda" else (64, 32)

    norm = nn.LayerNorm if args.fixed else LayerNorm
    model = nn.Sequential(*(Adapter(width, norm) for _ in range(8))).to(device, torch.float16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.randn(rows, width, device=device, dtype=torch.float16)
    target = torch.randn(rows, width, device=device, dtype=torch.float16)

    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        loss = functional.mse_loss(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 15 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
