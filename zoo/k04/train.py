import argparse
import time

import torch
import torchvision
from torch.nn import functional


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batch, size = (128, 224) if device == "cuda" else (2, 64)
    model = torchvision.models.resnet50().to(device)
    images = torch.randn(batch, 3, size, size, device=device)
    labels = torch.randint(1000, (batch,), device=device)
    if args.fixed:
        model = model.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)

    step = 0
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        with torch.autocast(device, torch.bfloat16):
            loss = functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
