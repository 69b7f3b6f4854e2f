"""Lines of JSON as `docs/top.schema.json` describes them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from perfzero.live.json_lines import schema, to_json
from perfzero.live.snapshot import GpuNow, Snapshot
from perfzero.values import Gpu

SCHEMA = Path(__file__).parents[2] / "docs" / "top.schema.json"


def test_the_schema_in_the_docs_is_the_one_of_the_code() -> None:
    assert json.loads(SCHEMA.read_text()) == schema()


def test_lines_of_real_gpus_fit_the_schema(eight: Snapshot) -> None:
    line = to_json(eight)

    assert line.count("\n") == 1
    jsonschema.validate(json.loads(line), schema())


def test_a_line_about_a_gpu_of_which_nothing_is_known_fits_too() -> None:
    line = to_json(Snapshot(1, (GpuNow(Gpu(0, "GPU-a", "?"), "nvml", lost="gone"),)))

    found = json.loads(line)
    jsonschema.validate(found, schema())
    assert found["gpus"][0]["sm_active"] is None
    assert found["gpus"][0]["time"] is None
    assert found["gpus"][0]["processes"] is None


def test_a_line_with_a_field_too_many_does_not_fit(one: Snapshot) -> None:
    found = json.loads(to_json(one)) | {"surprise": 1}

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(found, schema())


def test_numbers_are_in_base_units(one: Snapshot) -> None:
    gpu = json.loads(to_json(replace(one)))["gpus"][0]

    assert 0.7 < gpu["sm_active"] < 0.9
    assert 400 < gpu["power"] < 700
    assert 1e9 < gpu["sm_clock"] < 2e9
    assert sum(gpu["time"].values()) == pytest.approx(1.0)
