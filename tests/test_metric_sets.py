"""What was checked with CUPTI is complete, current, and read with suspicion."""

from __future__ import annotations

import copy
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from perfzero import metric_sets
from perfzero.counters import BY_NAME, pm_counters
from perfzero.errors import PerfzeroError
from perfzero.hardware import chip_family
from perfzero.metric_sets import load, parse

ROOT = Path(__file__).parents[1]
TOOL = ROOT / "tools" / "check_metric_sets.py"

FAMILIES = ("Turing", "GA100", "GA10x", "AD10x", "GH100", "GB100", "GB20x")
ESSENTIAL = (
    "gr_active",
    "sm_active",
    "tensor_active",
    "dram_read_bytes",
    "dram_write_bytes",
    "gpc_clock",
    "launches",
    "fma_active",
    "pcie_rx_bytes",
)
CUDA_13 = 130000
# Some chips of the library of CUDA 12.6 have no bytes of memory, only the share of its peak.
SUBSTITUTES = {"dram_read_bytes": "dram_active", "dram_write_bytes": "dram_active"}
# Chips inside a system-on-chip: the memory is the host's, and there is no PCIe in between.
CUDA_13_5 = 130500

TWO_PASSES = {"fma_active": "GB20"}
"""Libraries before 13.5 schedule this counter in a second pass on these chips: they do without it."""

INTEGRATED = {"GA10B", "GB10B", "GB10C", "GB20B", "GB20C"}

EXAMPLE: dict[str, Any] = {
    "checked": {
        "130001": {
            "date": "2026-11-29",
            "driver": "580.1",
            "chips": {
                "GH100": {"one_pass": {"gr_active": "gr__x.sum"}, "left_out": {"ctxsw": "needs 2 passes"}},
                "TU102": {"one_pass": {"gr_active": "gr__y.sum"}, "left_out": {}},
            },
        },
        "24": {
            "date": "2026-11-28",
            "driver": "580.1",
            "chips": {"GH100": {"one_pass": {"gr_active": "gr__z.sum"}, "left_out": {}}},
        },
    },
    "ladders": {"gr_active": ["gr__x.sum", "gr__y.sum"]},
}


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_metric_sets", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- the file that is shipped ----------------------------------------------------------------


