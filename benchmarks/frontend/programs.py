"""
Programs whose GPU is idle for one known reason, as a user would write them.

    python benchmarks/frontend/programs.py CASE --seconds 3

Each repeats one step until the time is over and prints a line of JSON: how many steps, and how long one
took by the program's own clock. `CASES` says what keeps the GPU from working in each.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable

CASES = {
    "gemm": "nothing: products follow each other without a gap",
    "graph": "nothing: tiny kernels replayed from a CUDA graph",
    "resnet50": "nothing: training steps of a ResNet-50 in bf16",
    "eager_tiny": "the host: it launches tiny kernels more slowly than they run",
    "item": "the host: it reads each result back before it launches the next kernel",
    "sleep": "the host: it sleeps 10 ms between steps",
    "python": "the host: it computes in Python for 10 ms between steps",
    "copy_same_stream": "a copy from pinned memory in the same stream, before the kernel that needs it",
    "copy_side_stream": "a copy from pinned memory in another stream, for which the kernel's stream waits",
    "copy_back": "a copy to pinned memory in the same stream, after the kernel, and the host reads it",
    "pageable": "a copy from pageable memory, which the driver stages",
    "callback": "a host function in the stream, which sleeps 5 ms; the next kernel is already queued",
    "two_streams": "nothing: two streams take turns by events, each waits for the other's kernel",
    "shared": "nothing of its own, but another process uses the GPU as well",
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("case", choices=sorted(CASES))
    parser.add_argument("--seconds", type=float, default=3.0)
    args = parser.parse_args()
    step, depth = STEPS[args.case]()
    import torch

    for _ in range(5):
        step()
    torch.cuda.synchronize()
    ends: list[torch.cuda.Event] = []
    print("ready", flush=True)
    begun = time.monotonic()
    count = 0
    while time.monotonic() - begun < args.seconds:
        step()
        count += 1
        event = torch.cuda.Event()
        event.record()
        ends.append(event)
        if len(ends) > depth:  # the host runs ahead by so many steps
            ends.pop(0).synchronize()
    torch.cuda.synchronize()
    took = time.monotonic() - begun
    print(json.dumps({"case": args.case, "steps": count, "step_ms": round(1e3 * took / count, 4)}))
    return 0


Step = Callable[[], object]


def product(size: int, dtype: str = "bfloat16") -> Step:
    """A matrix product; 2048: 25 us, 4096: 0.2 ms, 8192: 1.7 ms on an H200."""
    import torch

    a, b = (torch.randn(size, size, device="cuda", dtype=getattr(torch, dtype)) for _ in range(2))
    return lambda: torch.mm(a, b)


def gemm() -> tuple[Step, int]:
    return product(8192), 8


def tiny(*, graph: bool) -> tuple[Step, int]:
    import torch

    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(50))).cuda().eval()
    x = torch.randn(1, 64, device="cuda")

    def eager() -> object:
        with torch.inference_mode():
            return model(x)

    if not graph:
        return eager, 4
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            eager()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        eager()
    return captured.replay, 8


def resnet50() -> tuple[Step, int]:
    import torch
    import torchvision

    model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    images = torch.randn(128, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (128,), device="cuda")

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step, 2


def item() -> tuple[Step, int]:
    work = product(4096)
    return lambda: work().sum().item(), 8  # type: ignore[attr-defined]


def host(pause: Callable[[], object]) -> tuple[Step, int]:
    import torch

    work = product(8192)

    def step() -> None:
        for _ in range(3):
            work()
        torch.cuda.synchronize()
        pause()

    return step, 1


def spin() -> None:
    end = time.perf_counter() + 0.010
    while time.perf_counter() < end:
        sum(range(100))


def copy_same_stream() -> tuple[Step, int]:
    import torch

    source = torch.randn(64 << 18).pin_memory()
    target = torch.empty_like(source, device="cuda")
    work = product(4096)

    def step() -> None:
        target.copy_(source, non_blocking=True)
        work()

    return step, 4


def copy_side_stream() -> tuple[Step, int]:
    import torch

    source = torch.randn(64 << 18).pin_memory()
    target = torch.empty_like(source, device="cuda")
    side = torch.cuda.Stream()
    work = product(4096)

    def step() -> None:
        with torch.cuda.stream(side):
            target.copy_(source, non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        work()
        side.wait_stream(torch.cuda.current_stream())

    return step, 4


def copy_back() -> tuple[Step, int]:
    import torch

    source = torch.randn(64 << 18, device="cuda")
    target = torch.empty_like(source, device="cpu").pin_memory()
    work = product(4096)

    def step() -> float:
        work()
        target.copy_(source, non_blocking=True)
        torch.cuda.synchronize()
        return float(target[0])

    return step, 1


def pageable() -> tuple[Step, int]:
    import torch

    source = torch.randn(64 << 18)
    work = product(4096)

    def step() -> None:
        source.to("cuda")
        work()

    return step, 4


def callback() -> tuple[Step, int]:
    import cupy
    import torch

    work = product(8192)
    stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)

    def step() -> None:
        work()
        stream.launch_host_func(lambda _: time.sleep(0.005), None)
        work()

    return step, 4


def two_streams() -> tuple[Step, int]:
    import torch

    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    work = product(4096)

    def step() -> None:
        for this, other in ((first, second), (second, first)):
            this.wait_stream(other)
            with torch.cuda.stream(this):
                work()
        torch.cuda.current_stream().wait_stream(second)

    return step, 8


STEPS: dict[str, Callable[[], tuple[Step, int]]] = {
    "gemm": gemm,
    "graph": lambda: tiny(graph=True),
    "resnet50": resnet50,
    "eager_tiny": lambda: tiny(graph=False),
    "item": item,
    "sleep": lambda: host(lambda: time.sleep(0.010)),
    "python": lambda: host(spin),
    "copy_same_stream": copy_same_stream,
    "copy_side_stream": copy_side_stream,
    "copy_back": copy_back,
    "pageable": pageable,
    "callback": callback,
    "two_streams": two_streams,
    "shared": gemm,
}

if __name__ == "__main__":
    sys.exit(main())
