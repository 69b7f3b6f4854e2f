import argparse
import time

import torch
import torchvision
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Crops(Dataset):
    def __init__(self, size):
        self.size = size
        self.photos = torch.randint(256, (64, 3, size + 32, size + 32), dtype=torch.uint8)

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        photo = self.photos[index % len(self.photos)]
        top, left = index * 7 % 32, index * 13 % 32
        crop = photo[:, top : top + self.size, left : left + self.size]
        if index % 2:
            crop = crop.flip(-1)
        return crop.float().mul_(0.8 + index % 5 * 0.1).clamp_(max=255.0).byte(), index % 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    cuda = device == "cuda"
    batch, size, patch, layers, width = (64, 224, 14, 6, 2048) if cuda else (2, 32, 8, 2, 64)
    workers = 14 if args.fixed else 4
    loader = iter(DataLoader(Crops(size), batch, num_workers=workers if cuda else 1, pin_memory=cuda))
    with torch.device(device):
        model = torchvision.models.VisionTransformer(size, patch, layers, 16, width, 4 * width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    step = 0
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        images, labels = (part.to(device, non_blocking=True) for part in next(loader))
        with torch.autocast(device, torch.bfloat16):
            loss = functional.cross_entropy(model(images / 255.0 - 0.5), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
