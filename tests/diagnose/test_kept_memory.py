"""Programs that take their memory from CUDA in each step, and what keeping it gains."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from perfzero.diagnose.evidence import collect
from perfzero.diagnose.judge import judge
from perfzero.diagnose.kept_memory import with_kept_memory
from perfzero.diagnose.rules import run_rules
from perfzero.diagnose.verdict import Finding, Gain
from perfzero.sources.synthetic import Phase, observe
from perfzero.store.reader import open_recording
from perfzero.values import Observation
from perfzero.words.said import say

TESTS = Path(__file__).parents[1]

SCRUB = {"ce_active": 1.0, "dram_write_bytes": 4.24e11, "dram_read_bytes": 1.7e9, "pcie_rx_bytes": 2.5e7}
STREAM = {"gr_active": 1.0, "sm_active": 0.98, "dram_read_bytes": 2.1e12, "dram_write_bytes": 2.1e12}
PINNED = {"ce_active": 1.0, "dram_write_bytes": 5.5e10, "pcie_rx_bytes": 5.7e10}


def program(meanwhile: dict[str, float], *, idle_s: float = 0.006, main: float = 1.0) -> Observation:
    """Kernels of 4 ms at the memory's roof, and *meanwhile* for *idle_s* between them."""
    kernels = Phase(0.004, {**STREAM, "launches": 3000.0})
    return observe([kernels, Phase(idle_s, meanwhile)], host={"host_main_cpu": main})


def first(observation: Observation) -> Finding:
    verdict = judge(observation).verdict
    assert verdict is not None
    return verdict


def test_memory_that_is_cleared_while_the_gpu_is_idle_is_the_hosts_time_and_no_transfer() -> None:
    """Kept, a step takes the 4 ms of its kernels; at least four fifths of the 6 ms go."""
    found = first(program(SCRUB))

    assert found.rule == "host_starved"
    assert found.remedies[0].text == say("try.hold_memory")
    assert "clears memory 60 % of the time, 254 GB/s" in found.because[0]
    assert found.gain is not None
    assert found.gain.low == pytest.approx(1 / (1 - 0.8 * 0.6), rel=0.02)
    # Memory-bound kernels share DRAM with what is cleared at 254 of 4,400 GB/s.
    assert found.gain.high == pytest.approx(1 / (0.4 - 0.4 * 254 / 4400), rel=0.02)
    assert found.next_limit == say("limit.memory")


def test_copies_in_the_same_place_are_told_as_transfers() -> None:
    found = first(program(PINNED))

    assert found.rule == "transfer_bound"
    assert say("try.hold_memory") not in [r.text for r in found.remedies]


def test_a_gpu_that_is_idle_with_an_idle_engine_is_told_nothing_of_memory() -> None:
    found = first(program({}))

    assert found.rule == "host_starved"
    assert say("try.hold_memory") not in [r.text for r in found.remedies]


@pytest.mark.parametrize(
    ("folder", "rule"), [("zoo/kept/m01/base", "host_starved"), ("recordings/item_every_layer", "sync_bound")]
)
def test_short_calls_for_memory_are_no_waits_for_results(folder: str, rule: str) -> None:
    """Both rest for less than a millisecond at a time: one empties its cache, one reads results."""
    recording = open_recording(TESTS / folder)
    [gpu] = recording.gpus

    assert first(recording.observation(gpu.index)).rule == rule


def test_what_is_cleared_for_a_small_part_of_the_idle_time_is_not_what_it_comes_of() -> None:
    kernels, idle = Phase(0.004, {**STREAM, "launches": 3000.0}), Phase(0.004)
    found = first(observe([kernels, Phase(0.002, SCRUB), idle], host={"host_main_cpu": 1.0}))

    assert say("try.hold_memory") not in [r.text for r in found.remedies]
    kernels, idle = Phase(0.004, {**STREAM, "launches": 3000.0}), Phase(0.0015)
    found = first(observe([kernels, Phase(0.0045, SCRUB), idle], host={"host_main_cpu": 1.0}))
    assert found.remedies[0].text == say("try.hold_memory")


def test_the_remedy_that_a_gain_was_made_for_keeps_it() -> None:
    evidence = collect(program(SCRUB))
    told = next(f for f in run_rules(evidence) if f.rule == "host_starved")
    graph = replace(told.remedies[1], text=say("try.graph"), gain=None)
    launches = replace(told, remedies=(told.remedies[1], graph), gain=Gain(1.5, 2.0, "by a graph"))

    after = with_kept_memory(evidence, launches)

    assert after.remedies[0].text == say("try.hold_memory")
    assert after.remedies[2].gain == launches.gain
    assert after.gain != launches.gain
