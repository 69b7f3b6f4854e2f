"""
Runs whose warm-up ends at a known moment, as perfzero would have recorded them.

Model: the program's level in each channel is a function of time, at 50 ms. On it lie the jitter of
steps (each its own), a slow wander that remembers itself over 5 s, and the noise of the counter.
From that come GPM's rows: every 0.6 s until the recorder looks closely and every 4 s from then on,
those before windows short and often a quarter off (0.2 s: dram_active 0.58 for 0.47, H200).
Windows of the hardware counters carry samples of 50 ms here, in the recorder's pattern.
Steps are those of the program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from perfzero.values import Samples

START_NS = 1_700_000_000_000_000_000
SECOND_NS = 1_000_000_000
TICK_S = 0.05

GPM_EARLY_S = 0.6
"""What 0.5 s come to on the H200, for the recorder's own turns."""

GPM_S = 4.0

AS_GPM = ("gr_active", "sm_active", "tensor_active", "dram_active", "pcie_rx_bytes")

WORK = {"gr_active": 0.96, "sm_active": 0.85, "tensor_active": 0.4, "dram_active": 0.45, "pcie_rx_bytes": 3e8}


@dataclass(frozen=True)
class Run:
    """One simulated recording: what was seen, and what is true of it."""

    gpm: Samples
    pm: Samples
    steps: tuple[np.ndarray, np.ndarray]
    start_ns: int
    end_ns: int
    over_s: float  # when the warm-up is over
    settled_s: float  # from when on the recorder looked closely, and at GPM rarely
    kind: str
    worked_until_s: float


@dataclass
class Program:
    """Speed and level of a program over time: *parts* say from when on which share of `WORK` holds."""

    rng: np.random.Generator
    length_s: float
    ticks: np.ndarray = field(init=False)
    levels: dict[str, np.ndarray] = field(init=False)
    pace: np.ndarray = field(init=False)  # steps per second, relative to the steady ones

    def __post_init__(self) -> None:
        self.ticks = np.arange(round(self.length_s / TICK_S)) * TICK_S
        self.levels = {n: np.zeros(len(self.ticks)) for n in WORK}
        self.pace = np.zeros(len(self.ticks))

    def between(self, start_s: float, end_s: float, share=1.0, *, pace=None, **unlike: float) -> None:
        """From *start_s* to *end_s* at *share* of the work's level (a number, or a function of time)."""
        where = (self.ticks >= start_s) & (self.ticks < end_s)
        shares = share(self.ticks[where]) if callable(share) else share
        for name, level in WORK.items():
            self.levels[name][where] = np.minimum(level * shares * unlike.get(name, 1.0), 1e12)
        self.pace[where] = shares if pace is None else pace


def _compile(p: Program, over: float) -> None:
    """torch.compile: the model is put onto the GPU, then the host compiles, then steps."""
    start = over * p.rng.uniform(0.1, 0.3)
    p.between(start, start + 0.4, 0.3, pace=0)
    for at in p.rng.uniform(start, over - 2.0, p.rng.integers(0, 4)):
        p.between(at, at + 0.1, 0.5, pace=0)
    p.between(over, p.length_s)


def _autotune(p: Program, over: float) -> None:
    """cudnn.benchmark, max-autotune: bursts of unlike kernels between pauses on the host."""
    at = over * p.rng.uniform(0.1, 0.4)
    busy = p.rng.uniform(0.02, 0.5)
    while at < over:
        burst, pause = p.rng.uniform(0.05, 1.2), p.rng.uniform(0.1, 1.5)
        p.between(at, min(over, at + burst), busy * p.rng.uniform(0.3, 1.7), pace=0.1)
        at += burst + pause
    p.between(over, p.length_s)


def _graphs(p: Program, over: float) -> None:
    """CUDA graphs: some eager steps, a second of capture, then replay."""
    begin = over * p.rng.uniform(0.2, 0.4)
    eager = p.rng.uniform(0.4, 0.8)
    p.between(begin, over - 1.0, eager)
    p.between(over - 1.0, over, 0.1, pace=0)
    p.between(over, p.length_s)


