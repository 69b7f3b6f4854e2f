import argparse
import time
from itertools import pairwise

import torch
from torch import nn


class PerType(nn.Module):
    def __init__(self, types, before, after):
        super().__init__()
        weights = [torch.randn(before, after) / before**0.5 for _ in range(types)]
        self.weights = nn.ParameterList(weights)
        self.biases = nn.ParameterList(torch.zeros(1, after) for _ in range(types))

    def forward(self, x):
        weights, biases = torch.stack(list(self.weights)), torch.stack(list(self.biases))
        return torch.tanh(torch.baddbmm(biases, x, weights))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    atoms = 2048 if device == "cuda" else 8

    sizes = 32, 64, 64, 64, 1
    layers = (PerType(120, before, after) for before, after in pairwise(sizes))
    model = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, weight_decay=1e-6, fused=args.fixed or None)
    neighbours = torch.randn(8, 120, atoms, sizes[0], device=device)
    energies = torch.randn(8, 120, device=device)

    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        loss = (model(neighbours[step % 8]).mean(dim=(1, 2)) - energies[step % 8]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 25 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
