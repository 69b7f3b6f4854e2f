"""The picture: drawn for any report, and different when the data differ."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO

import matplotlib.image
import numpy as np

from perfzero.diagnose.verdict import Diagnosis
from perfzero.report.build import Judged, build
from perfzero.report.model import Report, Span
from perfzero.report.plots import timeline_png
from perfzero.values import Observation, Samples

Make = Callable[..., Report]


def pixels(png: bytes) -> np.ndarray:
    return matplotlib.image.imread(BytesIO(png), format="png")


def share_of(colour: str, picture: np.ndarray) -> float:
    """Share of pixels of a pure colour given as #rrggbb."""
    wanted = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return float((np.abs(picture[..., :3] - wanted).max(axis=-1) < 0.02).mean())


def settings() -> dict[str, object]:
    """All of matplotlib's settings but the backend, which it chooses when somebody looks at it."""
    return {k: v for k, v in matplotlib.rcParams.items() if k != "backend"}


def test_the_picture_shows_the_lines(make_report: Make, starved: Diagnosis) -> None:
    picture = pixels(timeline_png(make_report(starved)))
    assert picture.shape[1] > 1000
    assert share_of("#0072B2", picture) > 0


def test_a_picture_with_no_sample_says_so_and_draws_no_line(seen: Observation, silent: Diagnosis) -> None:
    nothing = Samples.empty()
    blind = replace(seen, pm=nothing, gpm=nothing, board=nothing)
    picture = pixels(timeline_png(build([Judged(blind, silent)], recording="r")))
    assert share_of("#0072B2", picture) == 0
    assert share_of("#000000", picture) > 0  # the words


def test_fifty_thousand_gaps_are_drawn_and_none_is_not(make_report: Make, starved: Diagnosis) -> None:
    report = make_report(starved)
    (gpu,) = report.gpus
    ends = [Span("gap", 0.0002 * i, 0.0002 * i + 0.0001) for i in range(50_000)]

    def drawn(spans: list[Span]) -> tuple[float, float]:
        its = replace(gpu, timeline=replace(gpu.timeline, spans=tuple(spans)))
        began = time.process_time()
        picture = pixels(timeline_png(replace(report, gpus=(its,))))
        return share_of("#F4D4C0", picture) + share_of("#F5D7BF", picture), time.process_time() - began

    (many, seconds), (none, _) = drawn(ends), drawn([])
    assert many > none
    assert seconds < 20


def test_words_that_look_like_a_formula_do_not_break_the_picture(
    make_report: Make, starved: Diagnosis
) -> None:
    assert timeline_png(make_report(replace(starved, headline="cost $x_{ \x1b % $ of \\frac{")))


def test_drawing_touches_no_global_state(make_report: Make, starved: Diagnosis) -> None:
    before = settings()
    timeline_png(make_report(starved))
    assert settings() == before


def test_several_gpus_stand_below_each_other(make_report: Make, starved: Diagnosis) -> None:
    one = pixels(timeline_png(make_report(starved)))
    two = pixels(timeline_png(make_report(starved, replace(starved, gpu=replace(starved.gpu, index=1)))))
    assert two.shape[0] > 1.6 * one.shape[0]
