import argparse
import time

import torch
from torch import nn
from torch.nn import functional


class RMSNorm(nn.Module):
    def __init__(self, width, fixed, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.fixed, self.eps = fixed, eps

    def forward(self, x):
        if self.fixed:
            return functional.rms_norm(x, (x.shape[-1],), self.weight, self.eps)
        hidden = x.float()
        hidden = hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * hidden.to(x.dtype)


class Block(nn.Module):
    def __init__(self, width, fixed):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(width, fixed), RMSNorm(width, fixed)
        self.mix = nn.Linear(width, width, bias=False)

    def forward(self, x):
        return x + self.norm2(self.mix(self.norm1(x)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    tokens, width = (65_536, 1024) if device == "cuda" else (64, 32)

    x = torch.randn(tokens, width, device=device, dtype=torch.bfloat16)
    blocks = nn.Sequential(*(Block(width, args.fixed) for _ in range(12))).to(device, torch.bfloat16)

    batch = 0
    end = time.perf_counter() + args.seconds
    with torch.inference_mode():
        while time.perf_counter() < end:
            y = blocks(x)
            batch += 1
            if batch % 15 == 0:
                print(f"batch {batch} mean {y.float().mean().item():.4f}", flush=True)


if __name__ == "__main__":
    main()
