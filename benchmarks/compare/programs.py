"""
Programs to compare: those of the zoo, and one that is 2 % slower by work of known length in each step.

    python benchmarks/compare/programs.py CASE [--extra-us T] --seconds 14 --log FILE

The extra work is products of matrices after each step, as many as take T together; how long one takes is
measured before the first step. How much slower the steps are then their own log tells.

`compiled` and `graph` are the third iteration of the ResNet-50: channels-last, compiled by torch.compile or
replayed as one CUDA graph.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "zoo"))

import loop  # noqa: E402 (needs the path above)

CASES: Mapping[str, tuple[str, ...]] = {
    "nchw": ("resnet50.py",),
    "channels_last": ("resnet50.py", "--channels-last"),
    "transformer": ("transformer.py",),
    "optimizer": ("optimizer_unfused.py",),
}
"""Those of the zoo, with their arguments."""

OWN = ("compiled", "graph")

SIDE = 2048
"""Of the matrices of the extra work: a product takes some 30 µs on an H200."""

TRIALS = 200


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("case", choices=[*CASES, *OWN])
    p.add_argument("--extra-us", type=float, default=0.0, help="work that is added to each step")
    p.add_argument("--seconds", type=float, default=14.0)
    p.add_argument("--log", required=True)
    return p


def slower(step: Callable[[], object], extra_us: float) -> Callable[[], object]:
    """*step*, and *extra_us* of products after it."""
    if not extra_us > 0:
        return step
    import torch

    a = torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16)
    b, out = torch.randn_like(a), torch.empty_like(a)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(2):  # the first turn warms up
        begin.record()
        for _ in range(TRIALS):
            torch.mm(a, b, out=out)
        end.record()
        end.synchronize()
    each_us = begin.elapsed_time(end) * 1e3 / TRIALS
    times = max(1, round(extra_us / each_us))

    def both() -> None:
        step()
        for _ in range(times):
            torch.mm(a, b, out=out)

    return both


def of_the_zoo(case: str, args: argparse.Namespace) -> None:
    program, *arguments = CASES[case]
    run = loop.run

    def run_slower(step: Callable[[], object], **rest: Any) -> None:
        run(slower(step, args.extra_us), **rest)

    loop.run = run_slower
    sys.argv = [program, *arguments, "--seconds", str(args.seconds), "--log", args.log]
    runpy.run_path(str(ROOT / "zoo" / program), run_name="__main__")


def resnet50(case: str, args: argparse.Namespace) -> None:
    import torch
    import torchvision

    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    model = torchvision.models.resnet50(weights=None).to("cuda", memory_format=torch.channels_last).train()
    forward = torch.compile(model) if case == "compiled" else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    images = torch.randn(256, 3, 224, 224, device="cuda").contiguous(memory_format=torch.channels_last)
    labels = torch.randint(1000, (256,), device="cuda")

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=case != "graph"):
            loss = torch.nn.functional.cross_entropy(forward(images), labels)
        loss.backward()
        optimizer.step()

    options = argparse.Namespace(seconds=args.seconds, log=args.log, device="cuda")
    loop.run(loop.captured(step) if case == "graph" else step, args=options, counts={"images": 256}, warmup=5)


def main() -> None:
    args = parser().parse_args()
    if args.case in CASES:
        of_the_zoo(args.case, args)
    else:
        resnet50(args.case, args)


if __name__ == "__main__":
    main()
