import argparse
import time

import torch
from torch import nn
from torch.nn import functional


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)

    images = torch.rand(60_000, 784)
    labels = torch.randint(10, (60_000,))
    size = 32
    if args.fixed:
        size, images, labels = 128, images.to(device), labels.to(device)
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    seen, step = 0, 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        at = seen % (len(images) - size)
        x, y = images[at : at + size].to(device), labels[at : at + size].to(device)
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen, step = seen + size, step + 1
        if step % 800 == 0:
            print(f"sample {seen} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
