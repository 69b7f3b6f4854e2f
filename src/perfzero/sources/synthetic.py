"""
Signals of known truth: what perfect counters would read of a program described in phases.

A program is a cycle of phases, each so many seconds long with constant levels and rates; a
sample is the exact mean (of a level) or sum (of an amount) over its interval, so shares, rates
and periods are known to the last digit. Noise is added only where asked for. Tests and
documentation use this; it never stands in for a real recording.

    >>> busy, idle = Phase(0.03, {"gr_active": 1.0}), Phase(0.02, {"gr_active": 0.0})
    >>> observation = observe([busy, idle])      # active 60 % of the time, gaps of 20 ms
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from perfzero.counters import BY_NAME, gpm_counters
from perfzero.values import FloatArray, Gap, Gpu, IntArray, Observation, Samples, Tier, Window

START_NS = 1_700_000_000_000_000_000
SECOND_NS = 1_000_000_000

PM_PERIOD_NS = 1_000_000
ZOOM_PERIOD_NS = 10_000
GPM_PERIOD_NS = 120_000_000

H200 = Gpu(
    index=0,
    uuid="GPU-00000000-0000-0000-0000-000000000000",
    name="NVIDIA H200",
    chip="GH100",
    compute_capability=(9, 0),
    sm_count=132,
    sm_clock_max_hz=1.98e9,
    memory_clock_max_hz=3.201e9,
    memory_bus_bits=6144,
    memory_bytes=150_754_820_096,
    l2_bytes=62_914_560,
    power_limit_w=700.0,
    pcie_generation_max=5,
    pcie_width_max=16,
    driver="580.159.04",
)
"""An H200, with the 6144 bit of memory bus that its data sheet implies (the board measured says 6016)."""

BOARD: Mapping[str, float] = {
    "sm_clock": 1.98e9,
    "memory_clock": 3.201e9,
    "power": 400.0,
    "energy": 400.0,
    "temperature": 50.0,
    "capped_power": 0.0,
    "capped_thermal": 0.0,
    "capped_hardware": 0.0,
    "memory_used": 40e9,
    "pcie_generation": 5.0,
    "pcie_width": 16.0,
    "smi_utilization": 1.0,
    "processes": 1.0,
}
"""An unremarkable board: cool, uncapped, with memory to spare. Amounts are per second."""

HOST: Mapping[str, float] = {
    "host_main_cpu": 0.3,
    "host_tree_cpu": 0.3,
    "host_processes": 1.0,
    "host_workers": 0.0,
    "host_worker_cpu": 0.0,
    "host_runqueue_wait": 0.0,
    "host_io_wait": 0.0,
    "host_throttled": 0.0,
    "host_disk_read_bytes": 0.0,
    "host_cpu_busy": 0.1,
}
"""An unremarkable host: one process that mostly sleeps. Amounts are per second."""

QUIET: Mapping[str, float] = {
    "gr_active": 0.0,
    "sm_active": 0.0,
    "tensor_active": 0.0,
    "fma_active": 0.0,
    "fp64_active": 0.0,
    "dram_read_bytes": 0.0,
    "dram_write_bytes": 0.0,
    "pcie_rx_bytes": 1e6,
    "pcie_tx_bytes": 1e6,
    "ce_active": 0.0,
    "launches": 0.0,
    "gpc_clock": 1.98e9,
    "l2_sectors": 0.0,
    "l2_hit_sectors": 0.0,
    "ctxsw": 0.0,
}
"""A GPU with a context and nothing to do. Amounts are per second."""


@dataclass(frozen=True, slots=True)
class Phase:
    """*seconds* of constant levels and, for amounts, constant rates per second; the rest as in `QUIET`."""

    seconds: float
    levels: Mapping[str, float] = field(default_factory=dict)


def times(start_ns: int, end_ns: int, *, period_ns: int) -> tuple[IntArray, IntArray]:
    """Starts and ends of the whole samples that fit into [start_ns, end_ns), each int64 of shape (n,)."""
    start = np.arange(start_ns, end_ns - period_ns + 1, period_ns, dtype=np.int64)
    return start, start + period_ns


def signal(
    cycle: Sequence[Phase],
    *,
    start_ns: int,
    end_ns: int,
    period_ns: int,
    origin_ns: int = START_NS,
    noise: float = 0.0,
    seed: int = 0,
) -> Samples:
    """
    What counters read of *cycle*, repeated since *origin_ns*, between *start_ns* and *end_ns*.

    *noise*: standard deviation of a relative error on every value.
    """
    start, end = times(start_ns, end_ns, period_ns=period_ns)
    names = list(dict.fromkeys([*QUIET, *(n for phase in cycle for n in phase.levels)]))
    rng = np.random.default_rng(seed)
    columns: dict[str, FloatArray] = {}
    for name in names:
        levels = [phase.levels.get(name, QUIET.get(name, 0.0)) for phase in cycle]
        lengths = [phase.seconds for phase in cycle]
        amount = _integral(levels, lengths, end - origin_ns) - _integral(levels, lengths, start - origin_ns)
        value = amount if BY_NAME[name].kind == "total" else amount / (period_ns / SECOND_NS)
        if noise:
            value = value * (1.0 + noise * rng.standard_normal(len(value)))
        if BY_NAME[name].unit == "ratio":
            # Differences of sums over hours of nanoseconds carry errors of 1e-10.
            value = np.minimum(np.round(value, 9), 1.0)
        columns[name] = np.maximum(value, 0.0)
    return Samples(start, end, columns)


def _integral(levels: Sequence[float], lengths: Sequence[float], at_ns: IntArray) -> FloatArray:
    """Integral of the cycle from its beginning to *at_ns*, in level x seconds."""
    edges = np.r_[0.0, np.cumsum(lengths)]
    sums = np.r_[0.0, np.cumsum(np.asarray(levels) * np.asarray(lengths))]
    at = at_ns / SECOND_NS
    turns = np.floor(at / edges[-1])
    return np.asarray(turns * sums[-1] + np.interp(at - turns * edges[-1], edges, sums), np.float64)


def steady_table(levels: Mapping[str, float], *, start_ns: int, end_ns: int) -> Samples:
    """One reading a second that never changes: for the board and the host."""
    start, end = times(start_ns, end_ns, period_ns=SECOND_NS)
    return Samples(start, end, {name: np.full(len(start), float(v)) for name, v in levels.items()})


def observe(
    cycle: Sequence[Phase],
    *,
    seconds: float = 40.0,
    warm_up: Sequence[Phase] = (),
    warm_up_s: float = 0.0,
    tier: Tier = "pm",
    gpu: Gpu = H200,
    board: Mapping[str, float] | None = None,
    host: Mapping[str, float] | None = None,
    zoom: bool = True,
    every_s: float = 10.0,
    gaps: Sequence[Gap] = (),
    noise: float = 0.0,
    other_pids: tuple[int, ...] = (),
) -> Observation:
    """
    A whole recording of a program that repeats *cycle*, after *warm_up* for *warm_up_s* seconds.

    PM windows of 1 s at 1 ms every *every_s* seconds and, with *zoom*, bursts of 0.1 s at 10 µs
    after every second one; GPM every 0.12 s; board and host once a second. *board* and *host*
    change single values of `BOARD` and `HOST`. A *tier* leaves out what a machine of that kind
    could not have seen.
    """
    first, end = START_NS, START_NS + round(seconds * SECOND_NS)
    steady = first + round(warm_up_s * SECOND_NS)
    windows: list[Window] = []
    pm: list[Samples] = []
    close: list[Samples] = []

    def read(kind: Literal["regular", "zoom"], begin: int, length_s: float, period_ns: int) -> Samples:
        stop = min(end, begin + round(length_s * SECOND_NS))
        table = _across(warm_up, cycle, begin, stop, steady_ns=steady, period_ns=period_ns, noise=noise)
        windows.append(Window(gpu.index, kind, begin, stop, period_ns, len(table), 0))
        return table

    if tier == "pm":
        for count, begin in enumerate(range(first, end - SECOND_NS + 1, round(every_s * SECOND_NS))):
            pm.append(read("regular", begin, 1.0, PM_PERIOD_NS))
            if zoom and count % 2:
                close.append(read("zoom", begin + SECOND_NS + 100_000_000, 0.1, ZOOM_PERIOD_NS))
    gpm = Samples.empty()
    if tier != "nvml":
        fine = _across(warm_up, cycle, first, end, steady_ns=steady, period_ns=GPM_PERIOD_NS, noise=noise)
        gpm = _as_gpm(fine, gpu)
    return Observation(
        gpu=gpu,
        tier=tier,
        pm=Samples.concat(pm),
        zoom=Samples.concat(close),
        gpm=gpm,
        board=steady_table({**BOARD, **(board or {})}, start_ns=first, end_ns=end),
        host=steady_table({**HOST, **(host or {})}, start_ns=first, end_ns=end),
        windows=tuple(windows),
        gaps=tuple(gaps),
        other_pids=other_pids,
        start_ns=first,
        end_ns=end,
    )


def _across(
    warm_up: Sequence[Phase],
    cycle: Sequence[Phase],
    begin: int,
    stop: int,
    *,
    steady_ns: int,
    period_ns: int,
    noise: float,
) -> Samples:
    """Samples of [begin, stop): of *warm_up* before *steady_ns*, of *cycle* from then on."""
    before = (
        signal(
            warm_up,
            start_ns=begin,
            end_ns=min(stop, steady_ns),
            period_ns=period_ns,
            noise=noise,
            seed=begin % 997,
        )
        if warm_up and begin < steady_ns
        else Samples.empty()
    )
    after = signal(
        cycle,
        start_ns=max(begin, steady_ns) if warm_up else begin,
        end_ns=stop,
        period_ns=period_ns,
        noise=noise,
        seed=begin % 991,
    )
    return Samples.concat([before, after])


def _as_gpm(samples: Samples, gpu: Gpu) -> Samples:
    """Only what GPM delivers: no launches, no L2, and DRAM as a share of its peak instead of bytes."""
    columns = {c.name: samples.columns[c.name] for c in gpm_counters() if c.name in samples.columns}
    # As if the FMA pipe did nothing else.
    columns.setdefault("fp32_active", samples.column("fma_active"))
    if gpu.memory_clock_max_hz is not None and gpu.memory_bus_bits is not None:
        peak = 2.0 * gpu.memory_clock_max_hz * gpu.memory_bus_bits / 8.0
        moved = samples.column("dram_read_bytes") + samples.column("dram_write_bytes")
        columns["dram_active"] = np.minimum(moved / samples.duration_s / peak, 1.0)
    return Samples(samples.start_ns, samples.end_ns, columns)
