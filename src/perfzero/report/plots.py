"""
timeline.png: small multiples, left over the whole recording, right a close-up of the last PM window.

Lines are means per bin, the light band around them spans the least to the greatest sample. Where
a quantity comes from GPM as well, which is always on, its line is faint and the PM windows lie
over it. Shaded: PM windows; hatched: warm-up; red: gaps.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from perfzero import text
from perfzero.report.model import GpuReport, Panel, Report, Series, Timeline
from perfzero.report.timeline import drawn_spans

_WIDTH_IN = 13.0
_PANEL_IN = 1.4
_DPI = 110
_SPANS = 1000
"""Marks of one kind, as many as the left plots have pixels: fifty thousand took minutes to draw."""

_GPUS = 8
"""More GPUs than this make a picture nobody reads; the worst ones are drawn."""

# Okabe and Ito (2008): told apart with any colour vision.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")


def timeline_png(report: Report) -> bytes:
    """The picture as PNG; the panels of several GPUs stand below each other, the worst first."""
    drawn = [(g, p) for g in report.gpus[:_GPUS] for p in g.timeline.panels]
    rows = max(1, len(drawn))
    figure = Figure(figsize=(_WIDTH_IN, 1.3 + _PANEL_IN * rows), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(_escaped(report.headline), x=0.01, ha="left", fontsize=11, fontweight="bold")
    if drawn:
        _draw_all(figure, report, drawn)
    else:
        figure.text(0.5, 0.5, "No sample to draw.", ha="center", va="center")
    out = BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


def _draw_all(figure: Figure, report: Report, drawn: list[tuple[GpuReport, Panel]]) -> None:
    axes = figure.subplots(len(drawn), 2, sharex="col", sharey="row", squeeze=False, width_ratios=(3, 1))
    for (whole, close), (gpu, panel) in zip(axes, drawn, strict=True):
        _draw_whole(whole, panel, gpu.timeline, title=_title(report, gpu, panel))
        _draw_close(close, panel)
        # Some room above: a line at 100 % would otherwise hide under the frame.
        whole.set_ylim(0, 1.08 * (panel.top or _highest(panel)))
    whole, close = axes[-1]
    whole.set_xlim(0, max(g.timeline.duration_s for g, _ in drawn) or 1)
    whole.set_xlabel("seconds since the recording began", fontsize=8)
    close_ups = [g.timeline.close_up for g, _ in drawn if g.timeline.close_up is not None]
    if close_ups:
        close.set_xlim(min(c.start_s for c in close_ups), max(c.end_s for c in close_ups))
        close.set_xlabel("seconds: the last PM window, close up", fontsize=8)
    marks = _legend_of_marks([g for g, _ in drawn])
    if marks:
        figure.legend(handles=marks, loc="outside lower right", ncols=len(marks), fontsize=7, frameon=False)


def _title(report: Report, gpu: GpuReport, panel: Panel) -> str:
    return f"GPU {gpu.gpu.index}: {panel.title}" if len(report.gpus) > 1 else panel.title


def _highest(panel: Panel) -> float:
    """The highest thing that has to be in sight."""
    tops = [float(np.nanmax(s.high)) for s in panel.series if np.isfinite(s.high).any()]
    return max([*tops, panel.roof or 0.0]) or 1.0


def _draw_whole(ax: Axes, panel: Panel, timeline: Timeline, *, title: str) -> None:
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
    ax.set_title(title, loc="left", fontsize=9, pad=2)
    ax.set_ylabel(panel.axis, fontsize=8)
    _plain_axes(ax)


def _draw_close(ax: Axes, panel: Panel) -> None:
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
    handles = [Line2D([], [], color=_colour_of(labels, label), label=label) for label in labels]
    if panel.roof is not None:
        if panel.close:
            ax.axhline(panel.roof, color="0.25", linestyle="--", linewidth=0.9)
        handles.append(Line2D([], [], color="0.25", linestyle="--", linewidth=0.9, label=panel.roof_label))
    ax.legend(handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7, frameon=False)


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
_NAMES = {"window": "PM window", "zoom": "zoom burst", "warm_up": "warm-up, not judged", "gap": "gap"}


def _legend_of_marks(gpus: list[GpuReport]) -> list[Patch]:
    present = {span.kind for gpu in gpus for span in gpu.timeline.spans}
    return [Patch(label=name, **_STYLE[kind]) for kind, name in _NAMES.items() if kind in present]


def _escaped(words: str) -> str:
    """Literal text: a dollar sign would begin a formula, and a broken one raises."""
    return text.printable(words).replace("$", r"\$")
