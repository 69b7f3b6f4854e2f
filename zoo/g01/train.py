import argparse
import time

import numpy as np
import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)

    rows, features, width = (12_800, 2048, 8192) if device == "cuda" else (512, 128, 256)
    rng = np.random.default_rng(0)
    chunks = [rng.standard_normal((rows, features), dtype=np.float32) for _ in range(4)]
    batches = [torch.from_numpy(chunk) for chunk in chunks]
    if args.fixed and device == "cuda":
        batches = [batch.pin_memory() for batch in batches]

    net = nn.Sequential(
        nn.Linear(features, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, features)
    ).to(device, torch.bfloat16)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)

    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        x = batches[step % len(batches)].to(device, non_blocking=args.fixed)
        x = x.bfloat16()
        loss = (net(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
