"""Programs whose step is made of phases of known levels, sampled: what folding and cutting have to find."""

from __future__ import annotations

import numpy as np

from perfzero.series.fold import Folded, fold
from perfzero.values import Samples

MS = 1_000_000
START = 1_700_000_000_000_000_000

DRAM_ROOF, PCIE_ROOF = 4.2e12, 55e9

IDLE = {"gr_active": 0.0}
COPY = {"gr_active": 0.02, "pcie_rx_bytes": 10e9}
MATRIX = {"gr_active": 1.0, "sm_active": 0.95, "tensor_active": 0.8, "dram_read_bytes": 8e11, "launches": 1e3}
MEMORY = {
    "gr_active": 1.0,
    "sm_active": 0.9,
    "tensor_active": 0.02,
    "dram_read_bytes": 2.4e12,
    "dram_write_bytes": 0.6e12,
}
UPDATE = {
    "gr_active": 1.0,
    "sm_active": 0.9,
    "dram_read_bytes": 1.5e12,
    "dram_write_bytes": 1.1e12,
    "launches": 1e4,
}
LAUNCHES = {"gr_active": 0.6, "sm_active": 0.05, "launches": 1.5e5}

COLUMNS = (
    "gr_active",
    "sm_active",
    "tensor_active",
    "fma_active",
    "sm_issue",
    "dram_read_bytes",
    "dram_write_bytes",
    "pcie_rx_bytes",
    "launches",
)

TRAINING = [(0.15, IDLE), (0.05, COPY), (0.40, MATRIX), (0.20, MEMORY), (0.20, UPDATE)]


def program(
    parts, *, step_s=0.027, steps=60, jitter=0.0, noise=0.0, period_ms=2.0, seed=0, windows=True
) -> tuple[Samples, np.ndarray]:
    """Samples of a program whose step is made of *parts*, and the onsets of its steps."""
    rng = np.random.default_rng(seed)
    length = step_s * (1 + jitter * rng.standard_normal(steps)).clip(0.5, 1.5)
    starts_s = np.r_[0.0, np.cumsum(length)]
    share = np.array([part[0] for part in parts])
    inner = np.r_[0.0, np.cumsum(share)[:-1]]
    knots = np.r_[(starts_s[:-1, None] + length[:, None] * inner).ravel(), starts_s[-1]]
    period = round(period_ms * MS)
    begin = rng.integers(0, period) + period * np.arange(int(starts_s[-1] * 1e9) // period)
    edges = np.r_[begin, begin[-1] + period] / 1e9
    columns = {}
    for name in COLUMNS:
        level = np.tile([part[1].get(name, 0.0) for part in parts], steps)
        integral = np.r_[0.0, np.cumsum(level * np.diff(knots))]
        value = np.diff(np.interp(edges, knots, integral))
        if not name.endswith("bytes") and name != "launches":
            value = value / (period / 1e9)
        columns[name] = np.maximum(value * (1 + noise * rng.standard_normal(len(value))), 0.0)
    start = START + begin
    samples = Samples(start, start + period, columns)
    if windows:
        samples = samples.where((begin // (500 * MS)) % 3 != 2)
    return samples, START + np.round(starts_s * 1e9).astype(np.int64)


def folded_of(parts, **arguments) -> Folded:
    samples, starts = program(parts, **arguments)
    folded = fold(samples, starts)
    assert folded is not None
    return folded
