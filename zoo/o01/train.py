import argparse
import time

import torch
from torch import nn
from torch.nn import functional


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows, width = (32768, 2048) if device == "cuda" else (128, 128)
    batch = 2 * rows if args.fixed else rows
    layers = []
    for _ in range(12):
        layers += [nn.Linear(width, width), nn.GELU()]
    model = nn.Sequential(*layers, nn.Linear(width, width)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    data = torch.randn(4 * rows, width, device=device, dtype=torch.bfloat16)

    sample = shown = 0
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        start = sample % len(data)
        x = data[start : start + batch]
        with torch.autocast(device, torch.bfloat16):
            loss = functional.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        sample += batch
        if sample - shown >= 16 * rows:
            print(f"sample {sample} loss {loss.item():.4f}", flush=True)
            shown = sample


if __name__ == "__main__":
    main()
