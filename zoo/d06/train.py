import argparse
import time

import torch
from torch import nn
from torch.nn import functional


class Experts(nn.Module):
    def __init__(self, experts, width):
        super().__init__()
        self.weights = nn.ParameterList(torch.randn(width, width) / width**0.5 for _ in range(experts))

    def forward(self, x):
        return torch.bmm(x, torch.stack(list(self.weights)))


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), fixed=False):
        super().__init__(params, {"lr": lr})
        self.lr, self.betas, self.fixed = lr, betas, fixed
        self.parameters = [p for group in self.param_groups for p in group["params"]]
        self.means = [torch.zeros_like(p, dtype=torch.float32) for p in self.parameters]
        if fixed:
            self.mean = torch.cat([m.flatten() for m in self.means])
            self.flat = torch.cat([p.detach().flatten() for p in self.parameters])
            for p, part in zip(self.parameters, self.flat.split(self.means[0].numel()), strict=True):
                p.data = part.view_as(p)

    @torch.no_grad()
    def step(self):
        first, second = self.betas
        grads = [p.grad for p in self.parameters]
        if self.fixed:
            grad = torch.cat([g.flatten() for g in grads])
            update = (self.mean * first).add_(grad, alpha=1 - first).sign_()
            self.flat.add_(update, alpha=-self.lr)
            self.mean.mul_(second).add_(grad, alpha=1 - second)
            return
        updates = torch._foreach_mul(self.means, first)
        torch._foreach_add_(updates, grads, alpha=1 - first)
        torch._foreach_sign_(updates)
        torch._foreach_add_(self.parameters, updates, alpha=-self.lr)
        torch._foreach_mul_(self.means, second)
        torch._foreach_add_(self.means, grads, alpha=1 - second)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    rows, width = (256, 512) if device == "cuda" else (4, 8)

    x = torch.randn(450, rows, width, device=device, dtype=torch.bfloat16)
    target = torch.randn_like(x)
    model = Experts(450, width).to(device, torch.bfloat16)
    optimizer = Lion(model.parameters(), fixed=args.fixed)

    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        loss = functional.mse_loss(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 30 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
