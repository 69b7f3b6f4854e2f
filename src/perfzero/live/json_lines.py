"""
A snapshot as one line of JSON, for programs: `docs/top.schema.json` describes it.

Base units, full precision, English names; a figure that is not known is null, and never 0.
"""

from __future__ import annotations

import json
from typing import Any

from perfzero import __version__
from perfzero.live.snapshot import HELD_DOWN, GpuNow, Snapshot
from perfzero.values import jsonable

SCHEMA_VERSION = 1

FIGURES = (
    "seconds", "gr_active", "sm_active", "tensor_active", "dram_roof_share", "pcie_rx", "pcie_tx",
    "pcie_link_share", "nvlink_rx", "nvlink_tx", "nvlink_share", "power", "power_limit", "sm_clock",
    "sm_clock_max", "temperature", "smi_utilization", "memory_used", "memory_total",
)  # fmt: skip
"""Of a GPU, by their names in `GpuNow`."""


def to_json(snapshot: Snapshot) -> str:
    """One line, ending in a newline."""
    return json.dumps(document(snapshot), ensure_ascii=False, allow_nan=False) + "\n"


def document(snapshot: Snapshot) -> dict[str, Any]:
    """The snapshot as JSON values."""
    found: dict[str, Any] = jsonable(
        {
            "schema": SCHEMA_VERSION,
            "perfzero": __version__,
            "time_ns": snapshot.time_ns,
            "host": snapshot.host,
            "driver": snapshot.driver,
            "gpus": [_gpu(gpu) for gpu in snapshot.gpus],
            "notices": snapshot.notices,
        }
    )
    return found


def schema() -> dict[str, Any]:
    """The JSON schema of a line."""
    figure = {"type": ["number", "null"]}
    word = {"type": "string"}
    process = {
        "type": "object",
        "additionalProperties": False,
        "required": ["pid", "user", "command", "memory"],
        "properties": {"pid": {"type": "integer"}, "user": word, "command": word, "memory": figure},
    }
    properties: dict[str, Any] = {
        "index": {"type": "integer"},
        "uuid": word,
        "name": word,
        "tier": {"enum": ["gpm", "nvml"]},
        **dict.fromkeys(FIGURES, figure),
        "held_down": {"type": "array", "items": {"enum": list(HELD_DOWN)}},
        "time": {"type": ["object", "null"], "additionalProperties": figure},
        "time_s": {"type": "number"},
        "processes": {"type": ["array", "null"], "items": process},
        "without_gpm": word,
        "lost": word,
    }
    document = {
        "schema": {"const": SCHEMA_VERSION},
        "perfzero": word,
        "time_ns": {"type": "integer"},
        "host": word,
        "driver": word,
        "gpus": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": list(properties),
                "properties": properties,
            },
        },
        "notices": {"type": "array", "items": word},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of `perfzero top --format json`",
        "type": "object",
        "additionalProperties": False,
        "required": list(document),
        "properties": document,
    }


def _gpu(gpu: GpuNow) -> dict[str, Any]:
    processes = gpu.processes
    return {
        "index": gpu.gpu.index,
        "uuid": gpu.gpu.uuid,
        "name": gpu.gpu.name,
        "tier": gpu.tier,
        **{name: getattr(gpu, name) for name in FIGURES},
        "held_down": gpu.held_down,
        "time": dict(gpu.shares) if gpu.shares else None,
        "time_s": gpu.shares_s,
        "processes": None
        if processes is None
        else [{"pid": p.pid, "user": p.user, "command": p.command, "memory": p.memory} for p in processes],
        "without_gpm": gpu.without_gpm,
        "lost": gpu.lost,
    }
