import argparse
import time

import torch
from torch import nn


class Exchange:
    def __init__(self, parameters, pinned):
        self.parameters = list(parameters)
        self.buffers = [torch.empty_like(p, device="cpu", pin_memory=pinned) for p in self.parameters]

    def average(self):
        for p, buffer in zip(self.parameters, self.buffers, strict=True):
            buffer.copy_(p.grad, non_blocking=True)
        for p, buffer in zip(self.parameters, self.buffers, strict=True):
            p.grad.copy_(buffer, non_blocking=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)

    rows, width, depth, accumulate = (4096, 4096, 8, 4) if device == "cuda" else (64, 128, 2, 4)
    wide, layers = 4 * width, []
    with torch.device(device):
        for _ in range(depth):
            layers += [nn.LayerNorm(width), nn.Linear(width, wide), nn.GELU(), nn.Linear(wide, width)]
        net = nn.Sequential(*layers).to(torch.bfloat16)
        x = torch.randn(accumulate, rows, width, dtype=torch.bfloat16)
    exchange = Exchange(net.parameters(), pinned=device == "cuda")
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)

    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        for i in range(accumulate):
            loss = (net(x[i]) - x[i]).square().mean() / accumulate
            loss.backward()
            if not args.fixed or i == accumulate - 1:
                exchange.average()
            step += 1
        optimizer.step()
        optimizer.zero_grad()
        print(f"batch {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
