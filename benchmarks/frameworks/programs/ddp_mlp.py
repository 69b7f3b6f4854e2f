"""
A training loop in PyTorch on all GPUs of a host, one process each: a deep perceptron, some 20 ms per step.

    torchrun --nproc-per-node 2 benchmarks/frameworks/programs/ddp_mlp.py --seconds 25 [--backend gloo]

With the backend gloo the processes compute on the CPU; with `--share` as well, they share the GPUs there are,
be it one, which NCCL does not allow.

The gradients are averaged over the processes (DistributedDataParallel). The first one prints the loss after
50 steps, to the last digit.
"""

import argparse
import os
import time

CHECKED = 50


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=25.0)
    parser.add_argument("--backend", choices=("nccl", "gloo"), default="nccl")
    parser.add_argument("--share", action="store_true", help="with gloo: compute on GPUs all the same")
    args = parser.parse_args()

    import torch
    from torch import distributed, nn
    from torch.nn.parallel import DistributedDataParallel

    rank = int(os.environ["LOCAL_RANK"])
    on_gpu = args.share or args.backend == "nccl"
    device = torch.device("cuda", rank % torch.cuda.device_count()) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    distributed.init_process_group(args.backend)
    torch.manual_seed(0)
    wide, deep, batch = (4096, 10, 8192) if on_gpu else (64, 3, 32)
    dtype = torch.bfloat16 if on_gpu else torch.float32
    layers = [layer for _ in range(deep) for layer in (nn.Linear(wide, wide), nn.GELU())]
    model = nn.Sequential(*layers).to(device, dtype)
    model = DistributedDataParallel(model, device_ids=[rank] if on_gpu else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank)
    x = torch.randn(batch, wide, device=device, dtype=dtype)
    stop = torch.zeros(1, device=device)

    number, begun = 0, time.monotonic()
    while True:
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        number += 1
        if number % CHECKED == 0:  # all of them have to end after the same step
            if number == CHECKED and rank == 0:
                print(f"after {CHECKED} steps: {loss.item()!r}", flush=True)
            stop.fill_(time.monotonic() > begun + args.seconds)
            distributed.broadcast(stop, 0)
            if stop.item():
                break
    if rank == 0:
        print(f"{number} steps, {(time.monotonic() - begun) / number * 1e3:.3f} ms each", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
