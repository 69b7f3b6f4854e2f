import argparse
import gc
import time
from collections import deque

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)

    documents = [[i, [i + 1, i + 2]] for i in range(600_000)]
    rows, width, depth = (16384, 4096, 12) if device == "cuda" else (64, 128, 2)
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.GELU()]
    net = nn.Sequential(*layers).to(device, torch.bfloat16)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
    x = torch.randn(rows, width, device=device, dtype=torch.bfloat16)
    recent = deque(maxlen=16)
    if args.fixed:
        gc.collect()
        gc.freeze()
        gc.disable()

    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        loss = (net(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        recent.append([[step, row] for row in range(70_000)])
        value = loss.item()
        step += 1
        if step % 5 == 0:
            print(f"step {step} loss {value:.4f} document {documents[step][0]}", flush=True)


if __name__ == "__main__":
    main()
