import argparse
import time

import torch
from torch import nn


class Lamb(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), eps=1e-6, fixed=False):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "fixed": fixed})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            first, second = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["mean"] = torch.zeros_like(p)
                    state["square"] = torch.zeros_like(p)
                mean, square = state["mean"], state["square"]
                mean.lerp_(p.grad, 1 - first)
                square.mul_(second).addcmul_(p.grad, p.grad, value=1 - second)
                update = mean / square.sqrt().add_(group["eps"])
                weight_norm, update_norm = p.norm(), update.norm()
                if group["fixed"]:
                    known = (weight_norm > 0) & (update_norm > 0)
                    ratio = torch.where(known, weight_norm / update_norm, 1.0)
                    p.addcmul_(update, ratio, value=-group["lr"])
                    continue
                trusted = weight_norm > 0 and update_norm > 0
                ratio = weight_norm / update_norm if trusted else torch.ones_like(weight_norm)
                p.sub_(update, alpha=group["lr"] * ratio)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    width, rows = (1024, 1024) if device == "cuda" else (32, 64)

    model = nn.Sequential(*(Block(width) for _ in range(50))).to(device)
    optimizer = Lamb(model.parameters(), fixed=args.fixed)
    x = torch.randn(rows, width, device=device)
    target = torch.randn(rows, width, device=device)

    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        loss = (model(x) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
