"""
timeline.png: small multiples, left over the whole recording, right a close-up of the last PM window.

Lines are means per bin, the light band around them spans the least to the greatest sample. Where
a quantity comes from GPM as well, which is always on, its line is faint and the PM windows lie
over it. Shaded: PM windows; hatched: warm-up; red: gaps.

matplotlib brings no font with Chinese characters, and draws a box for each it has none for. So the words
are in Chinese only where a font of the system has every one of them (`Hand`), and in English elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.ft2font import FT2Font
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from perfzero import text
from perfzero.report.model import GpuReport, Panel, Report, Series, Timeline
from perfzero.report.timeline import drawn_spans
from perfzero.report.voice import Voice
from perfzero.words.said import CALLED_EN

_WIDTH_IN = 13.0
_PANEL_IN = 1.4
_DPI = 110
_SPANS = 1000
"""Marks of one kind, as many as the left plots have pixels: fifty thousand took minutes to draw."""

_GPUS = 8
"""More GPUs than this make a picture nobody reads; the worst ones are drawn."""

# Okabe and Ito (2008): told apart with any colour vision.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")


_FONTS = (
    "notosanscjk", "notosanssc", "notosanshans", "sourcehansans", "wqymicrohei", "wqyzenhei",
    "droidsansfallback", "pingfang", "hiraginosansgb", "stheiti", "msyh", "simhei", "arialunicode",
    "notoserifcjk", "simsun",
)  # fmt: skip
"""Files of fonts with Chinese characters, as Linux, macOS and Windows name them; the best to read first."""


@dataclass(frozen=True, slots=True)
class Hand:
    """What words are drawn in: a language, and the `file` of a font; None for the one that is the default."""

    say: Voice
    file: str | None = None

    def font(self, size: float | None = None, *, weight: str | None = None) -> FontProperties:
        """The font in *size* points, None for the usual size."""
        return FontProperties(size=size, weight=weight, fname=self.file)


def hand(report: Report, drawn: list[tuple[GpuReport, Panel]], *, language: str) -> Hand:
    """*language*, if there is a font for all that is *drawn* in it; else English."""
    say = Voice(language)
    if language == CALLED_EN:
        return Hand(say)
    file = font_for("".join(_words(report, drawn, say)))
    return Hand(Voice(CALLED_EN)) if file is None else Hand(say, file)


def font_for(words: str) -> str | None:
    """The file of an installed font that has every character of *words*; None where none has."""
    # Not by the name of a family: matplotlib keeps a list of these, which may be older than a font.
    wanted = {ord(character) for character in words if not character.isspace()}
    for file in _chinese_fonts():
        try:
            font = FT2Font(file)
        except (OSError, RuntimeError):  # no font, or one that cannot be read
            continue
        if all(font.get_char_index(code) for code in wanted):
            return file
    return None


def _chinese_fonts() -> list[str]:
    """The files of fonts with Chinese characters, the best first, those of usual weight before others."""
    found: list[tuple[int, bool, str]] = []
    for file in font_manager.findSystemFonts():
        name = Path(file).stem.lower().replace("-", "").replace("_", "")
        place = next((i for i, known in enumerate(_FONTS) if name.startswith(known)), None)
        if place is not None:
            found.append((place, name not in (_FONTS[place], f"{_FONTS[place]}regular"), file))
    return [file for *_, file in sorted(found)]


def _words(report: Report, drawn: list[tuple[GpuReport, Panel]], say: Voice) -> Iterator[str]:
    """All that may be drawn, but for numbers."""
    yield say.tell(report.headline)
    for gpu, panel in drawn:
        yield _title(report, gpu, panel, say)
        labels = (s.label for s in panel.series)
        yield from map(say.tell, (panel.axis, panel.roof_label, *labels))
    yield from map(say, ("plot.no_sample", "plot.seconds", "plot.seconds_close"))
    yield from (say(f"plot.{kind}") for kind in _STYLE)


def timeline_png(report: Report, *, language: str = CALLED_EN) -> bytes:
    """
    The picture as PNG; the panels of several GPUs stand below each other, the worst first.

    It is in *language* where there is a font for it, and in English elsewhere.
    """
    drawn = [(g, p) for g in report.gpus[:_GPUS] for p in g.timeline.panels]
    its = hand(report, drawn, language=language)
    say = its.say
    rows = max(1, len(drawn))
    figure = Figure(figsize=(_WIDTH_IN, 1.3 + _PANEL_IN * rows), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    headline = _escaped(say.tell(report.headline))
    figure.suptitle(headline, x=0.01, ha="left", fontproperties=its.font(11, weight="bold"))
    if drawn:
        _draw_all(figure, report, drawn, its)
    else:
        figure.text(0.5, 0.5, say("plot.no_sample"), ha="center", va="center", fontproperties=its.font())
    out = BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


def _draw_all(figure: Figure, report: Report, drawn: list[tuple[GpuReport, Panel]], its: Hand) -> None:
    say = its.say
    axes = figure.subplots(len(drawn), 2, sharex="col", sharey="row", squeeze=False, width_ratios=(3, 1))
    for (whole, close), (gpu, panel) in zip(axes, drawn, strict=True):
        _draw_whole(whole, panel, gpu.timeline, its, title=_title(report, gpu, panel, say))
        _draw_close(close, panel, its)
        # Some room above: a line at 100 % would otherwise hide under the frame.
        whole.set_ylim(0, 1.08 * (panel.top or _highest(panel)))
    whole, close = axes[-1]
    whole.set_xlim(0, max(g.timeline.duration_s for g, _ in drawn) or 1)
    whole.set_xlabel(say("plot.seconds"), fontproperties=its.font(8))
    close_ups = [g.timeline.close_up for g, _ in drawn if g.timeline.close_up is not None]
    if close_ups:
        close.set_xlim(min(c.start_s for c in close_ups), max(c.end_s for c in close_ups))
        close.set_xlabel(say("plot.seconds_close"), fontproperties=its.font(8))
    marks = _legend_of_marks([g for g, _ in drawn], say)
    if marks:
        font = its.font(7)
        figure.legend(handles=marks, loc="outside lower right", ncols=len(marks), prop=font, frameon=False)


def _title(report: Report, gpu: GpuReport, panel: Panel, say: Voice) -> str:
    if len(report.gpus) == 1:
        return say.tell(panel.title)
    return say("plot.title", gpu=gpu.gpu.index, panel=panel.title)


def _highest(panel: Panel) -> float:
    """The highest thing that has to be in sight."""
    tops = [float(np.nanmax(s.high)) for s in panel.series if np.isfinite(s.high).any()]
    return max([*tops, panel.roof or 0.0]) or 1.0


def _draw_whole(ax: Axes, panel: Panel, timeline: Timeline, its: Hand, *, title: str) -> None:
    found: dict[str, list[tuple[float, float]]] = {}
    for kind, start, end in drawn_spans(timeline, _SPANS):
        found.setdefault(kind, []).append((start, end - start))
    for kind, ranges in found.items():
        ax.broken_barh(ranges, (0, 1), transform=ax.get_xaxis_transform(), zorder=0, **_STYLE[kind])
    exact = {s.label for s in panel.series if s.source == "pm"}
    for series in panel.series:
        faint = series.source == "gpm" and series.label in exact
        _draw_line(ax, series, colour=_colour(panel, series), faint=faint)
    if panel.roof is not None:
        ax.axhline(panel.roof, color="0.25", linestyle="--", linewidth=0.9)
    ax.set_title(title, loc="left", pad=2, fontproperties=its.font(9))
    ax.set_ylabel(its.say.tell(panel.axis), fontproperties=its.font(8))
    _plain_axes(ax)


def _draw_close(ax: Axes, panel: Panel, its: Hand) -> None:
    """The close-up; it carries the legend, so that both plots keep their width."""
    for series in panel.close:
        _draw_line(ax, series, colour=_colour(panel, series), faint=False)
    _plain_axes(ax)
    if not panel.close:
        # What is not sampled that closely has nothing to show here; the legend stays.
        ax.patch.set_visible(False)
        ax.spines[:].set_visible(False)
        ax.grid(visible=False)
        ax.tick_params(left=False, bottom=False)
    labels = list(dict.fromkeys(s.label for s in panel.series))
    told = its.say.tell
    handles = [Line2D([], [], color=_colour_of(labels, label), label=told(label)) for label in labels]
    if panel.roof is not None:
        if panel.close:
            ax.axhline(panel.roof, color="0.25", linestyle="--", linewidth=0.9)
        name = told(panel.roof_label)
        handles.append(Line2D([], [], color="0.25", linestyle="--", linewidth=0.9, label=name))
    ax.legend(handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5), prop=its.font(7), frameon=False)


def _plain_axes(ax: Axes) -> None:
    ax.tick_params(labelsize=7)
    ax.grid(axis="y", color="0.9", linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)


def _colour(panel: Panel, series: Series) -> str:
    return _colour_of(list(dict.fromkeys(s.label for s in panel.series)), series.label)


def _colour_of(labels: list[str], label: str) -> str:
    return _COLOURS[labels.index(label) % len(_COLOURS)]


def _draw_line(ax: Axes, series: Series, *, colour: str, faint: bool) -> None:
    alone = len(series.time_s) == 1
    ax.plot(
        series.time_s,
        series.mean,
        color=colour,
        linewidth=0.8 if faint else 1.1,
        alpha=0.45 if faint else 1.0,
        marker="." if alone else None,
    )
    if not faint and np.isfinite(series.low).any():
        ax.fill_between(series.time_s, series.low, series.high, color=colour, alpha=0.15, linewidth=0)


_STYLE: dict[str, dict[str, Any]] = {
    "window": {"facecolor": "0.93", "edgecolor": "none"},
    # A burst is shorter than a pixel may be wide: its edge makes it visible.
    "zoom": {"facecolor": "#F0E442", "edgecolor": "#F0E442", "linewidth": 1.5},
    "warm_up": {"facecolor": "none", "edgecolor": "0.75", "hatch": "///", "linewidth": 0.0},
    "gap": {"facecolor": "#D55E00", "edgecolor": "none", "alpha": 0.25},
}


def _legend_of_marks(gpus: list[GpuReport], say: Voice) -> list[Patch]:
    present = {span.kind for gpu in gpus for span in gpu.timeline.spans}
    return [Patch(label=say(f"plot.{kind}"), **style) for kind, style in _STYLE.items() if kind in present]


def _escaped(words: str) -> str:
    """Literal text: a dollar sign would begin a formula, and a broken one raises."""
    return text.printable(words).replace("$", r"\$")
