"""
A snapshot as lines of text, for a terminal of any width: what both `--once` and the display show.

A `Line` is a sequence of (text, style), styles by name: what they look like is the display's business.
Nothing is said by a style alone, so that a screen without colour says the same. With `ASCII` no
character outside of ASCII appears, for terminals that would draw question marks.

Names of processes may come from anyone: every cell is cut to its width in terminal columns, in which
a Chinese character takes two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Literal

from rich.cells import cell_len, set_cell_size

from perfzero import text
from perfzero.diagnose.verdict import TimeClass
from perfzero.live.snapshot import GpuNow, ProcessNow, Snapshot
from perfzero.words.catalogue import catalogue

Style = Literal["", "bold", "dim", "good", "warn", "accent", "selected"]
Line = tuple[tuple[str, Style], ...]

SortKey = Literal["memory", "pid", "user", "command"]
SORT_KEYS: tuple[SortKey, ...] = ("memory", "pid", "user", "command")

HELD = {"capped_power": "power cap", "capped_thermal": "heat", "capped_hardware": "hardware slowdown"}
"""What holds the clocks down, in words."""

HELD_SHORT = {"capped_power": "power", "capped_thermal": "heat", "capped_hardware": "slowed"}

NVML_ONLY = "nvidia-smi's number says that some kernel ran, and not how well it used the GPU."

NARROWEST, SHORTEST = 40, 8
"""Below this size nothing would be readable; the display says so instead."""

LEAST_SPARK, MOST_SPARK = 8, 120

FEWEST_PROCESS_LINES = 4
"""Heading and three processes: what the card leaves of a low screen."""

LEAST_CARD_LINES = 4
"""Of the selected GPU, however low the screen is and however many GPUs there are."""

TOLD_SHARE = 0.01
"""A class with less of the last minute is not named."""


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters that are not letters. `levels` draw a spark, low to high; `gap`: nothing was read."""

    levels: str
    gap: str
    pointer: str
    missing: str
    dot: str
    down: str
    up: str
    rule: str
    degree: str
    ellipsis: str
    ascii_only: bool = False


UNICODE = Glyphs("▁▂▃▄▅▆▇█", " ", "▸", "–", " · ", "↓", "↑", "─", "°C", "…")
ASCII = Glyphs("_.-:=+*#", " ", ">", "-", ", ", "in", "out", "-", "C", "~", ascii_only=True)


@dataclass(frozen=True, slots=True)
class View:
    """What the reader has chosen: the place of a GPU, the order of processes, how far they are scrolled."""

    selected: int = 0
    sort: SortKey = "memory"
    scrolled: int = 0
    paused: bool = False
    every: str = ""


def page(
    snapshot: Snapshot, view: View, *, width: int, height: int | None = None, glyphs: Glyphs = UNICODE
) -> list[Line]:
    """
    All that is shown, at most *height* lines of *width* columns; None for as many as there are.

    The selected GPU has a card; the others, and where the screen is low it too, have a row.
    """
    if width < NARROWEST or (height is not None and height < SHORTEST):
        return [_fit([("The terminal is too small for this.", "")], width, glyphs)]
    room = math.inf if height is None else height
    gpus = snapshot.gpus
    selected = min(view.selected, len(gpus) - 1)
    top = [_title(snapshot, view, width, glyphs)]
    if len(gpus) > 1:
        at_most = max(2, int(min(len(gpus) + 1, room - 1 - LEAST_CARD_LINES)))
        top += _rows(gpus, selected, width=width, lines=at_most, glyphs=glyphs)
    sections = [top]
    processes = process_lines(snapshot, view, width=width, glyphs=glyphs)
    left = room - len(top)
    left = max(left - min(len(processes), FEWEST_PROCESS_LINES), min(left, LEAST_CARD_LINES))
    for gpu in gpus if height is None else gpus[selected : selected + 1]:
        sections.append(card(gpu, snapshot, width=width, lines=left, glyphs=glyphs))
        left -= len(sections[-1])
    left = room - sum(map(len, sections))
    sections.append(_scrolled(processes, view.scrolled, room=left, width=width, glyphs=glyphs))
    notices = [_fit([(notice, "dim")], width, glyphs) for notice in snapshot.notices]
    if len(notices) <= room - sum(map(len, sections)):
        sections.append(notices)
    return _set_apart([section for section in sections if section], room)


