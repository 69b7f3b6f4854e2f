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
    cuda = device == "cuda"
    batch, size, patch, layers, width = (64, 224, 14, 6, 2048) if cuda else (2, 32, 8, 2, 64)
    with torch.device(device):
        model = torchvision.models.VisionTransformer(size, patch, layers, 16, width, 4 * width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    images = [torch.randn(batch, 3, size, size, pin_memory=cuda) for _ in range(4)]
    labels = torch.randint(1000, (batch,), device=device)
    side = torch.cuda.Stream() if cuda and args.fixed else None

    def fetch(number):
        with torch.cuda.stream(side):
            return images[number % len(images)].to(device, non_blocking=True)

    step = 0
    coming = fetch(0)
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        if side:
            torch.cuda.current_stream().wait_stream(side)
            x, coming = coming, fetch(step + 1)
            x.record_stream(torch.cuda.current_stream())
        else:
            x = fetch(step)
        with torch.autocast(device, torch.bfloat16):
            loss = functional.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
