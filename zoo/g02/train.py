import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Batch:
    def __init__(self, images, labels):
        self.images, self.labels = images, labels


class PinnedBatch(Batch):
    def pin_memory(self):
        self.images, self.labels = self.images.pin_memory(), self.labels.pin_memory()
        return self


class Frames(Dataset):
    def __init__(self, count, batch, side, kind):
        self.images = torch.randn(count, batch, 3, side, side)
        self.labels, self.kind = torch.arange(batch) % 10, kind

    def __len__(self):
        return 1_000_000

    def __getitem__(self, i):
        return self.kind(self.images[i % len(self.images)], self.labels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)

    batch, side, channels = (64, 448, 256) if device == "cuda" else (8, 64, 8)
    data = Frames(4, batch, side, PinnedBatch if args.fixed else Batch)
    loader = DataLoader(data, batch_size=None, pin_memory=device == "cuda")
    layers = [nn.Conv2d(3, channels, 7, 4)]
    for _ in range(2):
        layers += [nn.ReLU(), nn.Conv2d(channels, channels, 3)]
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))
    net.to(device, torch.bfloat16, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    end = time.perf_counter() + args.seconds
    for step, frames in enumerate(loader, 1):
        images = frames.images.to(device, non_blocking=True)
        images = images.to(torch.bfloat16, memory_format=torch.channels_last)
        loss = nn.functional.cross_entropy(net(images), frames.labels.to(device, non_blocking=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
            if time.perf_counter() > end:
                break


if __name__ == "__main__":
    main()
