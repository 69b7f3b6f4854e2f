"""
Programs with a fixed number of steps that give the same result each time, to see whether a look changes it.

    python benchmarks/look/programs.py CASE --steps 400 --log FILE

Each prints its loss ten times, to the last digit, and ends with exit code 7. Into FILE goes one row per step
(zoo/loop.py).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "zoo"))

import loop

Step = Callable[[], Any]
"""One step; returns its loss, which is not read back."""

EXIT_CODE = 7


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("case", choices=sorted(CASES))
    p.add_argument("--steps", type=int, required=True)
    p.add_argument("--device", default="cuda")
    p.add_argument("--log", type=Path, required=True, help="file for one row per step")
    return p


def main() -> int:
    args = parser().parse_args()
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # cuBLAS is deterministic with it
    import torch

    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    step = CASES[args.case](args.device)
    ended = time.perf_counter()
    with open(args.log, "wb", buffering=0) as log:
        for number in range(args.steps):
            loss = step()
            if args.device == "cuda":
                torch.cuda.synchronize()
            began, ended = ended, time.perf_counter()
            log.write(loop.ROW.pack(time.time_ns(), (ended - began) * 1e3))
            if (number + 1) % (args.steps // 10) == 0:
                print(number + 1, repr(float(loss)), flush=True)
    return EXIT_CODE


def resnet50(device: str) -> Step:
    """Convolutions and batch norms, bf16 autocast, channels-last."""
    import torch
    import torchvision

    model = torchvision.models.resnet50(weights=None).to(device, memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    images = torch.randn(128, 3, 224, 224, device=device).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(1000, (128,), device=device)

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def perceptron(width: int, layers: int, device: str) -> Any:
    import torch

    parts = [torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.GELU()) for _ in range(layers)]
    return torch.nn.Sequential(*parts).to(device)


def trained(model: Any, called: Any, *, width: int, device: str, micro: int = 1) -> Step:
    """Adam on random data, *micro* batches to a step."""
    import torch

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    x = torch.randn(2048, width, device=device)

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        for _ in range(micro):
            loss = called(x).square().mean() / micro
            loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def accumulated(device: str) -> Step:
    """Four forward and backward passes to a step of the optimizer."""
    model = perceptron(2048, 12, device)
    return trained(model, model, width=2048, device=device, micro=4)


def compiled(device: str) -> Step:
    """torch.compile: the modules inside are not called any more."""
    import torch

    model = perceptron(2048, 12, device)
    return trained(model, torch.compile(model), width=2048, device=device)


def adversaries(device: str) -> Step:
    """Two models with an optimizer each, that step in turns."""
    one, other = (
        trained(model, model, width=1024, device=device)
        for model in (perceptron(1024, 8, device), perceptron(1024, 16, device))
    )

    def step() -> Any:
        one()
        return other()

    return step


def inference(device: str) -> Step:
    """No optimizer: the outermost module marks the steps."""
    import torch

    model = perceptron(2048, 24, device).requires_grad_(False)
    x = torch.randn(512, 2048, device=device)
    return lambda: model(x).square().mean()


CASES: dict[str, Callable[[str], Step]] = {
    "resnet50": resnet50,
    "accumulated": accumulated,
    "compiled": compiled,
    "adversaries": adversaries,
    "inference": inference,
}


if __name__ == "__main__":
    sys.exit(main())
