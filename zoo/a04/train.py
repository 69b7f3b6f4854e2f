import argparse
import multiprocessing
import os
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Antennas(Dataset):
    def __init__(self, antennas, directions):
        rng = np.random.default_rng(0)
        self.steering = rng.standard_normal((antennas, directions), dtype=np.float32)

    def __len__(self):
        return 1_000_000

    def __getitem__(self, i):
        antennas = len(self.steering)
        signals = np.random.default_rng(i).standard_normal((antennas, antennas), dtype=np.float32)
        beams = signals @ self.steering / antennas**0.5
        return torch.from_numpy(beams[None, ::8, ::8].copy()), i % 10


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1" if args.fixed else "4"

    multiprocessing.set_forkserver_preload(["numpy", "torch"])

    antennas, directions, channels = (1024, 1024, 64) if device == "cuda" else (256, 256, 8)
    loader = DataLoader(
        Antennas(antennas, directions),
        16 if device == "cuda" else 4,
        num_workers=os.cpu_count(),
        multiprocessing_context="forkserver",
        pin_memory=device == "cuda",
    )
    layers = [nn.Conv2d(1, channels, 3), nn.ReLU()]
    for _ in range(3):
        layers += [nn.Conv2d(channels, channels, 3), nn.ReLU()]
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    batches = iter(loader)
    x, y = next(batches)
    end = time.perf_counter() + args.seconds
    for step, (x, y) in enumerate(batches, 1):
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 4 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
            if time.perf_counter() > end:
                break


if __name__ == "__main__":
    main()
