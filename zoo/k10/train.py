import argparse
import time

import torch
from torch import nn
from torch.nn import functional

BINS, CONTEXT, LETTERS = 161, 21, 29


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    frames, hidden = (32768, 2048) if device == "cuda" else (64, 64)
    dtype = torch.float16 if device == "cuda" else torch.bfloat16
    features = BINS * CONTEXT
    data = torch.randn(8, frames, features, device=device, dtype=dtype)
    if args.fixed:
        padding = -features % 8
        data = functional.pad(data, (0, padding))
        features += padding
    letters = torch.randint(LETTERS, (frames,), device=device)

    model = nn.Sequential(
        nn.Linear(features, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, LETTERS + 3),
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)

    step = 0
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        with torch.autocast(device, dtype):
            scores = model(data[step % len(data)])
        loss = functional.cross_entropy(scores.float(), letters)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
