"""The vocabulary is one consistent table, and says the same as the tools it is mapped to."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter as Tally
from pathlib import Path

import pynvml
import pytest

from perfzero.aliases import DCGM_FIELDS, GPM_METRICS
from perfzero.counters import (
    BOARD_COUNTERS,
    BY_NAME,
    COUNTERS,
    GPU_COUNTERS,
    HOST_COUNTERS,
    Counter,
    gpm_counters,
    metric_scale,
    pm_counters,
)

ROOT = Path(__file__).parents[1]
WRITE_DOCS = ROOT / "tools" / "write_docs.py"


def write_docs(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(WRITE_DOCS), *arguments], capture_output=True, text=True, check=False
    )


def test_every_name_is_used_once() -> None:
    assert len(BY_NAME) == len(COUNTERS)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_name_is_lower_case_words_and_its_meaning_a_sentence(name: str) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name)
    assert re.fullmatch(r"[A-Z].*\.", BY_NAME[name].doc)


def test_a_counter_stands_in_the_table_of_its_origin() -> None:
    for origin, table in (("gpu", GPU_COUNTERS), ("board", BOARD_COUNTERS), ("host", HOST_COUNTERS)):
        assert {c.origin for c in table} == {origin}


def test_only_the_gpu_has_metrics_of_its_own() -> None:
    assert all(not c.cupti and c.gpm is None for c in BOARD_COUNTERS + HOST_COUNTERS)


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda c: c.name)
def test_an_amount_is_a_total_and_a_share_is_a_level(counter: Counter) -> None:
    unit, kind = counter.unit, counter.kind
    if unit in {"ratio", "hertz", "watts", "celsius", "generation", "lanes"}:
        assert kind == "level"
    if unit in {"joules", "seconds"}:
        assert kind == "total"


@pytest.mark.parametrize("counter", pm_counters(), ids=lambda c: c.name)
def test_the_metrics_of_a_ladder_deliver_the_unit_of_the_counter(counter: Counter) -> None:
    endings = {
        "ratio": (".pct", "_elapsed"),
        "hertz": (".per_second",),
        "bytes": (".sum",),
        "count": (".sum",),
    }
    for metric in counter.cupti:
        assert metric.endswith(endings[counter.unit])
        assert metric_scale(metric) == (0.01 if counter.unit == "ratio" else 1.0)


def test_no_metric_stands_for_two_counters() -> None:
    uses = Tally(metric for c in COUNTERS for metric in dict.fromkeys(c.cupti))

    assert [metric for metric, n in uses.items() if n > 1] == []


@pytest.mark.parametrize("counter", pm_counters(), ids=lambda c: c.name)
def test_a_ladder_holds_no_rung_twice_and_none_that_cannot_be_sampled(counter: Counter) -> None:
    ladder = counter.cupti
    assert len(set(ladder)) == len(ladder)
    assert not any("sass" in metric or "gmma" in metric or "t_sectors_op_" in metric for metric in ladder)


def test_the_essential_counters_come_first_into_the_pass() -> None:
    first = [c.name for c in pm_counters()][:10]

    for name in (
        "gr_active",
        "sm_active",
        "tensor_active",
        "dram_read_bytes",
        "dram_write_bytes",
        "gpc_clock",
        "launches",
        "fma_active",
        "pcie_rx_bytes",
    ):
        assert name in first


def test_the_weight_of_a_level_is_a_total_that_is_sampled_too() -> None:
    weights = {c.name: c.weight for c in COUNTERS if c.weight}

    assert weights == {"l2_hit": "l2_sectors"}
    assert BY_NAME["l2_sectors"].kind == "total"
    assert BY_NAME["l2_sectors"].cupti


@pytest.mark.parametrize("counter", gpm_counters(), ids=lambda c: c.name)
def test_a_gpm_number_is_the_one_in_nvml(counter: Counter) -> None:
    number = counter.gpm
    assert number is not None
    assert getattr(pynvml, GPM_METRICS[number]) == number


def test_no_gpm_number_is_used_that_reads_zero_on_real_drivers() -> None:
    assert all(c.gpm is None or c.gpm < 160 for c in COUNTERS)


def test_numbers_of_other_tools_are_those_with_a_name_and_no_others() -> None:
    assert {c.gpm for c in COUNTERS if c.gpm is not None} == set(GPM_METRICS)
    assert {c.dcgm for c in COUNTERS if c.dcgm is not None} == set(DCGM_FIELDS)


def test_a_dcgm_field_stands_for_one_counter_unless_it_is_a_set_of_bits() -> None:
    uses = Tally(c.dcgm for c in COUNTERS if c.dcgm is not None)

    assert [field for field, n in uses.items() if n > 1] == [112]


def test_receiving_and_sending_are_not_mixed_up() -> None:
    for link, rx, tx in (("pcie", 1010, 1009), ("nvlink", 1012, 1011), ("c2c", 1078, 1076)):
        received, sent = BY_NAME[f"{link}_rx_bytes"], BY_NAME[f"{link}_tx_bytes"]
        assert (received.dcgm, sent.dcgm) == (rx, tx)
        assert received.gpm is not None
        assert sent.gpm is not None
        assert "_RX_" in GPM_METRICS[received.gpm]
        assert "_TX_" in GPM_METRICS[sent.gpm]


def test_the_page_about_counters_is_up_to_date() -> None:
    done = write_docs("--check", "counters.md")

    assert done.returncode == 0, done.stderr


def test_a_page_that_is_out_of_date_is_noticed_and_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "counters.md").write_text("# Counters\n")

    checked = write_docs("--check", "--docs", str(tmp_path), "counters.md")
    assert checked.returncode == 1
    assert "docs/counters.md is out of date" in checked.stderr
    assert (tmp_path / "counters.md").read_text() == "# Counters\n"

    assert write_docs("--docs", str(tmp_path), "counters.md").returncode == 0
    assert write_docs("--check", "--docs", str(tmp_path), "counters.md").returncode == 0


def test_a_page_that_is_not_there_is_refused() -> None:
    refused = write_docs("--check", "counter.md")

    assert refused.returncode == 2
    assert "no such page: counter.md" in refused.stderr


def test_every_counter_is_documented() -> None:
    page = (ROOT / "docs" / "counters.md").read_text()

    assert [c.name for c in COUNTERS if f"| `{c.name}` | {c.unit} | {c.kind} |" not in page] == []
