"""Recordings with known content, made by the writer itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfzero.store import RecordingWriter
from perfzero.values import Gpu, Process, Samples

START_NS = 1_700_000_000_000_000_000
GPU = Gpu(0, "GPU-3f2a51c0-1111-2222-3333-444455556666", "NVIDIA H200", chip="GH100", sm_count=132)


def make_samples(
    rows: int,
    *,
    start_ns: int = START_NS,
    period_ns: int = 1_000_000,
    names: Sequence[str] = ("gr_active", "launches"),
) -> Samples:
    """*rows* samples side by side; row i of column k holds i + k / 8, exact in float32."""
    start = start_ns + np.arange(rows, dtype=np.int64) * period_ns
    return Samples(
        start,
        start + period_ns,
        {name: np.arange(rows, dtype=np.float64) + k / 8 for k, name in enumerate(names)},
    )


@pytest.fixture
def table() -> Callable[..., Samples]:
    return make_samples


@pytest.fixture
def new_writer(tmp_path: Path) -> Callable[..., RecordingWriter]:
    """Starts a recording of one GPU in a fresh folder; keyword arguments replace those of the writer."""

    def start(path: Path | None = None, **changes: Any) -> RecordingWriter:
        arguments: dict[str, Any] = {
            "gpus": [GPU],
            "process": Process(42, ("python", "train.py")),
            "settings": {"period_ns": 1_000_000},
            "tiers": {0: "pm"},
            "tier_reasons": {0: "counters are open to this user"},
            **changes,
        }
        return RecordingWriter(path or tmp_path / "recording", **arguments)

    return start