def test_the_ladders_are_the_ones_that_were_checked() -> None:
    declared = {c.name: c.cupti for c in pm_counters()}

    assert load().ladders == declared, (
        "a ladder was changed: run tools/check_metric_sets.py on a machine with a driver"
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_of_chips_was_checked_with_the_newest_library(family: str) -> None:
    checked = load().checked

    assert family in {chip_family(chip) for chip in checked[max(checked)].chips if chip not in INTEGRATED}


@pytest.mark.parametrize("name", ESSENTIAL)
def test_an_essential_counter_is_in_the_pass_of_every_chip(name: str) -> None:
    without = [
        (version, chip)
        for version, check in load().checked.items()
        for chip, found in check.chips.items()
        if chip not in INTEGRATED
        and name not in found.one_pass
        and not (version < CUDA_13 and SUBSTITUTES.get(name) in found.one_pass)
        and not (version < CUDA_13_5 and chip.startswith(TWO_PASSES.get(name, "none")))
    ]

    assert without == []


def test_each_counter_is_either_in_the_pass_or_left_out_for_a_reason() -> None:
    names = {c.name for c in pm_counters()}
    for check in load().checked.values():
        for found in check.chips.values():
            assert set(found.one_pass) | set(found.left_out) == names
            assert not set(found.one_pass) & set(found.left_out)
            assert all(found.left_out.values())


def test_each_metric_in_a_pass_is_a_rung_of_its_ladder() -> None:
    for check in load().checked.values():
        for found in check.chips.values():
            for name, metric in found.one_pass.items():
                assert metric in BY_NAME[name].cupti


# --- reading ---------------------------------------------------------------------------------


def test_a_table_is_read_as_it_was_written() -> None:
    sets = parse(EXAMPLE)

    assert sets.chips() == ("GH100", "TU102")
    assert list(sets.of_chip("GH100")) == [24, 130001]
    assert sets.of_chip("GH100")[130001].left_out == {"ctxsw": "needs 2 passes"}
    assert sets.of_version(130001)["TU102"] == {"gr_active": "gr__y.sum"}
    assert sets.ladders == {"gr_active": ("gr__x.sum", "gr__y.sum")}


def test_a_chip_or_version_that_was_not_checked_has_no_sets() -> None:
    sets = parse(EXAMPLE)

    assert sets.of_chip("GX999") == {}
    assert sets.of_version(130002) == {}


def broken(*path: str, value: object) -> dict[str, Any]:
    """The example with one place replaced."""
    data = copy.deepcopy(EXAMPLE)
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return data


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (None, "the file"),
        ([], "the file"),
        ({}, "checked"),
        ({"checked": {}}, "ladders"),
        (broken("checked", "banana", value={}), "checked.banana"),
        (broken("checked", "130001", value=[]), "checked.130001"),
        (broken("checked", "130001", "date", value=3), "checked.130001.date"),
        (broken("checked", "130001", "chips", "GH100", value=None), "checked.130001.GH100"),
        (broken("checked", "130001", "chips", "GH100", "one_pass", value=["x"]), "checked.130001.GH100"),
        (broken("checked", "130001", "chips", "GH100", "left_out", value={"x": 1}), "GH100.x"),
        (broken("ladders", "gr_active", value="gr__x.sum"), "ladders.gr_active"),
        (broken("ladders", "gr_active", value=[None]), "ladders.gr_active"),
    ],
)
def test_a_table_of_another_shape_is_refused_by_the_place_that_is_wrong(data: object, named: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse(data)
    assert str(refused.value).startswith(named) or named in str(refused.value)


@pytest.mark.parametrize("content", [None, "", "{", "[]", "\udcff"])
def test_an_installation_without_the_table_says_so(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    if content is not None:
        (tmp_path / "data" / "metric_sets.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    monkeypatch.setattr(metric_sets, "files", lambda _: tmp_path)

    with pytest.raises(PerfzeroError, match="Install perfzero again"):
        load()


# --- the tool that makes the file ------------------------------------------------------------

ANSWER = {
    "version": 130002,
    "date": "2026-12-01",
    "driver": "581.1",
    "chips": {"GH100": {"one_pass": {"gr_active": "gr__x.sum"}, "left_out": {"ctxsw": "no"}}},
}


def test_a_new_check_stands_beside_those_of_other_versions(tool: ModuleType) -> None:
    merged = tool.merge(EXAMPLE, [ANSWER], ladders=EXAMPLE["ladders"])

    assert list(merged["checked"]) == ["24", "130001", "130002"]
    assert parse(merged).of_version(130002) == {"GH100": {"gr_active": "gr__x.sum"}}
    assert merged["checked"]["130001"] == EXAMPLE["checked"]["130001"]


def test_a_check_of_the_same_version_replaces_the_old_one(tool: ModuleType) -> None:
    merged = tool.merge(EXAMPLE, [{**ANSWER, "version": 130001}], ladders=EXAMPLE["ladders"])

    assert merged["checked"]["130001"]["driver"] == "581.1"


def test_checks_of_other_ladders_are_dropped(tool: ModuleType) -> None:
    ladders = {"gr_active": ["gr__new.sum"]}

    assert list(tool.merge(EXAMPLE, [ANSWER], ladders=ladders)["checked"]) == ["130002"]
    assert list(tool.merge(None, [ANSWER], ladders=ladders)["checked"]) == ["130002"]


def test_the_tool_declares_the_ladders_of_the_vocabulary(tool: ModuleType) -> None:
    assert tool.declared_ladders() == {c.name: list(c.cupti) for c in pm_counters()}


def test_the_tool_shows_what_did_not_fit_and_why(tool: ModuleType) -> None:
    assert tool.table(ANSWER).splitlines() == [
        "libcupti 130002, driver 581.1",
        "  GH100    1 fit   ctxsw: no",
    ]


def test_the_tool_writes_nothing_when_no_library_answers(tmp_path: Path) -> None:
    output = tmp_path / "sets.json"
    command = [sys.executable, str(TOOL), "--library", str(tmp_path / "none.so"), "--output", str(output)]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "nothing was written" in done.stderr
    assert not output.exists()


def test_the_tool_writes_what_the_libraries_answer(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "data" / "sets.json"
    monkeypatch.setattr(tool, "_in_own_process", lambda path, chips: ANSWER if path == "good" else None)

    assert tool.main(["--library", "bad", "--library", "good", "--output", str(output)]) == 0

    assert parse(json.loads(output.read_text())).chips() == ("GH100",)
    assert "libcupti 130002" in capsys.readouterr().out


def test_a_look_at_some_chips_only_writes_nothing(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "_in_own_process", lambda path, chips: ANSWER)

    assert tool.main(["--library", "x", "--chip", "GH100", "--output", str(tmp_path / "sets.json")]) == 0
    assert list(tmp_path.iterdir()) == []
