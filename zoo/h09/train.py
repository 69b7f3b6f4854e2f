import argparse
import time

import torch
from torch import nn
from torch.nn import functional


class Separable(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.pointwise = nn.Conv2d(channels, channels, 1, bias=False)

    def forward(self, x):
        return x + self.pointwise(torch.relu(self.norm(self.depthwise(x))))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    size, channels, pixels = (64, 256, 56) if device == "cuda" else (2, 16, 14)

    images = torch.randn(size, 3, pixels, pixels, device=device)
    labels = torch.randint(100, (size,), device=device)
    blocks = nn.Sequential(*(Separable(channels) for _ in range(8)))
    model = nn.Sequential(nn.Conv2d(3, channels, 3, padding=1), blocks, nn.AdaptiveAvgPool2d(1))
    model = nn.Sequential(model, nn.Flatten(), nn.Linear(channels, 100)).to(device)
    if args.fixed:
        model, images = (t.to(memory_format=torch.channels_last) for t in (model, images))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        with torch.autocast(device, torch.float16, enabled=args.fixed):
            loss = functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 15 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
