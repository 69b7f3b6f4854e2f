"""
Programs whose steps are known, as hardware counters would show them: seeded, and exact but for the noise.

Model: a step takes `step_s` times (1 + jitter * normal), every phase of it stretched alike. Nine
tenths of it are `micro` equal micro-steps of forward and backward, a few percent the optimizer,
the rest a wait for the host. A sample is the mean over its interval of piecewise constant
levels; noise is white, a share of each channel's full scale. Samples are lost one by one or in
runs. The twins have no step: noise, a constant load, work of random length, bursts of requests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from perfzero.counters import BY_NAME
from perfzero.series.steps import NoSteps, Steps, find_steps
from perfzero.values import FloatArray, IntArray, Samples

START_NS = 1_700_000_000_000_000_000

FULL = {
    "gr_active": 1.0,
    "sm_active": 1.0,
    "tensor_active": 1.0,
    "dram_read_bytes": 4e12,
    "dram_write_bytes": 4e12,
    "pcie_rx_bytes": 5e10,
    "launches": 50e3,
}
"""Full scale of each channel; amounts are per second."""

# Levels as shares of full scale, in the order of FULL.
COPY = (0.05, 0.0, 0.0, 0.0, 0.02, 0.9, 0.02)
FORWARD = (1.0, 0.95, 0.75, 0.35, 0.2, 0.0, 0.3)
BACKWARD = (1.0, 0.9, 0.55, 0.45, 0.35, 0.0, 0.2)
OPTIMIZER = (1.0, 0.85, 0.0, 0.6, 0.6, 0.0, 0.8)
WAIT = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Program:
    """What a training loop does; times in seconds."""

    step_s: float
    jitter: float = 0.01
    micro: int = 1
    stall_every: int | None = None
    stall_steps: float = 5.0
    wait: float = 0.05


@dataclass(frozen=True)
class Timeline:
    """Levels (phases, channels) that begin at `edges_s` (phases,), and where steps begin (steps,)."""

    edges_s: FloatArray
    levels: FloatArray
    starts_s: FloatArray
    mean_step_s: float


def train(program: Program, *, seconds: float, seed: int) -> Timeline:
    """A training loop of *seconds*."""
    rng = np.random.default_rng(seed)
    pattern: list[tuple[float, tuple[float, ...]]] = []
    optimizer = 0.05
    work = 1.0 - optimizer - program.wait
    for _ in range(program.micro):
        pattern += [
            (work * 0.04 / program.micro, COPY),
            (work * 0.32 / program.micro, FORWARD),
            (work * 0.64 / program.micro, BACKWARD),
        ]
    pattern += [(optimizer, OPTIMIZER), (program.wait, WAIT)]
    share = np.array([p for p, _ in pattern])
    level = np.array([v for _, v in pattern])
    lengths: list[FloatArray] = []
    levels: list[FloatArray] = []
    starts: list[float] = []
    steps: list[float] = []
    at = 0.0
    while at < seconds:
        one = program.step_s * max(0.2, 1.0 + program.jitter * rng.standard_normal())
        starts.append(at)
        steps.append(one)
        lengths.append(share * one)
        levels.append(level)
        at += one
        if program.stall_every and len(steps) % program.stall_every == 0:
            stall = program.stall_steps * program.step_s
            lengths.append(np.array([stall]))
            levels.append(np.array([WAIT]))
            at += stall
    return Timeline(
        np.r_[0.0, np.cumsum(np.concatenate(lengths))],
        np.concatenate(levels),
        np.array(starts),
        float(np.mean(steps)),
    )


def sampled(
    timeline: Timeline,
    *,
    seconds: float,
    period_s: float,
    noise: float,
    seed: int,
    dropped: float = 0.0,
    run: int = 1,
    windows: tuple[tuple[float, float], ...] | None = None,
) -> Samples:
    """The *timeline* as sampled inside *windows*, with *dropped* of the samples lost in runs of *run*."""
    rng = np.random.default_rng(seed + 7919)
    count = int(seconds / period_s)
    at = np.arange(count + 1) * period_s
    amounts = np.cumsum(timeline.levels * np.diff(timeline.edges_s)[:, None], axis=0)
    integral = np.vstack([np.zeros(timeline.levels.shape[1]), amounts])
    columns: dict[str, FloatArray] = {}
    for i, (name, full) in enumerate(FULL.items()):
        mean = np.diff(np.interp(at, timeline.edges_s, integral[:, i])) / period_s
        value = np.clip(mean + noise * rng.standard_normal(count), 0.0, 1.0) * full
        columns[name] = value * period_s if BY_NAME[name].kind == "total" else value
    edges = START_NS + np.rint(at * 1e9).astype(np.int64)
    keep = np.ones(count, np.bool_)
    if dropped:
        for first in np.flatnonzero(rng.random(count) < dropped / run):
            keep[first : first + run] = False
    if windows is not None:
        keep &= np.any([(at[:-1] >= a) & (at[1:] <= b) for a, b in windows], axis=0)
    return Samples(edges[:-1], edges[1:], columns).where(keep)


def _random_timeline(lengths: FloatArray, levels: FloatArray) -> Timeline:
    return Timeline(np.r_[0.0, np.cumsum(lengths)], levels, np.empty(0), float("nan"))


def constant(*, seconds: float) -> Timeline:
    """One level for ever."""
    return _random_timeline(np.array([seconds]), np.array([FORWARD]))


def exponential(*, seconds: float, mean_s: float, seed: int) -> Timeline:
    """Work of exponentially distributed length, each with its copy, its optimizer and its wait."""
    rng = np.random.default_rng(seed)
    works = rng.exponential(mean_s, int(3 * seconds / mean_s) + 10)
    shares = np.array([0.05, 0.3, 0.5, 0.05, 0.1])
    levels = np.array([COPY, FORWARD, BACKWARD, OPTIMIZER, WAIT])
    return _random_timeline((works[:, None] * shares).ravel(), np.tile(levels, (len(works), 1)))


def serving(*, seconds: float, mean_s: float, seed: int) -> Timeline:
    """Requests that come at random: a prefill and a decode of random length, then idle."""
    rng = np.random.default_rng(seed)
    count = int(3 * seconds / mean_s) + 10
    prefill = rng.gamma(2.0, 0.05 * mean_s, count)
    decode = rng.gamma(1.5, 0.3 * mean_s, count)
    idle = rng.exponential(0.4 * mean_s, count)
    lengths = np.column_stack([prefill * 0.1, prefill, decode, idle]).ravel()
    read = (1.0, 0.6, 0.08, 0.85, 0.05, 0.0, 0.4)
    return _random_timeline(lengths, np.tile(np.array([COPY, FORWARD, read, WAIT]), (count, 1)))


def walk(*, seconds: float, mean_s: float, seed: int) -> Timeline:
    """Levels of each channel that wander between kinds of work without a plan (a Markov chain)."""
    rng = np.random.default_rng(seed)
    count = int(3 * seconds / mean_s) + 10
    kinds = np.array([COPY, FORWARD, BACKWARD, OPTIMIZER, WAIT])
    return _random_timeline(rng.gamma(2.0, mean_s / 2, count), kinds[rng.integers(0, len(kinds), count)])


BURSTS = ((0.0, 0.05), (0.5, 0.55), (1.0, 1.05), (1.5, 1.55))
"""Zoom bursts of 50 ms, in seconds since the start."""


def watched(
    timeline: Timeline, *, seconds: float, seed: int, noise: float = 0.08, dropped: float = 0.0
) -> tuple[Samples, Samples]:
    """One long window at 1 ms, and zoom bursts at 20 µs."""
    window = sampled(timeline, seconds=seconds, period_s=0.001, noise=noise, seed=seed, dropped=dropped)
    zoom = sampled(
        timeline, seconds=1.55, period_s=2e-5, noise=noise, seed=seed + 1, dropped=dropped, windows=BURSTS
    )
    return window, zoom


def mean_between(timeline: Timeline, starts_ns: IntArray, *, longest_s: float) -> float:
    """
    Mean of the true steps that lie between neighbouring *starts_ns*: what was there to be measured.

    Steps, and distances of starts, of more than *longest_s* hold a stall or a hole and are left out.
    """
    found = (starts_ns - START_NS) / 1e9
    length = np.diff(timeline.starts_s)
    begin = timeline.starts_s[:-1]
    seen = np.zeros(len(length), np.bool_)
    half = 0.5 * timeline.mean_step_s
    for a, b in pairwise(found):
        if b - a <= longest_s:
            seen |= (begin >= a - half) & (begin < b - half)
    seen &= length <= longest_s
    return float(np.mean(length[seen])) if seen.any() else float("nan")


def verdict(program: Program, *, seed: int, dropped: float = 0.0, noise: float = 0.08) -> str:
    """What `find_steps` makes of *program*: "right" (within 2 %), "none" or "wrong"."""
    seconds = max(40 * program.step_s, 4.0)
    timeline = train(program, seconds=seconds + 1.0, seed=seed)
    found = find_steps(*watched(timeline, seconds=seconds, seed=seed, noise=noise, dropped=dropped))
    if isinstance(found, NoSteps):
        return "none"
    true = mean_between(timeline, found.starts_ns, longest_s=2.5 * program.step_s)
    return "right" if abs(found.step_s / true - 1.0) <= 0.02 else "wrong"


PROGRAMS = {
    "even steps": Program(0.1, jitter=0.01),
    "5 % jitter": Program(0.1, jitter=0.05),
    "15 % jitter": Program(0.1, jitter=0.15),
    "4 micro-steps, 15 % jitter": Program(0.1, jitter=0.15, micro=4),
    "8 micro-steps, 5 % jitter": Program(0.1, jitter=0.05, micro=8),
    "8 micro-steps, 15 % jitter": Program(0.1, jitter=0.15, micro=8),
    "a stall every 20 steps, 5 % jitter": Program(0.1, jitter=0.05, stall_every=20),
    "8 micro-steps, 15 % jitter, a stall every 50": Program(0.1, jitter=0.15, micro=8, stall_every=50),
}
"""The programs of the table in docs/steps.md; their step time is put in."""


def of_length(program: Program, step_s: float) -> Program:
    """*program* with steps of *step_s* seconds."""
    return replace(program, step_s=step_s)


def too_fast(*, seed: int, jitter: float) -> tuple[Timeline, Samples, Samples]:
    """Steps of 0.6 to 9.5 ms with a wait of 5 to 70 %, a window at 2 ms, and one burst at 20 µs."""
    rng = np.random.default_rng(seed)
    program = Program(float(rng.uniform(0.0006, 0.0095)), jitter=jitter, wait=float(rng.uniform(0.05, 0.7)))
    timeline = train(program, seconds=6.5, seed=seed)
    noise = 0.0 if seed % 2 else 0.02
    window = sampled(timeline, seconds=6.0, period_s=0.002, noise=noise, seed=seed)
    burst = sampled(timeline, seconds=0.05, period_s=2e-5, noise=0.02, seed=seed + 1)
    return timeline, window, burst


STEPLESS = ("white noise", "constant load", "work of random length", "bursts of requests", "kinds at random")


def stepless(kind: str, *, mean_s: float, seed: int) -> tuple[Samples, Samples]:
    """Tables of something that has no step; lengths are random around *mean_s*."""
    seconds = 8.0
    if kind == "white noise":
        half = Timeline(
            np.array([0.0, seconds + 1.0]), np.full((1, len(FULL)), 0.5), np.empty(0), float("nan")
        )
        return watched(half, seconds=seconds, seed=seed, noise=0.15)
    if kind == "constant load":
        return watched(constant(seconds=seconds + 1), seconds=seconds, seed=seed)
    make = {"work of random length": exponential, "bursts of requests": serving, "kinds at random": walk}[
        kind
    ]
    return watched(make(seconds=seconds + 1, mean_s=mean_s, seed=seed), seconds=seconds, seed=seed)


def even_steps(step_s: float) -> Steps:
    """What is found where nine steps take *step_s* each."""
    nowhere = np.empty(0, np.int64)
    return Steps(
        step_s, step_s, step_s, jitter=0.0, micro_s=None, micro_per_step=None, starts_ns=nowhere,
        seen_ns=nowhere.reshape(0, 2), how="anchor", count=9,
    )  # fmt: skip
