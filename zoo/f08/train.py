import argparse
import multiprocessing
import time

import torch
from torch import nn


def train(rate, seconds, show):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    rows, width, depth = (16_384, 2048, 16) if device == "cuda" else (64, 64, 4)
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    net = nn.Sequential(*layers).to(device, torch.bfloat16)
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    x = torch.randn(rows, width, device=device, dtype=torch.bfloat16)

    step = 0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        loss = (net(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 20 == 0:
            value = loss.item()
            if show:
                print(f"step {step} loss {value:.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()

    if not args.fixed:
        multiprocessing.Process(target=train, args=(1e-3, args.seconds + 20, False), daemon=True).start()
    train(1e-4, args.seconds, True)


if __name__ == "__main__":
    main()
