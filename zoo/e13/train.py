import argparse
import random
import time

import torch
from torch import nn
from torchvision import models

SIDES = range(320, 640, 16)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = not args.fixed

    batch, shrink = (64, 1) if device == "cuda" else (2, 10)
    net = models.resnet18().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    labels = torch.arange(batch, device=device)
    draw = random.Random(0)

    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        if step % 16 == 0:
            height, width = draw.choice(SIDES) // shrink, draw.choice(SIDES) // shrink
        images = torch.randn(batch, 3, height, width, device=device)
        loss = nn.functional.cross_entropy(net(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 4 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
