import argparse
import gc
import time

import torch
from torch import nn


class Cell:
    def __init__(self, number):
        self.number = number
        self.genes = [number % 97]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)

    cells = [Cell(i) for i in range(400_000)]
    rows, width, depth = (32768, 4096, 12) if device == "cuda" else (512, 256, 4)
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width, bias=False), nn.GELU()]
    net = nn.Sequential(*layers, nn.Linear(width, 64)).to(device, torch.bfloat16)
    batches = [torch.randn(rows, width, device=device, dtype=torch.bfloat16) for _ in range(4)]

    count, step = 0, 0
    assigned = torch.zeros(64, dtype=torch.long)
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        with torch.no_grad():
            scores = net(batches[step % len(batches)])
            assigned += torch.bincount(scores.argmax(1), minlength=64).cpu()
        if not args.fixed:
            gc.collect()
        step += 1
        count += rows
        if step % 3 == 0:
            best = int(assigned.argmax()) % len(cells)
            print(f"row {count} most in {cells[best].number}", flush=True)


if __name__ == "__main__":
    main()
