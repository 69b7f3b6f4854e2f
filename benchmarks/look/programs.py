"""
Programs with a fixed number of steps that give the same result each time, to see whether a look changes it.

    python benchmarks/look/programs.py CASE --steps 400 --log FILE

Each prints its loss ten times, to the last digit, and ends with exit code 7. Into FILE goes one row per step
(zoo/loop.py), and into FILE.pace how long the host took for the same piece of work after each.
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

TURNS = 2000
"""Of an empty loop, after each step: some 50 µs by which one sees how fast the host is just then."""


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("case", choices=sorted(CASES))
    p.add_argument("--steps", type=int, required=True)
    p.add_argument("--device", default="cuda")
    p.add_argument("--log", type=Path, required=True, help="file for one row per step")
    return p


def pace_log(log: Path) -> Path:
    return log.with_name(f"{log.name}.pace")


def main() -> int:
    args = parser().parse_args()
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # cuBLAS is deterministic with it
    import torch

    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    step = CASES[args.case](args.device)
    ended = time.perf_counter()
    with open(args.log, "wb", buffering=0) as log, open(pace_log(args.log), "wb", buffering=0) as paces:
        for number in range(args.steps):
            loss = step()
            if args.device == "cuda":
                torch.cuda.synchronize()
            began, ended = ended, time.perf_counter()
            log.write(loop.ROW.pack(time.time_ns(), (ended - began) * 1e3))
            for _ in range(TURNS):
                pass
            now = time.perf_counter()
            paces.write(loop.ROW.pack(time.time_ns(), (now - ended) * 1e3))
            ended = now
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


def small(device: str) -> Step:
    """Kernels of some microseconds, one by one: the host sets the pace."""
    model = perceptron(64, 100, device)
    return trained(model, model, width=64, device=device)


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


def decode(device: str) -> Step:
    """
    A token for each of 32 sequences, as inference servers make them: all of the model is one CUDA graph.

    A step is one token; what is kept of the earlier ones is written over when its window is full.
    """
    import torch
    from torch import nn
    from torch.nn import functional

    width, heads, layers, window, batch, vocabulary = 2048, 16, 16, 1024, 32, 32_000

    class Layer(nn.Module):
        keys: Any
        values: Any

        def __init__(self) -> None:
            super().__init__()
            self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for name in ("keys", "values"):
                self.register_buffer(name, torch.zeros(batch, heads, window, width // heads))

        def forward(self, x: Any, at: Any, seen: Any) -> Any:
            q, k, v = self.qkv(self.norm(x)).view(batch, 3, heads, 1, -1).unbind(1)
            self.keys.index_copy_(2, at, k)
            self.values.index_copy_(2, at, v)
            mixed = functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen)
            x = x + self.out(mixed.reshape(batch, width))
            return x + self.mlp(self.norm2(x))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(vocabulary, width)
            self.layers = nn.ModuleList(Layer() for _ in range(layers))
            self.head = nn.Linear(width, vocabulary, bias=False)

        def forward(self, tokens: Any, at: Any) -> Any:
            seen = (torch.arange(window, device=tokens.device) <= at).view(1, window)
            x = self.embedding(tokens)
            for layer in self.layers:
                x = layer(x, at, seen)
            return self.head(x)

    model = Model().to(device, torch.bfloat16).requires_grad_(False).eval()
    tokens = torch.arange(batch, device=device)
    at = torch.zeros(1, dtype=torch.long, device=device)

    def token() -> None:
        tokens.copy_(model(tokens, at).argmax(-1))
        at.add_(1).remainder_(window)

    replay = captured(token, device)

    def step() -> Any:
        replay()
        return tokens.double().mean()

    return step


def captured(work: Callable[[], None], device: str) -> Callable[[], None]:
    """*work* as the replay of a CUDA graph; on a CPU there is none."""
    import torch

    if device != "cuda":
        return work
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()

    def replay() -> None:
        graph.replay()

    return replay


CASES: dict[str, Callable[[str], Step]] = {
    "resnet50": resnet50,
    "accumulated": accumulated,
    "compiled": compiled,
    "small": small,
    "adversaries": adversaries,
    "inference": inference,
    "decode": decode,
}


if __name__ == "__main__":
    sys.exit(main())
