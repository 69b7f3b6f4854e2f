"""`perfzero metrics` lists, explains and refuses."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from perfzero import metric_sets
from perfzero.aliases import known_names, resolve
from perfzero.cli import metrics
from perfzero.counters import BY_NAME, COUNTERS
from perfzero.errors import UsageError
from perfzero.metric_sets import Check, ChipSet, MetricSets
from perfzero.report.voice import Voice
from perfzero.text import width
from perfzero.words.told import told

SETS = MetricSets(
    checked={
        24: Check("2026-11-28", "580", {"GH100": ChipSet({"gr_active": "gr__old.sum"}, {})}),
        130001: Check(
            "2026-11-29",
            "580",
            {
                "GH100": ChipSet(
                    {"sm_active": "sm__new.avg", "gr_active": "gr__new.sum"},
                    {"ctxsw": "needs 2 passes with the rest"},
                ),
                "TU102": ChipSet({"gr_active": "gr__tu.sum"}, {}),
            },
        ),
    },
    ladders={},
)


@pytest.fixture(autouse=True)
def known_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_sets, "load", lambda: SETS)


def ask(*arguments: str) -> Result:
    app = typer.Typer()
    app.callback()(lambda: None)
    metrics.register(app)
    return CliRunner().invoke(app, ["metrics", *arguments])


def answer(*arguments: str) -> Any:
    """What the command says in JSON."""
    done = ask(*arguments, "--format", "json")
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def refusal(*arguments: str) -> str:
    """The message with which the command refuses."""
    done = ask(*arguments)
    assert isinstance(done.exception, UsageError)
    assert done.exception.exit_code == 2
    assert done.output == ""
    return str(done.exception)


def test_without_arguments_the_vocabulary_is_listed() -> None:
    lines = ask().output.splitlines()

    assert len(lines) == len(COUNTERS)
    assert lines[0].split()[:3] == ["gr_active", "ratio", "level"]
    assert all(line.endswith(c.doc) for line, c in zip(lines, COUNTERS, strict=True))


def test_the_vocabulary_as_json_is_complete() -> None:
    listed = answer()

    assert [c["name"] for c in listed] == [c.name for c in COUNTERS]
    assert listed[0] == {
        "name": "gr_active",
        "unit": "ratio",
        "kind": "level",
        "origin": "gpu",
        "doc": BY_NAME["gr_active"].doc,
        "cupti": list(BY_NAME["gr_active"].cupti),
        "dcgm": 1001,
        "gpm": 1,
        "nsight": "GR Active",
        "otel": "hw.gpu.utilization",
    }


def test_a_name_is_found_with_what_other_tools_call_it() -> None:
    out = ask("--find", "sm_active").output

    assert out.startswith("sm_active   ratio, level\n")
    assert "DCGM: 1002" in out
    assert "Nsight Systems: SMs Active" in out


def test_a_name_that_exists_on_no_chip_is_found_with_a_note() -> None:
    out = ask("--find", "sm__inst_executed_op_tensor_fma_h100.sum").output

    assert out.startswith("tensor_active ")
    assert "No chip from Turing to Rubin has a metric of this name" in out


def test_a_name_that_no_counter_answers_is_explained() -> None:
    assert ask("--find", "utilization.memory").exit_code == 0
    assert answer("--find", "utilization.memory")["counter"] is None
    assert "not of its bandwidth" in answer("--find", "utilization.memory")["note"]


def test_an_unknown_name_gets_the_nearest_ones_and_no_success() -> None:
    said = refusal("--find", "sm_actve")

    assert "'sm_actve'" in said
    assert "Nearest: sm_active" in said
    assert "perfzero metrics" in refusal("--find", "qqqqqqqq")


def test_a_chip_is_shown_per_version_of_the_library_in_the_order_of_the_vocabulary() -> None:
    assert ask("--chip", "GH100").output.splitlines() == [
        "GH100 with libcupti 24: 1 counters in one pass",
        "gr_active  gr__old.sum",
        "",
        "GH100 with libcupti 130001: 2 counters in one pass",
        "gr_active  gr__new.sum",
        "sm_active  sm__new.avg",
        "ctxsw      – needs 2 passes with the rest",
    ]


def test_a_chip_as_json_says_the_same() -> None:
    found = answer("--chip", "gh100")

    assert found["chip"] == "GH100"
    assert found["libcupti"]["24"] == {"one_pass": {"gr_active": "gr__old.sum"}, "left_out": {}}
    assert found["libcupti"]["130001"]["left_out"] == {"ctxsw": "needs 2 passes with the rest"}


def test_an_unknown_chip_gets_the_nearest_ones_and_no_success() -> None:
    assert "Nearest: GH100" in refusal("--chip", "GH200")
    assert "Known: GH100, TU102" in refusal("--chip", "banana")


HAN = re.compile("[\u4e00-\u9fff]")
ENGLISH = re.compile(r"(?<![\w./:-])(?:[A-Za-z][a-z']+ ){2,}[A-Za-z][a-z']+")
"""Three words in a row; names of metrics and tools have capitals, digits or lines in them."""


def test_the_vocabulary_is_told_in_chinese_in_columns() -> None:
    lines = ask("--lang", "zh").output.splitlines()
    starts = [re.match(r"(\S+ +)(\S+ +)(\S+ +)(?=\S)", line) for line in lines]

    assert [line.split()[0] for line in lines] == [c.name for c in COUNTERS]
    assert all(len(HAN.findall(line)) > 4 for line in lines)
    assert len({tuple(map(width, start.groups())) for start in starts if start is not None}) == 1
    assert ENGLISH.findall("\n".join(lines)) == []
    assert ENGLISH.findall(ask("--lang", "en").output) != []


def test_the_locale_decides_where_no_language_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")

    assert "从显存读取的字节数。" in ask().output
    assert "Bytes read from device memory." in ask("--lang", "en").output


def test_every_name_is_explained_in_chinese() -> None:
    for name in (*known_names(), "SMs Active [Throughput %]", "203"):
        found = metrics._found_text(resolve(name), Voice("zh"))
        about = [
            line for line in found.splitlines() if not line.startswith(("  CUPTI：", "  Nsight Systems："))
        ]
        assert ENGLISH.findall("\n".join(about).replace(name, "")) == [], name


def test_what_several_counters_share_is_told_in_chinese() -> None:
    assert (
        "DCGM 字段 112，DCGM_FI_DEV_CLOCKS_EVENT_REASONS。另有："
        in ask("--lang", "zh", "--find", "112").output
    )
    assert "没有对应的计数器" in ask("--lang", "zh", "--find", "utilization.memory").output


def test_a_chip_is_told_in_chinese() -> None:
    assert ask("--lang", "zh", "--chip", "GH100").output.splitlines() == [
        "GH100，libcupti 24：单遍 1 个计数器",
        "gr_active  gr__old.sum",
        "",
        "GH100，libcupti 130001：单遍 2 个计数器",
        "gr_active  gr__new.sum",
        "sm_active  sm__new.avg",
        "ctxsw      – 与其余的一起需要 2 遍",
    ]


def test_why_a_counter_is_left_out_is_known_in_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reasons in the table that perfzero ships are plain English."""
    monkeypatch.undo()
    sets = metric_sets.load()
    reasons = {
        why
        for check in sets.checked.values()
        for found in check.chips.values()
        for why in found.left_out.values()
    }

    assert len(reasons) > 3
    assert [why for why in reasons if not HAN.search(told(why, "zh"))] == []


def test_json_is_english_in_all_languages() -> None:
    for question in ((), ("--find", "utilization.gpu"), ("--chip", "GH100")):
        assert answer(*question, "--lang", "zh") == answer(*question)


def test_two_questions_at_once_are_refused() -> None:
    assert "one at a time" in refusal("--chip", "GH100", "--find", "sm_active")
