import argparse
import time

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)

    batch, length, width, depth = (4, 2048, 4096, 6) if device == "cuda" else (2, 128, 128, 2)
    wide, layers = 4 * width, []
    with torch.device(device):
        for _ in range(depth):
            layers += [nn.LayerNorm(width), nn.Linear(width, wide), nn.GELU(), nn.Linear(wide, width)]
        encoder = nn.Sequential(*layers).half()
        project = nn.Linear(width, width).half()
        inputs = [torch.randn(batch, length, width, dtype=torch.float16) for _ in range(4)]

    step, total = 0, 0.0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        with torch.no_grad():
            x = encoder(inputs[step % len(inputs)])
            left, right = project(x).chunk(2, -1)
            if args.fixed:
                scores = torch.bmm(left, right.mT)
            else:
                scores = torch.bmm(left.cpu().float(), right.cpu().float().mT).to(device, torch.float16)
            pooled = torch.bmm(scores.softmax(-1), x).mean(1)
        step += 1
        if step % 4 == 0:
            total += pooled.float().norm().item()
            print(f"batch {step} norm {total / step:.4f}", flush=True)


if __name__ == "__main__":
    main()
