import argparse
import os
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import models


class Antennas(Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, i):
        signals = np.random.default_rng(i).standard_normal((512, 512), dtype=np.float32)
        covariance = signals @ signals.T / 512
        spread = covariance @ covariance - covariance
        return torch.from_numpy(spread[None, ::4, ::4].copy()), i % 10


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    if args.fixed:
        os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

    batch = 64 if device == "cuda" else 8
    loader = DataLoader(
        Antennas(),
        batch,
        num_workers=min(16, os.cpu_count()),
        multiprocessing_context="spawn",
        pin_memory=device == "cuda",
    )
    net = models.resnet50() if device == "cuda" else models.resnet18()
    net = net.to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    batches = iter(loader)
    x, y = next(batches)
    end = time.perf_counter() + args.seconds
    for step, (x, y) in enumerate(batches, 1):
        x = x.to(device, non_blocking=True).expand(-1, 3, -1, -1)
        loss = nn.functional.cross_entropy(net(x), y.to(device, non_blocking=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 2 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
            if time.perf_counter() > end:
                break


if __name__ == "__main__":
    main()
