"""Observations and diagnoses written down by hand: what a report says of them is known beforehand."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perfzero.diagnose.verdict import (
    TIME_CLASSES,
    Diagnosis,
    Event,
    Fact,
    Finding,
    Gain,
    Remedy,
    Rhythm,
    Steady,
    StepAnswer,
    StepMap,
    StepPhase,
)
from perfzero.report.build import Judged, build
from perfzero.report.model import Report
from perfzero.sources.synthetic import H200
from perfzero.values import Cost, Gap, Gpu, Observation, Process, Samples, Window

START = 1_796_000_000_000_000_000
SECOND = 1_000_000_000
GOLDEN = Path(__file__).parent / "golden"


def table(start_s: float, rows: int, period_s: float, **columns: float) -> Samples:
    """A table of constant columns."""
    edges = START + np.round((start_s + np.arange(rows + 1) * period_s) * SECOND).astype(np.int64)
    return Samples(edges[:-1], edges[1:], {k: np.full(rows, v) for k, v in columns.items()})


def observation(gpu: Gpu = H200) -> Observation:
    """94 s of a starved program: two windows of one second, GPM and NVML all the time, one gap."""
    pm = {
        "gr_active": 0.42,
        "sm_active": 0.37,
        "tensor_active": 0.14,
        "dram_read_bytes": 1.2e9,
        "dram_write_bytes": 0.7e9,
        "pcie_rx_bytes": 0.9e6,
        "launches": 12.0,
        "gpc_clock": 1.9e9,
    }
    windows = (
        Window(0, "dense", START + 20 * SECOND, START + 21 * SECOND, 1_000_000, 1000, 0),
        Window(0, "regular", START + 60 * SECOND, START + 61 * SECOND, 1_000_000, 996, 4),
    )
    second = table(60, 1000, 0.001, **pm)
    keep = np.ones(1000, bool)
    keep[500:504] = False
    return Observation(
        gpu=gpu,
        tier="pm",
        pm=Samples.concat([table(20, 1000, 0.001, **pm), second.where(keep)]),
        zoom=Samples.empty(),
        gpm=table(0, 626, 0.15, gr_active=0.42, sm_active=0.37, tensor_active=0.14),
        board=table(0, 94, 1.0, power=310.0, sm_clock=1.9e9, smi_utilization=0.57),
        host=Samples.empty(),
        windows=windows,
        gaps=(Gap(0, "pm", START + 30 * SECOND, START + 33 * SECOND, "another tool held the counters"),),
        start_ns=START,
        end_ns=START + 94 * SECOND,
    )


STEPS = (
    StepAnswer(
        1, "idle?", "yes", "bad", "active 42 % of the time",
        (Fact("gr_active", 0.42, "ratio", "bad", "≥ 0.9", -0.53),),
    ),
    StepAnswer(2, "bound by", "–", "info", "while active: memory 61 %, tensor 22 %, rest 17 %"),
    StepAnswer(3, "level", "–", "info", "L2 hit 71 % · DRAM 1.9 of 4.3 TB/s · PCIe 0.9 of 52 GB/s"),
    StepAnswer(4, "tensor", "fine", "ok", "94 % of the work that can use tensor cores does"),
)  # fmt: skip

FACTS = (
    Fact("gr_active", 0.42, "ratio", "bad", "≥ 0.9", -0.53),
    Fact("sm_active", 0.37, "ratio", "watch", "≥ 0.7", -0.47),
    Fact("tensor_active", 0.14, "ratio", "info"),
    Fact("dram_read_bytes_per_s", 1.2e12, "bytes/s", "ok", "≤ 0.6 of the roof", 0.54),
    Fact("dram_roof_share", 0.44, "ratio", "ok"),
    Fact("l2_hit", float("nan"), "ratio", "unknown", text="no counter for it on this chip"),
    Fact("smi_utilization", 0.57, "ratio", "info"),
)

STARVED = Finding(
    rule="input_starved",
    title="The GPU waits for data 58 % of the time.",
    severity="bad",
    share=0.58,
    confidence=0.91,
    because=(
        "Each 81 ms step starts with 47 ms in which the host submitted nothing",
        "Meanwhile all four loader processes are at 100 % CPU and the main thread is at 6 %",
    ),
    gain=Gain(1.9, 2.3, "the loader keeps up"),
    remedies=(
        Remedy("num_workers 4 → 12, persistent_workers=True", (), "gr_active rises above 90 %"),
        Remedy("decode on the GPU", ("the data are JPEG files",)),
    ),
    next_limit="memory bandwidth",
)


RHYTHM = Rhythm(
    step_s=0.08123, low_s=0.08063, high_s=0.08183, jitter=0.02, count=960, micro_s=0.02031, micro_per_step=4,
    parts=(("idle", 0.58), ("matrix", 0.30), ("memory", 0.08), ("update", 0.04)),
    events=(
        Event("stall", 3, 0.04, 1.2, 31.0, 382.0),
        Event("other work", 1, 0.02, math.nan, None, None),
    ),
)  # fmt: skip

STEP_MAP = StepMap(
    step_s=0.0811, steps=950, left_out=10, sample_s=0.002, fine_s=0.25,
    phases=(
        StepPhase(
            "idle", 0.94, 0.0, 0.578125, 0.0469, ("active 2 %", "tensor cores 0 %", "DRAM 0 %"),
            {"idle": 1.0}, False, 0.99, {"gr_active": 0.02},
        ),
        StepPhase(
            "gemm", 0.52, 0.578125, 0.953125, 0.0304, ("tensor cores 44 %", "DRAM 31 %"),
            {"gemm": 0.57, "memory": 0.31, "elementwise": 0.08, "unknown": 0.04}, True, 0.98,
            {"gr_active": 1.0, "tensor_active": 0.44, "l2_hit": math.nan},
        ),
        StepPhase(
            "optimizer", 0.6, 0.953125, 1.0, 0.0038, ("tensor cores 0 %", "DRAM 72 %", "writes 43 % of that"),
            {"memory": 0.97, "unknown": 0.03}, True, 1.0, {"gr_active": 1.0},
        ),
    ),
)  # fmt: skip


def diagnosis(gpu: Gpu = H200) -> Diagnosis:
    return Diagnosis(
        gpu=gpu,
        tier="pm",
        headline="The GPU waits for data 58 % of the time.",
        verdict=STARVED,
        no_verdict=None,
        findings=(STARVED,),
        steps=STEPS,
        shares={**dict.fromkeys(TIME_CLASSES, 0.0), "idle": 0.58, "memory": 0.26, "tensor": 0.16},
        facts={f.name: f for f in FACTS},
        doubts=("Another tool held the counters for 3 s.",),
        steady=Steady(START + 12 * SECOND, START + 94 * SECOND, 12.0, "stable", "found on 1 s means"),
        rhythm=RHYTHM,
        step_map=STEP_MAP,
    )


def healthy_diagnosis(gpu: Gpu = H200) -> Diagnosis:
    used = Finding(
        "well_used", "The GPU is well used.", "info", 0.97, 0.95, ("Tensor cores at 92 % of their peak",)
    )
    capped = Finding("power_capped", "The power limit holds the clock at 1.33 GHz.", "info", 1.0, 0.9, ())
    return replace(
        diagnosis(gpu),
        headline="The GPU is well used.",
        verdict=used,
        findings=(used, capped),
        doubts=(),
        steps=(),
        shares={"tensor": 1.0},
        facts={
            f.name: f
            for f in (Fact("sm_active", 0.99, "ratio", "ok"), Fact("tensor_active", 0.92, "ratio", "ok"))
        },
    )


def silent_diagnosis(gpu: Gpu = H200) -> Diagnosis:
    reason = "All counters read 0 while nvidia-smi says 57 %: the counters are broken."
    return replace(
        diagnosis(gpu),
        headline="No verdict.",
        verdict=None,
        no_verdict=reason,
        findings=(),
        steps=(),
        shares={},
        facts={},
        doubts=(),
        steady=Steady(START, START, 0.0, "none", ""),
        rhythm=None,
        no_rhythm="No counter changes enough to show where a step begins.",
        step_map=None,
        no_step_map="No counter changes enough to show where a step begins.",
    )


COST = Cost(94.0, 0.5, 0.6, 0.021, 1, 0.0003, -0.0001, 0.0007)


def report_of(
    *diagnoses: Diagnosis,
    cost: Cost | None = COST,
    command: tuple[str, ...] = ("python", "train.py"),
    **more: object,
) -> Report:
    """A report on GPUs that all look like `observation`, each with its own diagnosis."""
    return build(
        [Judged(replace(observation(d.gpu), tier=d.tier), d) for d in diagnoses],
        recording="perfzero-runs/train-20261129T140211Z",
        created_ns=START,
        cost=cost,
        process=Process(4242, command, 0),
        **more,  # type: ignore[arg-type]
    )


@pytest.fixture
def starved() -> Diagnosis:
    return diagnosis()


@pytest.fixture
def healthy() -> Diagnosis:
    return healthy_diagnosis()


@pytest.fixture
def silent() -> Diagnosis:
    return silent_diagnosis()


@pytest.fixture
def seen() -> Observation:
    return observation()


@pytest.fixture
def make_report() -> Callable[..., Report]:
    return report_of


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare with a file kept in sight; PERFZERO_REGENERATE=1 writes it anew, to be read first."""

    def compare(name: str, found: str) -> None:
        path = GOLDEN / name
        if os.environ.get("PERFZERO_REGENERATE") == "1":
            path.write_text(found, encoding="utf-8")
        assert found == path.read_text(encoding="utf-8")

    return compare
