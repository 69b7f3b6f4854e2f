"""Stacks and the idle time beside them: recorded of programs with a simulated GPU, or written by hand."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from perfzero.attribute.stacks import Cause, HostCauses, host_causes
from perfzero.stacks import Frame, HostStacks, ProcessStacks
from perfzero.store.stacks import read_stacks
from perfzero.values import IntArray, Samples

RECORDED = Path(__file__).parent / "fixtures" / "stacks"
MS = 1_000_000
HZ = 250.0


def pm(edges_ns: IntArray, *, period_ns: int) -> Samples:
    """GR activity of a GPU that is busy between the edges 0 and 1, 2 and 3, and so on."""
    starts, lengths = edges_ns[0::2], edges_ns[1::2] - edges_ns[0::2]
    before = np.concatenate([[0], np.cumsum(lengths)])
    at = np.arange(edges_ns[0], edges_ns[-1], period_ns)
    place = np.searchsorted(starts, at, side="right") - 1
    busy = before[place] + np.minimum(at - starts[place], lengths[place])
    return Samples(at[:-1], at[1:], {"gr_active": np.clip(np.diff(busy) / period_ns, 0.0, 1.0)})


def recorded(case: str, *, period_ns: int) -> tuple[HostCauses, float]:
    """What is told of a recorded program, and which share of the idle time its planted line has."""
    truth = json.loads(gzip.decompress((RECORDED / case / "busy.json.gz").read_bytes()))
    edges_ns = (truth["start_us"] + np.cumsum(truth["edges_us"])) * 1000
    return host_causes(read_stacks(RECORDED / case), pm(edges_ns, period_ns=period_ns)), truth["truth"]


def by_text(found: HostCauses, text: str) -> Cause:
    return next(c for c in found.causes if c.text == text)


LINES = {
    1: "main()",
    10: "for x in loader:",
    11: "loss.item()",
    12: "y = step(x)",
    13: "time.sleep(1)",
    20: "torch.cuda.synchronize()",
    21: "torch.save(state, Upload())",
}
MODULE = Frame("/job/train.py", 1, "<module>")
LOADER = Frame("/v/site-packages/torch/utils/data/dataloader.py", 5, "__next__")
CALL = Frame("/v/site-packages/torch/nn/modules/module.py", 5, "_call_impl")


def at(line: int, *inner: Frame) -> tuple[Frame, ...]:
    return (*inner, Frame("/job/train.py", line, "main"), MODULE)


Part = tuple[tuple[Frame, ...], float, Sequence[tuple[float, float]]]
"""A stack, how long it lasts in ms, and when in that time the GPU is busy (from, to)."""


def made(parts: Sequence[Part], *, seconds: float = 10.0, seed: int = 1) -> tuple[HostStacks, Samples]:
    """A program that does *parts* again and again, sampled as py-spy does, and its GPU."""
    draw = np.random.default_rng(seed)
    length_ms = sum(length for _, length, _ in parts)
    ends = np.cumsum([length for _, length, _ in parts])
    busy = [
        (a + end - n, b + end - n) for (_, n, when), end in zip(parts, ends, strict=True) for a, b in when
    ]
    repeats = int(seconds * 1e3 / length_ms)
    edges = np.array([(k * length_ms + a, k * length_ms + b) for k in range(repeats) for a, b in busy])
    edges = np.append(edges.ravel(), [seconds * 1e3 + 1, seconds * 1e3 + 2])
    moments = np.cumsum(draw.exponential(1e3 / HZ, int(seconds * HZ)))
    kind = np.searchsorted(ends, moments % length_ms, side="right")
    new = np.append(True, kind[1:] != kind[:-1])
    frames = list(dict.fromkeys(f for stack, _, _ in parts for f in stack))
    end_ns = int(seconds * 1e9)
    main = ProcessStacks(
        pid=1, role="main", start_ns=0, end_ns=end_ns, rate_hz=HZ, slack_ns=4 * MS,
        time_ns=(moments[new] * MS).astype(np.int64), thread=np.zeros(new.sum(), np.int64), stack=kind[new],
        frames=tuple(frames), stacks=tuple(tuple(map(frames.index, stack)) for stack, _, _ in parts),
    )  # fmt: skip
    lines = {("/job/train.py", line): text for line, text in LINES.items()}
    return HostStacks((main,), lines), pm((edges * MS).astype(np.int64), period_ns=2 * MS)
