import argparse
import multiprocessing
import shutil
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import models

SHAPE = (3, 224, 224)


class Folder:
    def __init__(self, root, rate):
        self.root, self.rate, self.line = Path(root), rate, multiprocessing.Lock()

    def read(self, name):
        content = (self.root / name).read_bytes()
        with self.line:
            time.sleep(len(content) / self.rate)
        return content


class Pictures(Dataset):
    def __init__(self, store, names):
        self.store, self.names = store, names

    def __len__(self):
        return 1_000_000

    def __getitem__(self, i):
        content = self.store.read(self.names[i % len(self.names)])
        return torch.from_numpy(np.frombuffer(bytearray(content), np.uint8).reshape(SHAPE)), i % 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")

    with TemporaryDirectory() as exported, TemporaryDirectory() as scratch:
        names = [f"{i:05}.rgb" for i in range(256)]
        rng = np.random.default_rng(0)
        for name in names:
            (Path(exported) / name).write_bytes(rng.bytes(3 * 224 * 224))
        store = Folder(exported, rate=60e6)
        if args.fixed:
            store = Folder(shutil.copytree(exported, scratch, dirs_exist_ok=True), rate=5e9)
        batch = 64 if device == "cuda" else 4
        loader = DataLoader(Pictures(store, names), batch, num_workers=8, pin_memory=device == "cuda")
        net = (models.resnet50() if device == "cuda" else models.resnet18()).to(device)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

        end = time.perf_counter() + args.seconds
        for step, (pixels, labels) in enumerate(loader, 1):
            x = pixels.to(device, non_blocking=True).float().div_(127.5).sub_(1)
            loss = nn.functional.cross_entropy(net(x), labels.to(device, non_blocking=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 2 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
                if time.perf_counter() > end:
                    break


if __name__ == "__main__":
    main()
