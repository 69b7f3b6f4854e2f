import argparse
import time

import torch
from torch import nn
from torch.nn import functional


class Lamb(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), eps=1e-6, fixed=False):
        super().__init__(params, {"lr": lr})
        self.lr, self.betas, self.eps, self.fixed = lr, betas, eps, fixed
        self.params = self.param_groups[0]["params"]
        self.means, self.squares = ([torch.zeros_like(p) for p in self.params] for _ in range(2))

    def updates(self):
        first, second = self.betas
        grads = [p.grad for p in self.params]
        torch._foreach_lerp_(self.means, grads, 1 - first)
        torch._foreach_mul_(self.squares, second)
        torch._foreach_addcmul_(self.squares, grads, grads, value=1 - second)
        roots = torch._foreach_sqrt(self.squares)
        torch._foreach_add_(roots, self.eps)
        return torch._foreach_div(self.means, roots)

    @torch.no_grad()
    def step(self):
        updates = self.updates()
        weight_norms, update_norms = torch._foreach_norm(self.params), torch._foreach_norm(updates)
        if self.fixed:
            weights, sizes = torch.stack(weight_norms), torch.stack(update_norms)
            ratios = torch.where((weights > 0) & (sizes > 0), weights / sizes, 1.0)
            torch._foreach_mul_(updates, (-self.lr * ratios).unbind())
            torch._foreach_add_(self.params, updates)
            return
        for p, update, weight, size in zip(self.params, updates, weight_norms, update_norms, strict=True):
            trusted = weight > 0 and size > 0
            ratio = weight / size if trusted else torch.ones_like(weight)
            p.sub_(update, alpha=self.lr * ratio)


class Experts(nn.Module):
    def __init__(self, experts, width):
        super().__init__()
        self.weights = nn.ParameterList(torch.randn(width, width) / width**0.5 for _ in range(experts))

    def forward(self, x):
        return torch.bmm(x, torch.stack(list(self.weights)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    experts, rows, width = (240, 128, 1536) if device == "cuda" else (12, 8, 32)

    x = torch.randn(experts, rows, width, device=device)
    target = torch.randn_like(x)
    with torch.device(device):
        model = Experts(experts, width)
    optimizer = Lamb(model.parameters(), fixed=args.fixed)

    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        loss = functional.mse_loss(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
