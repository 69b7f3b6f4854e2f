"""
Programs that warm up for some seconds, each for a reason of its own, and then work evenly.

    python benchmarks/warmup/programs.py CASE --steady 13 --log FILE

Into FILE goes a line of JSON: `begun_ns`, when the program's own work began (imports were over), and
`warm_ns`, when its warm-up was over, both in Unix nanoseconds and after the GPU has done all that was queued.
The steps after that go into a file of the same name that ends in .steps (zoo/loop.py), to see whether they
are even.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "zoo"))

import decoder
import loop

Step = Callable[[], object]
"""One step of the work after warm-up."""

SIZES = {"layers": 4, "width": 2048, "batch": 8, "sequence": 1024, "seed": 0, "device": "cuda"}
"""Of a decoder whose training step takes some 30 ms on an H200."""


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("case", choices=sorted(CASES))
    p.add_argument("--steady", type=float, default=13.0, help="seconds of work after warm-up")
    p.add_argument("--log", type=Path, required=True, help="file for the truth")
    return p


def main() -> None:
    args = parser().parse_args()
    os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"  # a second run must compile as well
    import torch

    torch.cuda.init()
    begun_ns = time.time_ns()
    step = CASES[args.case]()
    torch.cuda.synchronize()
    args.log.write_text(json.dumps({"begun_ns": begun_ns, "warm_ns": time.time_ns()}) + "\n")
    log = str(args.log.with_suffix(".steps"))
    loop.run(step, args=argparse.Namespace(seconds=args.steady, device="cuda", log=log), counts={}, warmup=0)


def repeat(step: Step, seconds: float) -> None:
    """*step* again and again for some seconds, with the host at most `loop.IN_FLIGHT` ahead of the GPU."""
    import torch

    ends: list[torch.cuda.Event] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        step()
        ends.append(torch.cuda.Event())
        ends[-1].record()
        if len(ends) > loop.IN_FLIGHT:
            ends.pop(0).synchronize()
    torch.cuda.synchronize()


def sized(**changed: int) -> argparse.Namespace:
    """`SIZES`, but for those *changed*."""
    return argparse.Namespace(**{**SIZES, **changed})


def training_step(training: decoder.Training, tokens: Any) -> Step:
    def step() -> None:
        training.optimizer.zero_grad(set_to_none=True)
        training.loss(tokens).backward()
        training.optimizer.step()

    return step


def compiled() -> Step:
    """torch.compile: the host compiles while the GPU has nothing to do."""
    import torch

    training = decoder.build(sized(layers=2))
    training.model.compile()
    step = training_step(training, decoder.batch_of(sized()))
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    return step


def autotuned() -> Step:
    """Each of sixteen ways to cut a product into pieces is timed for half a second; the fastest is used."""
    import torch

    a = torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(4096, 8192, device="cuda", dtype=torch.bfloat16)

    def with_pieces(count: int) -> Step:
        return lambda: [torch.relu(rows @ b) for rows in a.chunk(count)]

    took: dict[int, float] = {}
    for count in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 56, 64, 80, 96, 128):
        step, done, began = with_pieces(count), 0, time.monotonic()
        while time.monotonic() - began < 0.5:
            step()
            torch.cuda.synchronize()
            done += 1
        took[count] = (time.monotonic() - began) / done
    return with_pieces(min(took, key=took.__getitem__))


def cudnn_benchmark() -> Step:
    """
    cudnn.benchmark: in the first step algorithms are built and timed for each layer.

    The batch keeps the GPU busy: a program that waits for its host gets faster for seconds afterwards.
    """
    import torch
    import torchvision

    torch.backends.cudnn.benchmark = True
    model = torchvision.models.resnet50(weights=None).to("cuda", memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    images = torch.randn(256, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (256,), device="cuda")

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    step()
    return step


def cuda_graph() -> Step:
    """Eight seconds of eager steps that the host launches too slowly, then the same from a CUDA graph."""
    import torch

    layers = (torch.nn.Linear(1024, 1024) for _ in range(60))
    model = torch.nn.Sequential(*layers).cuda().requires_grad_(False)
    x = torch.randn(64, 1024, device="cuda")
    repeat(lambda: model(x), 8.0)
    return loop.captured(lambda: model(x))


def cold_cache() -> Step:
    """In the first epoch each batch is waited for; from the second on all are at hand."""
    training = decoder.build(sized())
    batches = [decoder.batch_of(sized()) for _ in range(8)]
    steps = [training_step(training, tokens) for tokens in batches]
    turn = 0

    def step() -> None:
        nonlocal turn
        steps[turn % len(steps)]()
        turn += 1

    def waiting() -> None:
        time.sleep(0.06)
        step()

    repeat(waiting, 9.0)
    return step


def longer_texts() -> Step:
    """A curriculum: nine seconds with short texts, then long ones. Both are work, of different shapes."""
    training = decoder.build(sized())
    repeat(training_step(training, decoder.batch_of(sized(), sequence=64)), 9.0)
    return training_step(training, decoder.batch_of(sized()))


def batch_size_search() -> Step:
    """Growing batches are tried, each for 1.2 s, with the cache emptied between; then a small one is used."""
    import torch

    training = decoder.build(sized())
    for size in (1, 4, 8, 16, 24, 32):
        torch.cuda.empty_cache()
        repeat(training_step(training, decoder.batch_of(sized(batch=size))), 1.2)
    return training_step(training, decoder.batch_of(sized(batch=2)))


def weights_on_the_host() -> Step:
    """Weights are made by the host and only then moved to the GPU, which was idle until then."""
    import torch

    torch.set_num_threads(1)
    began = time.monotonic()
    layers = [torch.nn.Linear(4096, 4096) for _ in range(4)]
    while time.monotonic() - began < 7.0:
        for layer in layers:
            torch.nn.init.trunc_normal_(layer.weight, std=0.02)
    model = torch.nn.Sequential(*layers).to("cuda", torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        optimizer.step()

    step()
    return step


CASES: dict[str, Callable[[], Step]] = {
    "compiled": compiled,
    "autotuned": autotuned,
    "cudnn_benchmark": cudnn_benchmark,
    "cuda_graph": cuda_graph,
    "cold_cache": cold_cache,
    "longer_texts": longer_texts,
    "batch_size_search": batch_size_search,
    "weights_on_the_host": weights_on_the_host,
}


if __name__ == "__main__":
    main()
