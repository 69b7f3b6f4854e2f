"""report.json against its documented schema."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from perfzero.diagnose.verdict import Diagnosis
from perfzero.report.json_file import document, to_json
from perfzero.report.model import Report
from perfzero.report.schema import schema, schema_text

Make = Callable[..., Report]

PUBLISHED = Path(__file__).parents[2] / "docs" / "report.schema.json"


def refuse_constant(name: str) -> float:
    raise AssertionError(f"{name} is no JSON")


def check(report: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(schema()).validate(report)


def test_the_published_schema_is_the_one_in_use() -> None:
    if os.environ.get("PERFZERO_REGENERATE") == "1":
        PUBLISHED.write_text(schema_text(), encoding="utf-8")
    assert PUBLISHED.read_text(encoding="utf-8") == schema_text()


def test_the_schema_is_itself_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("name", ["starved", "healthy", "silent"])
def test_every_report_keeps_to_the_schema_and_to_strict_json(
    name: str, make_report: Make, request: pytest.FixtureRequest
) -> None:
    written = to_json(make_report(request.getfixturevalue(name)))
    check(json.loads(written, parse_constant=refuse_constant))


def test_a_report_without_cost_or_gpu_keeps_to_the_schema(make_report: Make) -> None:
    check(json.loads(to_json(make_report(cost=None)), parse_constant=refuse_constant))


def test_a_field_that_the_schema_does_not_know_is_refused(make_report: Make, starved: Diagnosis) -> None:
    report = document(make_report(starved))
    check(report)
    for where in (report, report["gpus"][0], report["gpus"][0]["verdict"], report["cost"]):
        where["surprise"] = 1
        with pytest.raises(jsonschema.ValidationError, match="surprise"):
            check(report)
        del where["surprise"]


def test_a_field_that_is_gone_is_noticed(make_report: Make, starved: Diagnosis) -> None:
    report = copy.deepcopy(document(make_report(starved)))
    del report["gpus"][0]["steady"]["how"]
    with pytest.raises(jsonschema.ValidationError, match="'how' is a required property"):
        check(report)


def test_what_was_said_comes_back_from_the_file(make_report: Make, starved: Diagnosis) -> None:
    report = json.loads(to_json(make_report(starved)))
    assert report["schema"] == 1
    gpu = report["gpus"][0]
    assert gpu["verdict"]["rule"] == "input_starved"
    assert gpu["verdict"]["gain"] == {"low": 1.9, "high": 2.3, "assumption": "the loader keeps up"}
    assert gpu["time"]["idle"] == 0.58
    assert {f["name"]: f["value"] for f in gpu["facts"]}["l2_hit"] is None
    assert report["cost"]["slowdown"] == 0.0003
    assert report["process"] == {"pid": 4242, "command": ["python", "train.py"], "exit_code": 0}


def test_a_missing_number_is_null_and_never_zero(make_report: Make, silent: Diagnosis) -> None:
    gpu = json.loads(to_json(make_report(silent)))["gpus"][0]
    assert gpu["truth"] == dict.fromkeys(("smi_utilization", "sm_active", "tensor_active", "dram_roof_share"))
    assert gpu["verdict"] is None
    assert gpu["no_verdict"].startswith("All counters read 0")


def test_the_first_gpu_is_the_worst(make_report: Make, starved: Diagnosis, healthy: Diagnosis) -> None:
    report = document(make_report(healthy, replace(starved, gpu=replace(starved.gpu, index=1))))
    assert [g["gpu"]["index"] for g in report["gpus"]] == [1, 0]