def _set_apart(sections: Sequence[list[Line]], room: float) -> list[Line]:
    """All sections, with an empty line before each for which there is *room*."""
    out: list[Line] = []
    spare = room - sum(map(len, sections))
    for section in sections:
        if out and spare > 0:
            out.append(())
            spare -= 1
        out += section
    return out


def words(snapshot: Snapshot, view: View, *, width: int, glyphs: Glyphs = UNICODE) -> str:
    """The page as plain text, ending in a newline."""
    lines = page(snapshot, view, width=width, glyphs=glyphs)
    return "".join(plain(line).rstrip() + "\n" for line in lines)


def plain(line: Line) -> str:
    """*line* without its styles."""
    return "".join(part for part, _ in line)


def fitted(words: str, style: Style, *, width: int, glyphs: Glyphs) -> Line:
    """*words* as a line, cut where the screen ends."""
    return _fit([(words, style)], width, glyphs)


def rule(title: str, *, width: int, glyphs: Glyphs) -> Line:
    """A line across the screen with a *title* in it."""
    left = f"{glyphs.rule * 2} {title} "
    return _fit([(left, "bold"), (glyphs.rule * max(0, width - cell_len(left)), "dim")], width, glyphs)


def spark(values: Sequence[float], *, width: int, glyphs: Glyphs) -> str:
    """Shares of 1 as a line of *width* columns, the newest at its right end; a gap where nothing was read."""
    shown = list(values[-width:])
    return "".join(_level(value, glyphs) for value in shown).rjust(width)


def _level(value: float, glyphs: Glyphs) -> str:
    if not math.isfinite(value):
        return glyphs.gap
    return glyphs.levels[min(len(glyphs.levels) - 1, max(0, int(value * len(glyphs.levels))))]


