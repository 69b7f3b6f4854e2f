import argparse
import time

import torch
from torch import nn
from torch.nn import functional


class Regressions(nn.Module):
    def __init__(self, items, features):
        super().__init__()
        self.weights = nn.ParameterList(torch.randn(features) / features**0.5 for _ in range(items))

    def forward(self, x):
        return functional.linear(x, torch.stack(list(self.weights)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    rows, features = (262_144, 3500) if device == "cuda" else (64, 16)

    x = torch.randn(rows, features, device=device)
    sold = torch.randn(rows, 1000, device=device)
    model = Regressions(1000, features).to(device)
    how = {"fused": True} if args.fixed else {"foreach": False}
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, **how)

    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        loss = functional.mse_loss(model(x), sold)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 4 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
