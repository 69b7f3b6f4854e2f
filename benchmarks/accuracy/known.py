"""
Bursts of operations of known size, each between two silences, and a log of when they ran.

perfzero observes this program from outside, then `run.py` holds the counters against the log. Each
line of the log is a burst: {"case", "start_ns", "end_ns", "count", "amounts": {quantity: total}}.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass

GAP_S = 0.3
"""Silence before and after a burst: hundreds of samples, so that no operation falls outside."""

LEAD_IN_S = 5.0
"""Work before the first burst: a recorder opens its session once it sees the GPU work, and settles."""

GIB, MIB = 1 << 30, 1 << 20


@dataclass(frozen=True)
class Burst:
    """*count* calls of *operation*, which together amount to *amounts*."""

    case: str
    operation: Callable[[], object]
    count: int
    amounts: dict[str, float]


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--log", required=True, help="file for one line of JSON per burst")
    p.add_argument("--repeats", type=int, default=6)
    p.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cpu is for a dry run only")
    p.add_argument("--scale", type=float, default=1.0, help="share of the operations, for a dry run")
    return p


def bursts(device: str, scale: float) -> list[Burst]:
    """All bursts. Each lasts 0.15 to 0.4 s on an H200."""
    import torch

    def times(count: int) -> int:
        return max(1, round(count * scale))

    side = 8192 if device == "cuda" else 256
    size = GIB if device == "cuda" else 8 * MIB
    block = 256 * MIB if device == "cuda" else 2 * MIB
    pin = device == "cuda"

    a = torch.randn(size // 4, device=device)
    b = torch.empty_like(a)
    host = torch.randn(block // 4)
    host = host.pin_memory() if pin else host
    board = torch.empty(block // 4, device=device)
    x = torch.randn(side, side, device=device, dtype=torch.bfloat16)
    y = torch.randn(side, side, device=device, dtype=torch.bfloat16)
    out = torch.empty_like(x)
    small = torch.zeros(1024, device=device)

    copies, blocks, products, launches, replays = (times(n) for n in (400, 50, 200, 20_000, 20))
    made = [
        Burst(
            "device copy", lambda: b.copy_(a), copies,
            {"dram_read_bytes": size * copies, "dram_write_bytes": size * copies},
        ),
        Burst(
            "pinned host to device", lambda: board.copy_(host, non_blocking=True), blocks,
            {"pcie_rx_bytes": block * blocks},
        ),
        Burst(
            "pinned device to host", lambda: host.copy_(board, non_blocking=True), blocks,
            {"pcie_tx_bytes": block * blocks},
        ),
        Burst("bf16 product", lambda: torch.mm(x, y, out=out), products, {"flops": 2 * side**3 * products}),
        Burst("eager launches", lambda: small.add_(1), launches, {"launches": launches}),
    ]  # fmt: skip
    if device == "cuda":
        per_graph = 1000
        graph = torch.cuda.CUDAGraph()
        small.add_(1)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            for _ in range(per_graph):
                small.add_(1)
        made.append(Burst("graph launches", graph.replay, replays, {"launches": per_graph * replays}))
    return made


def main() -> None:
    args = parser().parse_args()
    import torch

    def wait() -> None:
        if args.device == "cuda":
            torch.cuda.synchronize()

    torch.manual_seed(0)
    planned = bursts(args.device, args.scale)
    for burst in planned:  # loads kernels, chooses algorithms
        burst.operation()
    wait()
    lead_in = time.monotonic() + LEAD_IN_S * args.scale
    while time.monotonic() < lead_in:
        planned[0].operation()
        wait()
    with open(args.log, "w") as log:
        for _ in range(args.repeats):
            for burst in planned:
                time.sleep(GAP_S)
                start_ns = time.time_ns()
                for _ in range(burst.count):
                    burst.operation()
                wait()
                end_ns = time.time_ns()
                time.sleep(GAP_S)
                row = {"case": burst.case, "start_ns": start_ns, "end_ns": end_ns, "count": burst.count}
                log.write(json.dumps({**row, "amounts": burst.amounts}) + "\n")
                log.flush()


if __name__ == "__main__":
    main()
