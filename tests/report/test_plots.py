"""The picture: drawn for any report, and different when the data differ."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager

from perfzero.diagnose.verdict import Diagnosis
from perfzero.report.build import Judged, build
from perfzero.report.model import Report, Span
from perfzero.report.plots import font_for, hand, timeline_png
from perfzero.values import Observation, Samples
from perfzero.words.catalogue import catalogue

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


CHINESE = sorted(
    {*"".join(catalogue("zh").values()), *map(chr, range(33, 127)), *"°·–−×≤≥µ±…"} - {*" \n\ue000"}
)


def write_font(path: Path, characters: list[str]) -> str:
    """A font in which each of *characters* is a square; its path."""
    pen = TTGlyphPen(None)
    for number, corner in enumerate(((100, 0), (100, 700), (800, 700), (800, 0))):
        (pen.lineTo if number else pen.moveTo)(corner)
    pen.closePath()
    square, nothing = pen.glyph(), TTGlyphPen(None).glyph()
    names = {ord(c): f"u{ord(c):04X}" for c in characters}
    font = FontBuilder(1000, isTTF=True)
    font.setupGlyphOrder([".notdef", "space", *names.values()])
    font.setupCharacterMap({32: "space", **names})
    font.setupGlyf({".notdef": nothing, "space": nothing, **dict.fromkeys(names.values(), square)})
    font.setupHorizontalMetrics(dict.fromkeys([".notdef", "space", *names.values()], (900, 100)))
    font.setupHorizontalHeader(ascent=800, descent=-200)
    font.setupNameTable({"familyName": "Squares", "styleName": "Regular"})
    font.setupOS2(sTypoAscender=800, sTypoDescender=-200, usWinAscent=800, usWinDescent=200)
    font.setupPost()
    font.save(path)
    return str(path)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files of all fonts of the system: none, until a test adds some."""
    files: list[str] = []
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: list(files))
    return files


def drawn_in(report: Report) -> str:
    panels = [(gpu, panel) for gpu in report.gpus for panel in gpu.timeline.panels]
    return hand(report, panels, language="zh").say.language


def test_chinese_is_drawn_where_a_font_has_all_of_its_characters(
    make_report: Make, starved: Diagnosis, installed: list[str], tmp_path: Path
) -> None:
    report = make_report(starved)
    installed.append(write_font(tmp_path / "NotoSansSC-Regular.ttf", CHINESE))

    chinese = timeline_png(report, language="zh")  # a character without a shape would be a warning

    assert drawn_in(report) == "zh"
    assert share_of("#000000", pixels(chinese)) > share_of("#000000", pixels(timeline_png(report)))


def test_without_a_font_for_chinese_the_picture_is_the_english_one(
    make_report: Make, starved: Diagnosis, installed: list[str]
) -> None:
    report = make_report(starved)

    assert drawn_in(report) == "en"
    assert timeline_png(report, language="zh") == timeline_png(report)


@pytest.mark.parametrize("missing", ["显", "%", "录", "预"])
def test_a_font_that_lacks_one_character_of_what_is_drawn_is_not_used(
    make_report: Make, starved: Diagnosis, installed: list[str], tmp_path: Path, missing: str
) -> None:
    report = make_report(starved)
    without = [character for character in CHINESE if character != missing]
    installed.append(write_font(tmp_path / "NotoSansSC-Regular.ttf", without))

    assert drawn_in(report) == "en"


def test_a_headline_with_characters_that_no_font_has_is_drawn_in_english(
    make_report: Make, starved: Diagnosis, installed: list[str], tmp_path: Path
) -> None:
    installed.append(write_font(tmp_path / "NotoSansSC-Regular.ttf", CHINESE))

    assert drawn_in(make_report(replace(starved, headline="训练 ok"))) == "zh"
    assert drawn_in(make_report(replace(starved, headline="训练 \U0001f680"))) == "en"


def test_of_several_fonts_the_best_that_can_be_read_is_taken(installed: list[str], tmp_path: Path) -> None:
    broken = tmp_path / "NotoSansCJK-Regular.ttc"
    broken.write_bytes(b"no font")
    bold, usual, lesser, other = (
        write_font(tmp_path / name, CHINESE)
        for name in ("SourceHanSans-Bold.otf", "SourceHanSans-Regular.otf", "simhei.ttf", "Squares.ttf")
    )

    installed += [other, lesser, bold, str(broken), str(tmp_path / "NotoSansSC-gone.ttf")]
    assert font_for("显存") == bold
    installed.append(usual)
    assert font_for("显存") == usual
    installed[:] = [other]
    assert font_for("显存") is None


def test_several_gpus_are_named_in_chinese_too(
    make_report: Make, starved: Diagnosis, installed: list[str], tmp_path: Path
) -> None:
    installed.append(write_font(tmp_path / "wqy-microhei.ttc", CHINESE))
    report = make_report(starved, replace(starved, gpu=replace(starved.gpu, index=1)))

    assert timeline_png(report, language="zh") != timeline_png(report)


def test_a_picture_without_samples_says_so_in_chinese(
    seen: Observation, silent: Diagnosis, installed: list[str], tmp_path: Path
) -> None:
    installed.append(write_font(tmp_path / "msyh.ttc", CHINESE))
    nothing = Samples.empty()
    blind = build([Judged(replace(seen, pm=nothing, gpm=nothing, board=nothing), silent)], recording="r")

    assert timeline_png(blind, language="zh") != timeline_png(blind)


def test_the_fonts_of_this_machine_can_be_looked_through(make_report: Make, starved: Diagnosis) -> None:
    """Whatever they are, what is drawn has a shape: a character without one would be a warning."""
    assert timeline_png(make_report(starved), language="zh")
