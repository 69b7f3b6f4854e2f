import argparse
import time

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
        self.stride, self.grown = stride, after - before

    def forward(self, x):
        y = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        if self.grown:
            x = functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.grown))
        return torch.relu(y + x)


class ResNet20(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        blocks, before = [], 16
        for after in (16, 32, 64):
            for _ in range(3):
                blocks.append(Block(before, after, 1 if before == after else 2))
                before = after
        self.blocks = nn.Sequential(*blocks)
        self.leave = nn.Linear(64, 10)

    def forward(self, x):
        return self.leave(self.blocks(self.enter(x)).mean(dim=(2, 3)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    size = 512 if args.fixed else 128

    images = torch.randn(8192 if device == "cuda" else 512, 3, 32, 32, device=device)
    labels = torch.randint(10, (len(images),), device=device)
    model = ResNet20().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    scaler = torch.amp.GradScaler(device, enabled=device == "cuda")

    seen, step = 0, 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        at = seen % len(images)
        with torch.autocast(device, torch.float16, enabled=device == "cuda"):
            loss = functional.cross_entropy(model(images[at : at + size]), labels[at : at + size])
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        seen, step = seen + size, step + 1
        if step % 20 == 0:
            print(f"sample {seen} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