def _cache(p: Program, over: float) -> None:
    """The first epoch reads from the disk, later ones from memory."""
    p.between(2.0, over, p.rng.uniform(0.4, 0.8))
    p.between(over, p.length_s)


def _phases(p: Program, over: float) -> None:
    """A learning-rate phase with other shapes, then the one that stays: both are work."""
    p.between(2.0, over, p.rng.uniform(0.75, 1.0), pace=0.6, tensor_active=0.5, dram_active=1.3)
    p.between(over, p.length_s)


def _clocks(p: Program, over: float) -> None:
    """Clocks that rise for some seconds; the GPU is busy all the while."""
    low = p.rng.uniform(0.6, 0.85)
    # Over at 97 % of the level: there the straight line is by then.
    rise = lambda t: np.minimum(1.0, low + (0.97 - low) * (t - 2.0) / (over - 2.0))  # noqa: E731
    p.between(2.0, p.length_s, rise)
    p.levels["gr_active"][p.ticks >= 2.0] = WORK["gr_active"]


def _none(p: Program, over: float) -> None:
    p.between(over, p.length_s)


def _cyclic(p: Program, over: float) -> None:
    """Training and evaluation by turns, after a compilation."""
    train, evaluate = p.rng.uniform(6, 25), p.rng.uniform(2, 8)
    p.between(1.0, 1.4, 0.3, pace=0)
    at = over
    while at < p.length_s:
        p.between(at, at + train)
        p.between(at + train, at + train + evaluate, 0.6, pace=np.nan, tensor_active=0.6)
        at += train + evaluate


def _slow_down(p: Program, over: float) -> None:
    """Heat: clocks sink all the time, by 8 to 20 %; the GPU stays as busy."""
    loss = p.rng.uniform(0.08, 0.20)
    p.between(over, p.length_s, lambda t: 1.0 - loss * (t - over) / (p.length_s - over))
    p.levels["gr_active"][p.ticks >= over] = WORK["gr_active"]


def _never(p: Program, over: float) -> None:
    """Load that moves on and never returns: up by a third and more every few seconds."""
    at, share = over, 0.02
    while at < p.length_s:
        until = at + p.rng.uniform(2, 4)
        p.between(at, until, share)
        share = min(1.0, share * p.rng.uniform(1.15, 1.35))
        at = until


SCENARIOS: dict[str, tuple[Callable[[Program, float], None], str, tuple[float, float]]] = {
    "compile": (_compile, "steady", (8.0, 60.0)),
    "autotune": (_autotune, "steady", (8.0, 40.0)),
    "CUDA graphs": (_graphs, "steady", (5.0, 20.0)),
    "data cache": (_cache, "steady", (15.0, 60.0)),
    "other shapes": (_phases, "steady", (30.0, 70.0)),
    "rising clocks": (_clocks, "steady", (8.0, 20.0)),
    "no warm-up": (_none, "steady", (1.0, 1.0)),
    "training and evaluation": (_cyclic, "cyclic", (5.0, 20.0)),
    "sinking clocks": (_slow_down, "slow_down", (3.0, 15.0)),
    "never": (_never, "never", (1.0, 3.0)),
}
"""What the program does, the kind it is of, and between which seconds its warm-up ends."""


def program(name: str, seed: int, *, length_s: float | None = None) -> tuple[Program, float]:
    """A program of the scenario *name*, jitter and all, and when its warm-up is over."""
    rng = np.random.default_rng([seed, *name.encode()])
    make, _, (low, high) = SCENARIOS[name]
    over = float(rng.uniform(low, high))
    lasts = {"never": (45, 60), "training and evaluation": (100, 200)}.get(name, (30, 120))
    length = length_s or over + float(rng.uniform(*lasts))
    p = Program(rng, length)
    make(p, over)
    wander = np.zeros(len(p.ticks))
    kicks = rng.normal(0, 0.01 * np.sqrt(2 * TICK_S / 5.0), len(p.ticks))
    for i in range(1, len(wander)):
        wander[i] = wander[i - 1] * (1 - TICK_S / 5.0) + kicks[i]
    jitter = 1.0 + wander + rng.normal(0, 0.06, len(p.ticks))
    for name_, values in p.levels.items():
        values *= jitter
        if name_ != "pcie_rx_bytes":
            np.clip(values, 0.0, 1.0, out=values)
    p.pace *= 1.0 + wander
    return p, over


