import argparse
import time

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch._inductor.config.fx_graph_cache = False
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 10_000

    rows, width, depth = (8192, 8192, 3) if device == "cuda" else (64, 64, 2)
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.GELU()]
    net = nn.Sequential(*layers).to(device, torch.bfloat16)
    rate = torch.tensor(1e-4, device=device) if args.fixed else 1e-4
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate, capturable=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: 0.995**i)
    update = torch.compile(optimizer.step, dynamic=False)
    x = torch.randn(rows, width, device=device, dtype=torch.bfloat16)

    step, end = 0, None
    while end is None or time.perf_counter() < end:
        loss = (net(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        update()
        if end is None:
            end = time.perf_counter() + args.seconds
        step += 1
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        if step % 40 == 0:
            schedule.step()


if __name__ == "__main__":
    main()
