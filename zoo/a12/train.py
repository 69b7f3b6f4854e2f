import argparse
import io
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import models


class Drive:
    def __init__(self, root, latency):
        self.root, self.latency = Path(root), latency

    def read(self, name):
        time.sleep(self.latency)
        return (self.root / name).read_bytes()


class Pictures(Dataset):
    def __init__(self, drive, names, cache):
        self.drive, self.names, self.cached = drive, names, {}
        if cache:
            with ThreadPoolExecutor(16) as pool:
                self.cached = dict(zip(names, pool.map(drive.read, names), strict=True))

    def __len__(self):
        return 100_000

    def __getitem__(self, i):
        name = self.names[i % len(self.names)]
        content = self.cached.get(name) or self.drive.read(name)
        image = Image.open(io.BytesIO(content)).convert("RGB")
        return torch.from_numpy(np.array(image)).permute(2, 0, 1), i % 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")

    with TemporaryDirectory() as folder:
        rng = np.random.default_rng(0)
        names = [f"{i:05}.jpg" for i in range(256)]
        for name in names:
            coarse = Image.fromarray(rng.integers(0, 255, (28, 28, 3), dtype=np.uint8))
            coarse.resize((224, 224)).save(Path(folder) / name, quality=90)
        data = Pictures(Drive(folder, 0.015), names, cache=args.fixed)
        loader = DataLoader(data, 8 if device == "cuda" else 4, num_workers=4, pin_memory=device == "cuda")
        net = models.resnet18().to(device)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

        end = time.perf_counter() + args.seconds
        for step, (pixels, labels) in enumerate(loader, 1):
            x = pixels.to(device, non_blocking=True).float().div_(127.5).sub_(1)
            loss = nn.functional.cross_entropy(net(x), labels.to(device, non_blocking=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 8 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
                if time.perf_counter() > end:
                    break


if __name__ == "__main__":
    main()
