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
    if args.fixed:
        torch.set_float32_matmul_precision("high")

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    width = 4096 if device == "cuda" else 128
    layers = []
    for _ in range(6):
        layers += [nn.Linear(width, width), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(width, width)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    batches = torch.randn(8, width, width, device=device)

    step = 0
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        x = batches[step % len(batches)]
        loss = functional.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
