"""Snapshots of real GPUs, from recordings that are replayed with a clock of our own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from perfzero.live.snapshot import Snapshot
from replayed_gpus import NOON_NS, seen
from simulated_nvml import board, library

__all__ = ["board", "library"]

EIGHT = ("resnet50_nchw", "tiny_kernels", "bf16_gemm_capped", "input_starved_resnet50", "gpm_only",
         "pageable_copies", "decode", "two_processes")  # fmt: skip


@pytest.fixture(scope="session")
def one() -> Snapshot:
    """A ResNet-50 in NCHW on a real H200."""
    return seen("resnet50_nchw")


@pytest.fixture(scope="session")
def eight() -> Snapshot:
    """Eight recordings of one real H200 as if they were of eight."""
    found = [seen(name).gpus[0] for name in EIGHT]
    gpus = tuple(
        replace(
            gpu,
            gpu=replace(gpu.gpu, index=index),
            processes=tuple(replace(p, gpu=index) for p in gpu.processes or ()),
        )
        for index, gpu in enumerate(found)
    )
    return Snapshot(NOON_NS, gpus, driver="580.159.04", host="node17")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Hold a text against a file in golden/; `--golden` is not needed: remove the file to have it written."""

    def check(name: str, text: str) -> None:
        path = Path(__file__).parent / "golden" / f"{name}.txt"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            pytest.fail(f"{path.name} was not there and has been written: look at it")
        assert text == path.read_text()

    return check