def rows(p: Program, edges_s: np.ndarray, *, outliers: bool = False) -> Samples:
    """Averages of *p* between *edges_s*, with the noise of a counter and some rows far off."""
    index = np.clip(np.round(edges_s / TICK_S).astype(int), 0, len(p.ticks))
    index = np.unique(index)
    counts = np.diff(index)
    columns = {}
    short = outliers & (counts * TICK_S < 0.45) & (p.rng.random(len(counts)) < 0.5)
    off = np.where(short, p.rng.uniform(0.75, 1.3, len(counts)), 1.0)
    off[1:][short[:-1] & (counts[1:] * TICK_S < 1.2)] *= 1.07
    for name in AS_GPM:
        sums = np.r_[0.0, np.cumsum(p.levels[name])]
        mean = np.diff(sums[index]) / counts * (1 + p.rng.normal(0, 0.005, len(counts)))
        if name != "gr_active":
            mean = mean * off
        columns[name] = mean * counts * TICK_S if name == "pcie_rx_bytes" else np.minimum(mean, 1.0)
    at = START_NS + np.round(index * TICK_S * 1e9).astype(np.int64)
    return Samples(at[:-1], at[1:], columns)


def readings(p: Program) -> Samples:
    """GPM's rows for as long as the recorder has not settled, with those at both ends of its windows."""
    windows = [t + d for t in np.arange(1.0, p.length_s - 1.0, 4.0) for d in (0.0, 0.5)]
    return rows(p, np.unique(np.r_[np.arange(0.0, p.length_s, GPM_EARLY_S), windows]), outliers=True)


def simulate(name: str, seed: int, *, settled_s: float | None = None, length_s: float | None = None) -> Run:
    """A recording in which the recorder looked closely from *settled_s* on (5 s after the truth)."""
    p, over = program(name, seed, length_s=length_s)
    settled = over + 5.0 if settled_s is None else settled_s
    ending = p.rng.uniform(0.0, 2.0)  # the program takes leave: nothing runs any more
    close = min(settled, p.length_s)
    early = np.arange(0.0, close, GPM_EARLY_S) + p.rng.uniform(0, 0.05)
    late = np.arange(close, p.length_s, GPM_S)
    windows = [(t, t + 0.5) for t in np.arange(1.0, close - 0.5, 4.0)]
    windows += [(close, close + 3.0), (close + 4.0, close + 11.0)]
    windows += [(close + s, close + s + 0.5) for s in (51.0, 131.0, 291.0)]
    windows = [(a, b) for a, b in windows if b <= p.length_s]
    edges = np.unique(np.r_[0.0, early, late, [e for w in windows for e in w], p.length_s])
    gpm = rows(p, edges, outliers=True)
    idle = {n: np.zeros(1) for n in AS_GPM}
    stop_ns = START_NS + round(p.length_s * 1e9)
    last_ns = stop_ns + round(ending * 1e9) + 1
    gpm = Samples.concat([gpm, Samples(np.array([stop_ns]), np.array([last_ns]), idle)])
    pm = Samples.concat(rows(p, np.arange(a, b + TICK_S / 2, TICK_S)) for a, b in windows)
    return Run(gpm, pm, steps(p), START_NS, last_ns, over, settled, SCENARIOS[name][1], p.length_s)


def steps(p: Program, *, each_s: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    """When the steps of *p* began and how long they took; one in two hundred is three times as long."""
    pace = np.nan_to_num(p.pace) * p.rng.lognormal(0, 0.02, len(p.ticks))
    done = np.r_[0.0, np.cumsum(pace * TICK_S / each_s)]
    rising = np.r_[True, np.diff(done) > 0]
    times = np.r_[p.ticks, p.length_s]
    at = np.interp(np.arange(int(done[-1])), done[rising], times[rising])
    took = np.diff(at)
    took = np.where(took < 1.5 * each_s / 0.1, took, np.nan) * np.where(p.rng.random(len(took)) < 0.005, 3, 1)
    good = np.isfinite(took)
    return START_NS + np.round(at[:-1][good] * 1e9).astype(np.int64), took[good]
