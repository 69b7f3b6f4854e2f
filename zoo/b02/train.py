import argparse
import multiprocessing
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

DEPTH, SIDE, CROP = 96, 192, (64, 128, 128)


class Disk:
    def __init__(self, path, seek, rate):
        self.path, self.seek, self.rate, self.arm = path, seek, rate, multiprocessing.Lock()

    def read(self, offset, length):
        with self.arm, open(self.path, "rb") as file:
            file.seek(offset)
            content = file.read(length)
            time.sleep(self.seek + length / self.rate)
        return content


class Volumes(Dataset):
    def __init__(self, disk, count):
        self.disk, self.count = disk, count

    def __len__(self):
        return 1_000_000

    def __getitem__(self, i):
        rng = np.random.default_rng(i)
        z, y, x = (rng.integers(whole - part) for whole, part in zip((DEPTH, SIDE, SIDE), CROP, strict=True))
        first = rng.integers(self.count) * DEPTH + z
        slices = self.disk.read(int(first) * SIDE * SIDE * 2, CROP[0] * SIDE * SIDE * 2)
        volume = np.frombuffer(slices, np.float16).reshape(CROP[0], SIDE, SIDE)
        return torch.from_numpy(volume[None, :, y : y + CROP[1], x : x + CROP[2]].astype(np.float32))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)

    with TemporaryDirectory() as folder:
        path = Path(folder) / "volumes.f16"
        rng = np.random.default_rng(0)
        with path.open("wb") as file:
            for _ in range(24):
                file.write(rng.standard_normal((DEPTH, SIDE, SIDE), np.float32).astype(np.float16).tobytes())
        seek, rate = (0.0001, 3e9) if args.fixed else (0.009, 160e6)
        data = Volumes(Disk(path, seek, rate), 24)
        loader = DataLoader(data, 2 if device == "cuda" else 1, num_workers=2, pin_memory=device == "cuda")
        channels = 48 if device == "cuda" else 4
        layers = [nn.Conv3d(1, channels, 3, 2), nn.LeakyReLU()]
        for _ in range(3):
            layers += [nn.Conv3d(channels, channels, 3, padding=1), nn.LeakyReLU()]
        net = nn.Sequential(*layers, nn.Conv3d(channels, 1, 1)).to(device)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

        end = time.perf_counter() + args.seconds
        for step, volume in enumerate(loader, 1):
            loss = net(volume.to(device, non_blocking=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 2 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
                if time.perf_counter() > end:
                    break


if __name__ == "__main__":
    main()
