import argparse
import io
import time

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import models


def photos(count):
    rng = np.random.default_rng(0)
    files = []
    for _ in range(count):
        coarse = Image.fromarray(rng.integers(0, 255, (60, 80, 3), dtype=np.uint8))
        pixels = np.asarray(coarse.resize((1280, 960), Image.Resampling.BICUBIC)).astype(np.int16)
        pixels += rng.integers(-12, 12, pixels.shape, dtype=np.int16)
        file = io.BytesIO()
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(file, "JPEG", quality=88)
        files.append(file.getvalue())
    return files


class Photos(Dataset):
    def __init__(self, files, draft):
        self.files, self.draft = files, draft

    def __len__(self):
        return 100_000

    def __getitem__(self, i):
        image = Image.open(io.BytesIO(self.files[i % len(self.files)]))
        if self.draft:
            image.draft("RGB", (320, 240))
        image = image.convert("RGB").resize((224, 224), Image.Resampling.BILINEAR)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)
        return pixels, i % 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")

    batch = 12 if device == "cuda" else 8
    data = Photos(photos(24), draft=args.fixed)
    loader = DataLoader(
        data, batch, shuffle=True, num_workers=6, pin_memory=device == "cuda", persistent_workers=True
    )
    net = models.resnet18().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    end = time.perf_counter() + args.seconds
    for step, (pixels, labels) in enumerate(loader, 1):
        x = pixels.to(device, non_blocking=True).float().div_(127.5).sub_(1)
        loss = nn.functional.cross_entropy(net(x), labels.to(device, non_blocking=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
            if time.perf_counter() > end:
                break


if __name__ == "__main__":
    main()
