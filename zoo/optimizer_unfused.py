"""
Trains a deep, narrow network whose optimizer updates 400 parameters one at a time.

Limit: the host. The update is thousands of tiny kernels, each launched from Python.
Fix: --fixed passes fused=True.
"""

from __future__ import annotations

import argparse

import loop


def parser() -> argparse.ArgumentParser:
    p = loop.parser(__doc__)
    p.add_argument("--layers", type=int, default=200)
    p.add_argument("--width", type=int, default=256)
    p.add_argument("--batch", type=int, default=4096)
    p.add_argument("--fixed", action="store_true", help="the fix")
    return p


def main() -> None:
    args = parser().parse_args()
    import torch
    from torch import nn

    torch.manual_seed(args.seed)
    layers = [nn.Sequential(nn.Linear(args.width, args.width), nn.ReLU()) for _ in range(args.layers)]
    model = nn.Sequential(*layers).to(args.device)
    how = {"fused": True} if args.fixed else {"foreach": False, "fused": False}
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, **how)
    x = torch.randn(args.batch, args.width, device=args.device)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        optimizer.step()

    loop.run(step, args=args, counts={"parameters": 2 * args.layers})


if __name__ == "__main__":
    main()
