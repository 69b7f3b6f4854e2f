"""What the page draws on its time axis, and what it leaves to a better source."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from perfzero.report.analysis import judged_report
from perfzero.report.page_tracks import drawn_tracks

RECORDINGS = Path(__file__).parents[1] / "recordings"


@pytest.mark.parametrize(
    ("name", "drawn", "left_out"),
    [("resnet50_nchw", "fma_active", "fp32_active"), ("gpm_only", "fp32_active", "fma_active")],
)
def test_fp32_arithmetic_is_drawn_where_the_pipe_it_is_a_part_of_was_not_sampled(
    name: str, drawn: str, left_out: str
) -> None:
    report = judged_report(RECORDINGS / name)
    busy = next(t for t in drawn_tracks(report.gpus[0], defaultdict(str)) if t["name"] == "busy")

    columns = [line["column"] for line in busy["lines"]]

    assert columns.count(drawn) == 1  # and not once more, faintly, of the other kind
    assert left_out not in columns
