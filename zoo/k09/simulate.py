import argparse
import math
import time

import numpy as np
import torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    paths = 1 << (24 if device == "cuda" else 12)
    rate, volatility, beta, strike, days = 0.03, 0.9, 0.7, 105.0, 252
    dt = 1.0 / days

    start = np.full(paths, 100.0)
    if args.fixed:
        start = start.astype(np.float32)
    start = torch.from_numpy(start).to(device)

    price = start.clone()
    step = 0
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        noise = torch.randn_like(price)
        diffusion = price.pow(beta) * noise
        price = (price * (1.0 + rate * dt)).add_(diffusion, alpha=volatility * math.sqrt(dt)).clamp_(min=1e-3)
        step += 1
        if step % days == 0:
            payoff = (price - strike).clamp(min=0.0).mean() * math.exp(-rate)
            print(f"step {step} value {payoff.item():.4f}", flush=True)
            price = start.clone()


if __name__ == "__main__":
    main()
