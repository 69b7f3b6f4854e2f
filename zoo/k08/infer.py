import argparse
import time

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.reduce = nn.Conv2d(channels, channels, 1, bias=False)
        self.spread = nn.Conv2d(channels, channels, 3, padding=1, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(x + self.norm(self.spread(torch.relu(self.reduce(x)))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    if args.fixed:
        torch.backends.cudnn.benchmark = True

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batch, size, depth = (32, 224, 12) if device == "cuda" else (2, 64, 2)
    stem = nn.Conv2d(3, 64, 7, stride=4, padding=3, bias=False)
    model = nn.Sequential(stem, *[Block(64, 4) for _ in range(depth)], nn.AdaptiveAvgPool2d(1), nn.Flatten())
    model = model.to(device, torch.float16 if device == "cuda" else torch.float32).eval()
    images = torch.randn(4, batch, 3, size, size, device=device).to(stem.weight.dtype)

    done = 0
    end = time.monotonic() + args.seconds
    with torch.inference_mode():
        while time.monotonic() < end:
            features = model(images[done % len(images)])
            done += 1
            if done % 20 == 0:
                print(f"batch {done} mean {features.float().mean().item():.4f}", flush=True)


if __name__ == "__main__":
    main()
