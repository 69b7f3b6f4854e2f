import argparse
import time

import torch
from torch import nn


class Lamb(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), eps=1e-6, fixed=False):
        super().__init__(params, {"lr": lr})
        self.lr, self.betas, self.eps, self.fixed = lr, betas, eps, fixed
        self.params = self.param_groups[0]["params"]
        self.means, self.squares = ([torch.zeros_like(p) for p in self.params] for _ in range(2))

    @torch.no_grad()
    def step(self):
        first, second = self.betas
        if self.fixed:
            self.step_at_once(first, second, [p.grad for p in self.params])
            return
        for p, mean, square in zip(self.params, self.means, self.squares, strict=True):
            mean.lerp_(p.grad, 1 - first)
            square.mul_(second).addcmul_(p.grad, p.grad, value=1 - second)
            update = mean / square.sqrt().add_(self.eps)
            weight_norm, update_norm = p.norm(), update.norm()
            trusted = weight_norm > 0 and update_norm > 0
            ratio = weight_norm / update_norm if trusted else torch.ones_like(weight_norm)
            p.sub_(update, alpha=self.lr * ratio)

    def step_at_once(self, first, second, grads):
        torch._foreach_lerp_(self.means, grads, 1 - first)
        torch._foreach_mul_(self.squares, second)
        torch._foreach_addcmul_(self.squares, grads, grads, value=1 - second)
        roots = torch._foreach_sqrt(self.squares)
        torch._foreach_add_(roots, self.eps)
        updates = torch._foreach_div(self.means, roots)
        weights, sizes = (torch.stack(torch._foreach_norm(each)) for each in (self.params, updates))
        ratios = torch.where((weights > 0) & (sizes > 0), weights / sizes, 1.0)
        torch._foreach_mul_(updates, (-self.lr * ratios).unbind())
        torch._foreach_add_(self.params, updates)


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
    width, rows = (1536, 768) if device == "cuda" else (32, 64)

    model = nn.Sequential(*(Block(width) for _ in range(50))).to(device)
    optimizer = Lamb(model.parameters(), fixed=args.fixed)
    x = torch.randn(rows, width, device=device)

    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        loss = (model(x) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
