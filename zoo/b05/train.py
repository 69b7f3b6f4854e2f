import argparse
import time
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
from torchvision import models

SHAPE = (3, 224, 224)


class Bucket:
    def __init__(self, root, latency=0.01, rate=150e6):
        self.root, self.latency, self.rate = Path(root), latency, rate

    def read(self, name):
        content = np.fromfile(self.root / name, np.uint8)
        time.sleep(self.latency + len(content) / self.rate)
        return torch.from_numpy(content.reshape(-1, *SHAPE))


class Files(Dataset):
    def __init__(self, bucket, names):
        self.bucket, self.names = bucket, names

    def __len__(self):
        return 1_000_000

    def __getitem__(self, i):
        return self.bucket.read(self.names[i % len(self.names)])[0]


class Shards(IterableDataset):
    def __init__(self, bucket, names):
        self.bucket, self.names = bucket, names

    def __iter__(self):
        worker = get_worker_info()
        for name in cycle(self.names[worker.id :: worker.num_workers]):
            yield from self.bucket.read(name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")

    with TemporaryDirectory() as folder:
        rows, data_of = (64, Shards) if args.fixed else (1, Files)
        names = [f"{i:05}.rgb" for i in range(512 // rows)]
        for i, name in enumerate(names):
            (Path(folder) / name).write_bytes(np.random.default_rng(i).bytes(rows * 3 * 224 * 224))
        data = data_of(Bucket(folder), names)
        loader = DataLoader(data, 16 if device == "cuda" else 4, num_workers=4, pin_memory=device == "cuda")
        net = models.resnet18().to(device)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

        end = time.perf_counter() + args.seconds
        for step, pixels in enumerate(loader, 1):
            x = pixels.to(device, non_blocking=True).float().div_(127.5).sub_(1)
            loss = nn.functional.cross_entropy(net(x), torch.arange(len(x), device=device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 8 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
                if time.perf_counter() > end:
                    break


if __name__ == "__main__":
    main()
