import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import models, transforms


class Pictures(Dataset):
    def __init__(self, count):
        self.pixels = torch.randint(0, 255, (count, 3, 320, 320), dtype=torch.uint8)
        self.transform = transforms.Compose(
            [
                transforms.ToPILImage(),
                transforms.RandomAffine(15, (0.1, 0.1), interpolation=transforms.InterpolationMode.BILINEAR),
                transforms.ColorJitter(0.2, 0.2, 0.2, 0.05),
                transforms.RandomResizedCrop(224),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
            ]
        )

    def __len__(self):
        return 100_000

    def __getitem__(self, i):
        return self.transform(self.pixels[i % len(self.pixels)]), i % 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")

    batch = 16 if device == "cuda" else 4
    workers = 12 if args.fixed else 0
    loader = DataLoader(Pictures(512), batch, shuffle=True, num_workers=workers, pin_memory=device == "cuda")
    net = models.resnet50() if device == "cuda" else models.resnet18()
    net = net.to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    end = time.perf_counter() + args.seconds
    for step, (x, y) in enumerate(loader, 1):
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 2 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
            if time.perf_counter() > end:
                break


if __name__ == "__main__":
    main()