# --- the rows: one line for each of several GPUs --------------------------------------------


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the rows; those with the least `worth` go first where the screen is narrow."""

    heading: str
    width: int
    worth: int
    right: bool = True


_ROW_COLUMNS: dict[str, _Column] = {
    "gpu": _Column("GPU", 4, 100, right=False),
    "doing": _Column(" does most", 19, 90, right=False),
    "spark": _Column("", 0, 95, right=False),
    "sm": _Column("SM", 5, 99),
    "tensor": _Column("tens", 5, 98),
    "dram": _Column("DRAM", 5, 97),
    "smi": _Column("smi", 5, 96),
    "pcie": _Column("PCIe", 5, 70),
    "nvlink": _Column("NVL", 5, 65),
    "power": _Column("power", 6, 80),
    "limit": _Column("limit", 7, 30),
    "clock": _Column("clock", 6, 50),
    "highest": _Column("of MHz", 7, 29),
    "temperature": _Column("temp", 5, 60),
    "memory": _Column("mem", 5, 75),
    "total": _Column("total", 6, 28),
    "processes": _Column("pids", 5, 40),
    "held": _Column("held by", 8, 85),
    "name": _Column("model", 20, 20, right=False),
}


def _rows(gpus: Sequence[GpuNow], selected: int, *, width: int, lines: int, glyphs: Glyphs) -> list[Line]:
    columns = dict(_ROW_COLUMNS)
    if not any(math.isfinite(gpu.nvlink_share) for gpu in gpus):
        del columns["nvlink"]
    if not any(gpu.held_down for gpu in gpus):
        columns["held"] = replace(columns["held"], worth=10)
    while sum(c.width for c in columns.values()) + LEAST_SPARK + 1 > width:
        del columns[min(columns, key=lambda name: columns[name].worth)]
    length = min(MOST_SPARK, width - 1 - sum(c.width for c in columns.values()))
    columns["spark"] = replace(columns["spark"], heading=" SMs busy", width=length + 1)
    heading = "".join(_cell(c.heading, c.width, glyphs, right=c.right) for c in columns.values())
    first = max(0, min(selected - (lines - 1) + 1, len(gpus) - (lines - 1)))
    out: list[Line] = [_fit([(heading, "dim")], width, glyphs)]
    for place in range(first, min(len(gpus), first + lines - 1)):
        gpu = gpus[place]
        cells = _row(gpu, glyphs, spark_width=length)
        mark = glyphs.pointer if place == selected else " "
        cells["gpu"] = (f"{mark}{gpu.gpu.index:>2}", "selected" if place == selected else "bold")
        if gpu.lost:
            number = _cell(cells["gpu"][0], columns["gpu"].width, glyphs, right=False)
            parts: list[tuple[str, Style]] = [
                (number, "bold"),
                (f" lost: {text.printable(gpu.lost)}", "warn"),
            ]
        else:
            parts = [
                (_cell(cells[name][0], c.width, glyphs, right=c.right), cells[name][1])
                for name, c in columns.items()
            ]
        out.append(_fit(parts, width, glyphs))
    return out


def _row(gpu: GpuNow, glyphs: Glyphs, *, spark_width: int) -> dict[str, tuple[str, Style]]:
    counted = gpu.tier == "gpm"
    # The card has all of them; here there is room for one, and how many more.
    held = HELD_SHORT[gpu.held_down[0]] if gpu.held_down else ""
    held += f"+{len(gpu.held_down) - 1}" if len(gpu.held_down) > 1 else ""
    doing: tuple[str, Style] = ("no counters", "dim")
    if counted and gpu.first_class is not None:
        share = short(gpu.shares[gpu.first_class], glyphs)
        doing = (f"{class_name(gpu.first_class)} {share}", "accent")
    elif counted:
        doing = (glyphs.missing, "dim")
    drawn = gpu.trails.get("sm_active" if counted else "smi_utilization", ())
    count = glyphs.missing if gpu.processes is None else str(len(gpu.processes))
    return {
        "gpu": ("", ""),
        "doing": (f" {doing[0]}", doing[1]),
        "spark": (f" {spark(drawn, width=spark_width, glyphs=glyphs)}", "good" if counted else "dim"),
        "sm": (short(gpu.sm_active, glyphs), "bold"),
        "tensor": (short(gpu.tensor_active, glyphs), ""),
        "dram": (short(gpu.dram_roof_share, glyphs), ""),
        "smi": (short(gpu.smi_utilization, glyphs), "dim"),
        "pcie": (short(gpu.pcie_link_share, glyphs), ""),
        "nvlink": (short(gpu.nvlink_share, glyphs), ""),
        "power": (_whole(gpu.power, "W", glyphs), ""),
        "limit": (_whole(gpu.power_limit, "W", glyphs), "dim"),
        "clock": (_whole(gpu.sm_clock / 1e6, "", glyphs), ""),
        "highest": (_whole(gpu.sm_clock_max / 1e6, "", glyphs), "dim"),
        "temperature": (_whole(gpu.temperature, "C", glyphs), ""),
        "memory": (_giga(gpu.memory_used, glyphs, "G"), ""),
        "total": (_giga(gpu.memory_total, glyphs, "G"), "dim"),
        "processes": (count, ""),
        "held": (held, "warn"),
        "name": (f"  {text.printable(gpu.gpu.name).removeprefix('NVIDIA ')}", "dim"),
    }


# --- the card of one GPU --------------------------------------------------------------------


def card(gpu: GpuNow, snapshot: Snapshot, *, width: int, lines: float, glyphs: Glyphs) -> list[Line]:
    """One GPU in full, in at most *lines* lines: the least important ones are left out first."""
    told = list(_card(gpu, snapshot, width=width, glyphs=glyphs))
    while len(told) > lines and told:
        told.remove(min(told, key=lambda each: each[0]))
    return [line for _, line in told]


def _card(gpu: GpuNow, snapshot: Snapshot, *, width: int, glyphs: Glyphs) -> Iterable[tuple[int, Line]]:
    """Each line with its worth."""
    used, whole = (_giga(size, glyphs) for size in (gpu.memory_used, gpu.memory_total))
    clock, highest = (_whole(hertz / 1e6, "", glyphs) for hertz in (gpu.sm_clock, gpu.sm_clock_max))
    state = [
        f"{_whole(gpu.temperature, '', glyphs)} {glyphs.degree}",
        f"memory {used} of {whole} GB",
        f"clock {clock} of {highest} MHz",
    ]
    name = text.printable(gpu.gpu.name).removeprefix("NVIDIA ")
    head = f"GPU {gpu.gpu.index}  {name}{'  (MIG)' if gpu.gpu.mig else ''}"
    yield 90, _spread((head, "bold"), (glyphs.dot.join(state), ""), width, glyphs)
    if gpu.lost:
        yield 99, _fit([(f"  lost: {text.printable(gpu.lost)}", "warn")], width, glyphs)
        return
    span = text.duration(snapshot.column_s * _spark_width(width))
    if gpu.tier == "gpm":
        yield 89, _measure("SMs busy", gpu.sm_active, gpu, "sm_active", f"last {span}", width, glyphs, "bold")
        yield 88, _measure("tensor cores", gpu.tensor_active, gpu, "tensor_active", "", width, glyphs)
        note = "of its practical roof"
        yield 87, _measure("DRAM", gpu.dram_roof_share, gpu, "dram_roof_share", note, width, glyphs)
        note = _both(gpu.pcie_rx, gpu.pcie_tx, glyphs)
        yield 60, _measure("PCIe", gpu.pcie_link_share, gpu, "pcie_link_share", note, width, glyphs)
        # A GPU alone has nobody to talk to over NVLink, though its counters are there and read zero.
        if math.isfinite(gpu.nvlink_share) and (len(snapshot.gpus) > 1 or any(gpu.trails["nvlink_share"])):
            note = _both(gpu.nvlink_rx, gpu.nvlink_tx, glyphs)
            yield 55, _measure("NVLink", gpu.nvlink_share, gpu, "nvlink_share", note, width, glyphs)
    note = f"{_whole(gpu.power, '', glyphs)} of {_whole(gpu.power_limit, '', glyphs)} W"
    yield 65, _measure("power", gpu.power_share, gpu, "power_share", note, width, glyphs)
    note = "some kernel was running"
    yield 70, _measure("nvidia-smi", gpu.smi_utilization, gpu, "smi_utilization", note, width, glyphs, "dim")
    if gpu.held_down:
        held = " and ".join(HELD[name] for name in gpu.held_down)
        yield 86, _fit([("  held down by  ", ""), (held, "warn")], width, glyphs)
    if gpu.tier == "nvml":
        why = f" {text.printable(gpu.without_gpm)}" if gpu.without_gpm else ""
        yield 85, _fit([(f"  {NVML_ONLY}{why}", "warn")], width, glyphs)
    elif gpu.shares:
        told = glyphs.dot.join(f"{class_name(n)} {short(s, glyphs)}" for n, s in told_shares(gpu))
        yield 95, _fit([(f"  last {gpu.shares_s:.0f} s  ", ""), (told, "accent")], width, glyphs)


def told_shares(gpu: GpuNow) -> list[tuple[TimeClass, float]]:
    """Where the last minute went, the largest share first; what rounds to nothing is left out."""
    return sorted(((n, s) for n, s in gpu.shares.items() if s >= TOLD_SHARE), key=lambda item: -item[1])


def class_name(name: TimeClass) -> str:
    """The class in a word or two."""
    return catalogue("en")[name]


_LABEL, _VALUE, _NOTE = 15, 5, 24


def _spark_width(width: int) -> int:
    return max(LEAST_SPARK, min(MOST_SPARK, width - _LABEL - _VALUE - _NOTE - 3))


def _measure(
    label: str,
    value: float,
    gpu: GpuNow,
    trail: str,
    note: str,
    width: int,
    glyphs: Glyphs,
    style: Style = "",
) -> Line:
    """A label, the figure now, its past, and what it is held against."""
    drawn = spark(gpu.trails.get(trail, ()), width=_spark_width(width), glyphs=glyphs)
    parts: list[tuple[str, Style]] = [
        (_cell(f"  {label}", _LABEL, glyphs, right=False), style),
        (_cell(short(value, glyphs), _VALUE, glyphs), "bold" if style != "dim" else "dim"),
        (f"  {drawn} ", "dim" if style == "dim" else "good"),
        (note, "dim"),
    ]
    return _fit(parts, width, glyphs)


def _both(into: float, out: float, glyphs: Glyphs) -> str:
    return f"{glyphs.down} {_rate(into, glyphs)} {glyphs.up} {_rate(out, glyphs)}"


def _rate(value: float, glyphs: Glyphs) -> str:
    """In as few characters as can be: 1.9 GB/s is "1.9G"."""
    words = text.quantity(value, "bytes/s").replace(text.MISSING, glyphs.missing)
    return words.replace(" ", "").replace("B/s", "")


# --- processes ------------------------------------------------------------------------------


def sorted_processes(snapshot: Snapshot, view: View) -> list[ProcessNow]:
    """All processes, those of the selected GPU first, each group in the order that was chosen."""
    chosen = snapshot.gpus[min(view.selected, len(snapshot.gpus) - 1)].gpu.index if snapshot.gpus else -1
    everything = [p for gpu in snapshot.gpus for p in gpu.processes or ()]
    return sorted(everything, key=lambda p: (p.gpu != chosen, p.gpu, _order(p, view.sort)))


def _order(process: ProcessNow, by: SortKey) -> tuple[float | str, int]:
    """Most memory first, what has none told last; else ascending."""
    if by == "memory":
        return (-process.memory if math.isfinite(process.memory) else math.inf), process.pid
    return {"pid": "", "user": process.user, "command": process.command}[by], process.pid


def process_lines(snapshot: Snapshot, view: View, *, width: int, glyphs: Glyphs) -> list[Line]:
    """The heading and a line for each process; a sentence where the driver tells of none."""
    widths = {"gpu": 4, "pid": 9, "user": 10 if width < 120 else 16, "memory": 9}
    found = sorted_processes(snapshot, view)
    if not found:
        return [_fit([(_nobody(snapshot), "dim")], width, glyphs)]
    mark = {key: f"{key.upper()}{'*' if key == view.sort else ''}" for key in SORT_KEYS}
    heading = (
        _cell("GPU", widths["gpu"], glyphs)
        + _cell(mark["pid"], widths["pid"], glyphs)
        + _cell(f" {mark['user']}", widths["user"] + 1, glyphs, right=False)
        + _cell(mark["memory"], widths["memory"], glyphs)
        + f"  {mark['command']}"
    )
    out = [_fit([(heading, "dim")], width, glyphs)]
    chosen = snapshot.gpus[min(view.selected, len(snapshot.gpus) - 1)].gpu.index
    for process in found:
        memory = text.quantity(process.memory, "bytes").replace(text.MISSING, glyphs.missing)
        line = (
            _cell(str(process.gpu), widths["gpu"], glyphs)
            + _cell(str(process.pid), widths["pid"], glyphs)
            + _cell(f" {process.user or glyphs.missing}", widths["user"] + 1, glyphs, right=False)
            + _cell(memory, widths["memory"], glyphs)
            + f"  {process.command or '(not visible from here)'}"
        )
        out.append(_fit([(line, "" if process.gpu == chosen else "dim")], width, glyphs))
    return out


def _nobody(snapshot: Snapshot) -> str:
    if any((gpu.memory_used or 0) > 1e9 or gpu.sm_active > 0.01 for gpu in snapshot.gpus):
        return "The driver lists no process. It hides those outside of this container."
    return "No process is on the GPU." if len(snapshot.gpus) == 1 else "No process is on a GPU."


def _scrolled(lines: Sequence[Line], by: int, *, room: float, width: int, glyphs: Glyphs) -> list[Line]:
    """The heading and as many of the other *lines* as there is *room* for, from number *by* on."""
    if len(lines) <= room:
        return list(lines)
    if room < 2:
        return []  # a heading says nothing alone
    shown = max(0, int(room) - 2)
    first = max(0, min(by, len(lines) - 1 - shown))
    hidden = len(lines) - 1 - shown
    more = f"    {hidden} more: PgUp PgDn" if shown else f"    {hidden} more"
    told = [lines[0], *lines[1 + first : 1 + first + shown], _fit([(more, "dim")], width, glyphs)]
    return told[: int(room)]


# --- cells ----------------------------------------------------------------------------------


def short(share: float, glyphs: Glyphs = UNICODE) -> str:
    """A share in four columns or less: "81%", "100%", "<1%"."""
    if not math.isfinite(share):
        return glyphs.missing
    if 0 < share < 0.005:
        return "<1%"
    return f"{min(share, 9.99):.0%}"


def _whole(value: float, unit: str, glyphs: Glyphs) -> str:
    return f"{value:.0f}{unit}" if math.isfinite(value) else glyphs.missing


def _giga(size: float, glyphs: Glyphs, unit: str = "") -> str:
    """Bytes in GB, with a digit after the point where it says something."""
    if not math.isfinite(size):
        return glyphs.missing
    return f"{size / 1e9:.{1 if 0 < size < 9.95e9 else 0}f}{unit}"


def _title(snapshot: Snapshot, view: View, width: int, glyphs: Glyphs) -> Line:
    names = list(dict.fromkeys(text.printable(g.gpu.name).removeprefix("NVIDIA ") for g in snapshot.gpus))
    number = len(snapshot.gpus)
    count = f"{number} x {names[0]}" if len(names) == 1 else f"{number} GPUs"
    left = ["perfzero top", *([snapshot.host] if snapshot.host else []), count]
    if snapshot.driver:
        left.append(f"driver {snapshot.driver}")
    moment = datetime.fromtimestamp(snapshot.time_ns / 1e9, timezone.utc).strftime("%H:%M:%S UTC")
    right = "PAUSED" if view.paused else f"{f'every {view.every}  ' if view.every else ''}{moment}"
    return _spread((glyphs.dot.join(left), "bold"), (right, "warn" if view.paused else "dim"), width, glyphs)


def _spread(left: tuple[str, Style], right: tuple[str, Style], width: int, glyphs: Glyphs) -> Line:
    """*left* and *right* at both ends of the line; *left* gives way."""
    room = max(0, width - cell_len(right[0]) - 1)
    return _fit([(_cell(left[0], room, glyphs, right=False), left[1]), (" ", ""), right], width, glyphs)


def _cell(words: str, width: int, glyphs: Glyphs, *, right: bool = True) -> str:
    """*words* in exactly *width* columns."""
    words = _drawable(words, glyphs)
    length = cell_len(words)
    if length > width:
        return set_cell_size(words, max(0, width - 1)) + glyphs.ellipsis if width else ""
    return " " * (width - length) + words if right else words + " " * (width - length)


def _fit(parts: Iterable[tuple[str, Style]], width: int, glyphs: Glyphs) -> Line:
    """*parts* cut where the line ends."""
    out: list[tuple[str, Style]] = []
    left = width
    for words, style in parts:
        words = _drawable(words, glyphs)
        length = cell_len(words)
        if length > left:
            cut = set_cell_size(words, left - 1) + glyphs.ellipsis if left > 0 else ""
            return (*out, (cut, style))
        out.append((words, style))
        left -= length
    return tuple(out)


def _drawable(words: str, glyphs: Glyphs) -> str:
    if glyphs.ascii_only and not words.isascii():
        return words.encode("ascii", "replace").decode()
    return words
