import argparse
import io
import os
import tarfile
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torchvision
from PIL import Image
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset):
    def __init__(self, folder, size, shard):
        self.size, self.shard = size, shard
        self.paths = sorted(folder.glob("*.jpg"))
        if shard:
            with tarfile.open(folder / "photos.tar", "w") as tar:
                for path in self.paths:
                    tar.add(path, path.name)
            with tarfile.open(folder / "photos.tar") as tar:
                self.places = [(member.size, member.offset_data) for member in tar.getmembers()]
            self.file = os.open(folder / "photos.tar", os.O_RDONLY)

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        index %= len(self.paths)
        data = os.pread(self.file, *self.places[index]) if self.shard else self.paths[index].read_bytes()
        photo = Image.open(io.BytesIO(data)).convert("RGB").resize((self.size, self.size))
        return torch.from_numpy(np.asarray(photo).copy()).permute(2, 0, 1), index % 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    cuda = device == "cuda"
    batch, size, patch, layers, width, workers = (64, 224, 14, 6, 2048, 8) if cuda else (4, 32, 8, 2, 64, 1)
    folder = Path(tempfile.mkdtemp())
    generator = np.random.default_rng(0)
    for number in range(256):
        photo = generator.integers(0, 256, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(photo).resize((256, 256)).save(folder / f"{number:04}.jpg")
    loader = iter(DataLoader(Photos(folder, size, args.fixed), batch, num_workers=workers, pin_memory=cuda))
    with torch.device(device):
        model = torchvision.models.VisionTransformer(size, patch, layers, 16, width, 4 * width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    step = 0
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        photos, labels = (part.to(device, non_blocking=True) for part in next(loader))
        with torch.autocast(device, torch.bfloat16):
            loss = functional.cross_entropy(model(photos / 255.0), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
