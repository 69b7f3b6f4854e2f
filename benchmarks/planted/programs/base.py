"""What the programs share: a network to train that keeps the GPU busier than the host, and a clock."""

import argparse
import json
import time

import torch
from torch import nn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ROWS, WIDTH, DEPTH = (65536, 1024, 12) if DEVICE == "cuda" else (256, 128, 3)
WARM = 0.3
NAMES = [f"layer{i}.weight" for i in range(25_000 if DEVICE == "cuda" else 1_000)]


def arguments(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--fixed", action="store_true")
    return parser.parse_args(argv)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + nn.functional.gelu(self.linear(self.norm(x)))


def training():
    """A network, its optimizer, and a batch of rows and targets."""
    torch.manual_seed(0)
    net = nn.Sequential(*(Block() for _ in range(DEPTH))).to(DEVICE, torch.bfloat16)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4, foreach=True)
    x, y = (torch.randn(ROWS, WIDTH, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    return net, optimizer, x, y


def settings():
    """What the host has to do for each step anyway: some milliseconds, which the GPU need not wait for."""
    return {name: len(name) for name in NAMES}


def update(optimizer, loss):
    settings()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def steps(seconds):
    """Count steps for *seconds*, and say at the end how long they took after a start."""
    begun = time.perf_counter()
    warm, warm_at, i = 0, begun, 0
    while (now := time.perf_counter()) < begun + seconds:
        if now < begun + WARM * seconds:
            warm, warm_at = i, now
        settings()
        yield i
        i += 1
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    print(json.dumps({"steps": i - warm, "seconds": time.perf_counter() - warm_at}), flush=True)
