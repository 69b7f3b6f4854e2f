"""
The metrics of a comparison: each declared once, with its unit and which way of it is good.

Those made from counters name the counter; `perfzero.report.ledger.measure` knows how the others come about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perfzero.diagnose.verdict import TIME_CLASSES
from perfzero.report.ledger.model import Better, Group
from perfzero.series.compare import Scale
from perfzero.words.said import say


@dataclass(frozen=True, slots=True)
class Metric:
    """
    One line of the ledger. `key` is what `--fail-if` and files call it.

    `counter`: the level, or amount per second, that it is; empty where it is made otherwise. Where all values
    are below `least`, nothing goes on there and the line is left out.
    """

    key: str
    unit: str
    group: Group
    scale: Scale
    better: Better = "neither"
    counter: str = ""
    least: float = 0.0


STEP_RATE = "step_rate"
"""What a comparison is for: steps per second, rare stalls included."""

STEP = (STEP_RATE, "step_time")
"""One question in two forms, which is asked alone."""

MIB = float(1 << 20)

METRICS: tuple[Metric, ...] = (
    Metric(STEP_RATE, "count/s", "speed", "ratio", "more"),
    Metric("step_time", "seconds", "speed", "ratio", "less"),
    Metric("step_cycles", "count", "speed", "ratio", "less"),
    Metric("step_energy", "joules", "speed", "ratio", "less"),
    Metric("idle", "ratio", "gpu", "points", "less", least=0.001),
    Metric("gr_active", "ratio", "gpu", "points", counter="gr_active"),
    Metric("sm_active", "ratio", "gpu", "points", counter="sm_active"),
    Metric("tensor_active", "ratio", "gpu", "points", "more", "tensor_active", 0.001),
    Metric("fma_active", "ratio", "gpu", "points", "neither", "fma_active", 0.001),
    Metric("fp32_active", "ratio", "gpu", "points", "neither", "fp32_active", 0.001),
    Metric("fp64_active", "ratio", "gpu", "points", "neither", "fp64_active", 0.001),
    Metric("dram_active", "ratio", "gpu", "points", "neither", "dram_active", 0.001),
    Metric("dram_read", "bytes/s", "gpu", "ratio", "neither", "dram_read_bytes", 1e9),
    Metric("dram_write", "bytes/s", "gpu", "ratio", "neither", "dram_write_bytes", 1e9),
    Metric("l2_hit", "ratio", "gpu", "points", "more", "l2_hit"),
    Metric("pcie_rx", "bytes/s", "gpu", "ratio", "neither", "pcie_rx_bytes", 0.2e9),
    Metric("pcie_tx", "bytes/s", "gpu", "ratio", "neither", "pcie_tx_bytes", 0.2e9),
    Metric("nvlink_rx", "bytes/s", "gpu", "ratio", "neither", "nvlink_rx_bytes", 0.2e9),
    Metric("nvlink_tx", "bytes/s", "gpu", "ratio", "neither", "nvlink_tx_bytes", 0.2e9),
    Metric("launches", "count/s", "gpu", "ratio", "neither", "launches"),
    Metric("sm_clock", "hertz", "gpu", "ratio", "neither", "gpc_clock"),
    Metric("power", "watts", "gpu", "ratio", "neither", "power"),
    Metric("temperature", "celsius", "gpu", "points", "neither", "temperature"),
    Metric("memory_used", "bytes", "gpu", "ratio", "neither", "memory_used"),
    Metric("smi_utilization", "ratio", "gpu", "points", "neither", "smi_utilization"),
    Metric("step_dram_read", "bytes", "bytes", "ratio", "less", "dram_read_bytes", MIB),
    Metric("step_dram_write", "bytes", "bytes", "ratio", "less", "dram_write_bytes", MIB),
    Metric("step_pcie_rx", "bytes", "bytes", "ratio", "less", "pcie_rx_bytes", MIB),
    Metric("step_pcie_tx", "bytes", "bytes", "ratio", "less", "pcie_tx_bytes", MIB),
    Metric("step_nvlink_rx", "bytes", "bytes", "ratio", "less", "nvlink_rx_bytes", MIB),
    Metric("step_launches", "count", "bytes", "ratio", "less", "launches"),
)

TIMES: tuple[Metric, ...] = tuple(
    metric
    for name in TIME_CLASSES
    for metric in (
        Metric(f"step_{name}", "seconds", "time", "points", least=1e-5),
        Metric(f"time_{name}", "ratio", "time", "points", least=0.001),
    )
)
"""Where the time goes: by class, per step and as a share."""


def label(metric: Metric) -> str:
    """What people read, in the words of the catalogue."""
    if metric.group == "layers":
        return metric.key.partition(":")[2]
    if metric.group == "time":
        return say(metric.key.partition("_")[2])
    return say(f"compare.metric.{metric.key}")


BY_KEY: Mapping[str, Metric] = {metric.key: metric for metric in (*METRICS, *TIMES)}
