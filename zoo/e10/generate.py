import argparse
import time

import torch
from torch import nn


def blocks(count, width):
    layers = []
    for _ in range(count):
        layers += [nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)]
    return nn.Sequential(*layers)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)

    width, depth, offloaded = (4096, 48, 4) if device == "cuda" else (512, 8, 2)
    with torch.device(device):
        front = nn.Sequential(nn.Embedding(8192, width), *blocks(depth - offloaded, width)).to(torch.bfloat16)
        back = blocks(offloaded, width)
        head = nn.Linear(width, 8192).to(torch.bfloat16)
        ids = torch.zeros(1, dtype=torch.long)
    place, dtype = (device, torch.bfloat16) if args.fixed else ("cpu", torch.float32)
    back.to(place, dtype)

    count = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        with torch.no_grad():
            x = front(ids)
            x = back(x.to(place, dtype)).to(device, torch.bfloat16)
            ids = head(x).argmax(-1)
        count += 1
        if count % 10 == 0:
            print(f"token {count} id {ids.item()}", flush=True)


if __name__ == "__main__":
    main()
