import argparse
import time

import torch
from torch.nn import functional


def prepare(images, mean, std):
    scaled = images.float() / 255
    linear = scaled**2.2
    grey = linear.mean(dim=1, keepdim=True)
    vivid = grey + 1.2 * (linear - grey)
    bright = vivid / vivid.amax(dim=(1, 2, 3), keepdim=True)
    small = functional.avg_pool2d(bright, 2)
    return (small - mean) / std


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    size, pixels = (16, 1024) if device == "cuda" else (1, 128)
    if device == "cuda" and not args.fixed:
        torch.cuda.init()
        torch.cuda.memory.caching_allocator_enable(False)

    images = torch.randint(256, (4, size, 3, pixels, pixels), dtype=torch.uint8, device=device)
    mean = torch.tensor([0.48, 0.46, 0.41], device=device).view(1, 3, 1, 1)
    std = torch.tensor([0.23, 0.22, 0.23], device=device).view(1, 3, 1, 1)

    count, step = 0, 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        ready = prepare(images[step % 4], mean, std)
        count, step = count + size, step + 1
        if step % 60 == 0:
            print(f"image {count} mean {ready.mean().item():.4f}", flush=True)


if __name__ == "__main__":
    main()
