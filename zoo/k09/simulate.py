import argparse
import math
import time

import numpy as np
import torch
from torch import nn


class Market(nn.Module):
    def __init__(self, rate, volatility, beta, dt):
        super().__init__()
        self.growth, self.scale, self.beta = 1.0 + rate * dt, volatility * math.sqrt(dt), beta

    def forward(self, price):
        diffusion = price.pow(self.beta) * torch.randn_like(price)
        return (price * self.growth).add_(diffusion, alpha=self.scale).clamp_(min=1e-3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    paths = 1 << (24 if device == "cuda" else 12)
    rate, strike, days = 0.03, 105.0, 252
    market = Market(rate, volatility=0.9, beta=0.7, dt=1.0 / days)

    start = np.full(paths, 100.0)
    if args.fixed:
        start = start.astype(np.float32)
    start = torch.from_numpy(start).to(device)

    price = start.clone()
    step = 0
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        price = market(price)
        step += 1
        if step % days == 0:
            payoff = (price - strike).clamp(min=0.0).mean() * math.exp(-rate)
            print(f"step {step} value {payoff.item():.4f}", flush=True)
            price = start.clone()


if __name__ == "__main__":
    main()
