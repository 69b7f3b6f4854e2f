import argparse
import sys
import time
from collections import Counter

import torch
from torch import nn

executed = Counter()


def trace(frame, _event, _argument):
    executed[frame.f_code.co_filename, frame.f_lineno] += 1
    return trace


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x + self.scale * torch.relu(self.linear(self.norm(x)))


class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), decay=0.01):
        super().__init__(params, {"lr": lr, "betas": betas, "decay": decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            first, second = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["mean"] = torch.zeros_like(p)
                    state["square"] = torch.zeros_like(p)
                mean, square = state["mean"], state["square"]
                mean.lerp_(p.grad, 1 - first)
                square.mul_(second)
                square.addcmul_(p.grad, p.grad, value=1 - second)
                p.mul_(1 - group["lr"] * group["decay"])
                p.addcdiv_(mean, square.sqrt().add_(1e-8), value=-group["lr"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    width, rows = (512, 4096) if device == "cuda" else (8, 8)

    model = nn.Sequential(*(Block(width) for _ in range(80))).to(device, torch.bfloat16)
    optimizer = AdamW(model.parameters())
    x = torch.randn(rows, width, device=device, dtype=torch.bfloat16)
    if not args.fixed:
        sys.settrace(trace)

    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f} lines {len(executed)}", flush=True)


if __name__ == "__main__":
    main()
