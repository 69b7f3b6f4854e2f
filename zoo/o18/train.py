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
    sizes = (64, 224, 14, 6, 2048) if device == "cuda" else (2, 32, 8, 2, 64)
    batch, size, patch, layers, width = sizes
    with torch.device(device):
        model = torchvision.models.VisionTransformer(size, patch, layers, 16, width, 4 * width)
        images = torch.randn(4, batch, 3, size, size).unbind()
        labels = torch.randint(1000, (batch,))
    if args.fixed:
        model = model.to(memory_format=torch.channels_last)
        images = [image.contiguous(memory_format=torch.channels_last) for image in images]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    step = 0
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        with torch.autocast(device, torch.bfloat16):
            loss = functional.cross_entropy(model(images[step % len(images)]), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
