"""A report says by which roofs it judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from perfzero.diagnose.verdict import Diagnosis
from perfzero.report.model import Report
from perfzero.report.terminal import words

Make = Callable[..., Report]


def judged_by(report: Report, calibrated: dict[str, float]) -> str:
    """What the screen says of *report* with such roofs for its first GPU, on one line."""
    first = replace(report.gpus[0], gpu=replace(report.gpus[0].gpu, calibrated=calibrated))
    return " ".join(words(replace(report, gpus=(first, *report.gpus[1:]))).split())


def test_the_day_of_the_calibration_is_told(make_report: Make, starved: Diagnosis) -> None:
    text = judged_by(make_report(starved), {"dram": 4.3e12, "unix_s": 1_796_000_000.0})

    assert "Roofs calibrated on 2026-11-30." in text
    assert "by the table" not in text


@pytest.mark.parametrize("calibrated", [{}, {"unix_s": 1e300}])
def test_roofs_of_the_table_are_told_to_be_so(
    make_report: Make, starved: Diagnosis, calibrated: dict[str, float]
) -> None:
    assert "Roofs by the table." in judged_by(make_report(starved), calibrated)


def test_without_counters_no_roof_is_told_of(make_report: Make, silent: Diagnosis) -> None:
    assert "Roofs" not in judged_by(make_report(silent), {"unix_s": 1_796_000_000.0})
