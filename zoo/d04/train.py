import argparse
import time

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(functional.gelu(self.up(self.norm(x))))


def param_groups(model, rate, decay, grouped):
    groups = []
    for name, parameter in model.named_parameters():
        depth = int(name.split(".")[0])
        kept = 0.0 if parameter.ndim == 1 else decay
        groups.append({"params": [parameter], "lr": rate * 0.9 ** (depth // 8), "weight_decay": kept})
    if not grouped:
        return groups
    alike = {}
    for group in groups:
        key = group["lr"], group["weight_decay"]
        alike.setdefault(key, {**group, "params": []})["params"] += group["params"]
    return list(alike.values())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    width, rows = (512, 4096) if device == "cuda" else (16, 16)

    model = nn.Sequential(*(Block(width) for _ in range(78))).to(device, torch.bfloat16)
    groups = param_groups(model, 1e-4, 0.01, grouped=args.fixed)
    optimizer = torch.optim.AdamW(groups, fused=True)
    x = torch.randn(rows, width, device=device, dtype=torch.bfloat16)
    target = torch.randn(rows, width, device=device, dtype=torch.bfloat16)

    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        loss = functional.mse_loss(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 8 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
