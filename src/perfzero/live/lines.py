"""
A snapshot as lines of text, for a terminal of any width: what both `--once` and the display show.

A `Line` is a sequence of (text, style), styles by name: what they look like is the display's business.
Nothing is said by a style alone, so that a screen without colour says the same. With `ASCII` no
character outside of ASCII appears, for terminals that would draw question marks; so all is in English then.

Names of processes may come from anyone: every cell is cut to its width in terminal columns, in which
a Chinese character takes two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Annotated, Literal

from rich.cells import cell_len, set_cell_size

from perfzero import text
from perfzero.diagnose.verdict import TimeClass
from perfzero.limits import CHOICE, Limit
from perfzero.live.snapshot import GpuNow, ProcessNow, Snapshot
from perfzero.report.voice import Voice
from perfzero.words.said import CALLED_EN
from perfzero.words.told import told

Style = Literal["", "bold", "dim", "good", "warn", "accent", "selected"]
Line = tuple[tuple[str, Style], ...]

SortKey = Literal["memory", "pid", "user", "command"]
SORT_KEYS: tuple[SortKey, ...] = ("memory", "pid", "user", "command")

NARROWEST, SHORTEST = 40, 8
"""Below this size nothing would be readable; the display says so instead."""

LEAST_SPARK, MOST_SPARK = 8, 120

FEWEST_PROCESS_LINES = 4
"""Heading and three processes: what the card leaves of a low screen."""

LEAST_CARD_LINES = 4
"""Of the selected GPU, however low the screen is and however many GPUs there are."""

HIDDEN_BYTES: Annotated[float, Limit("bytes", CHOICE)] = 1e9
"""Memory in use on a GPU of which the driver tells no process: with more, there is one that it hides."""

HIDDEN_ACTIVE: Annotated[float, Limit("ratio", CHOICE)] = 0.01
"""The same by the activity of the SMs."""

WIDE = 120
"""Columns from which on the names of users get more room."""

TOLD_SHARE: Annotated[float, Limit("ratio", CHOICE)] = 0.01
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


def voice(language: str, glyphs: Glyphs) -> Voice:
    """What speaks *language*, as far as *glyphs* can write it: in ASCII that is English."""
    return Voice(CALLED_EN if glyphs.ascii_only else language)


def page(
    snapshot: Snapshot,
    view: View,
    *,
    width: int,
    height: int | None = None,
    glyphs: Glyphs = UNICODE,
    language: str = CALLED_EN,
) -> list[Line]:
    """
    All that is shown, at most *height* lines of *width* columns; None for as many as there are.

    The selected GPU has a card; the others, and where the screen is low it too, have a row.
    """
    say = voice(language, glyphs)
    if width < NARROWEST or (height is not None and height < SHORTEST):
        return [_fit([(say("top.too_small"), "")], width, glyphs)]
    room = math.inf if height is None else height
    gpus = snapshot.gpus
    selected = min(view.selected, len(gpus) - 1)
    top = [_title(snapshot, view, width, glyphs, say)]
    if len(gpus) > 1:
        at_most = max(2, int(min(len(gpus) + 1, room - 1 - LEAST_CARD_LINES)))
        top += _rows(gpus, selected, width=width, lines=at_most, glyphs=glyphs, say=say)
    sections = [top]
    processes = process_lines(snapshot, view, width=width, glyphs=glyphs, say=say)
    left = room - len(top)
    left = max(left - min(len(processes), FEWEST_PROCESS_LINES), min(left, LEAST_CARD_LINES))
    for gpu in gpus if height is None else gpus[selected : selected + 1]:
        sections.append(card(gpu, snapshot, width=width, lines=left, glyphs=glyphs, say=say))
        left -= len(sections[-1])
    left = room - sum(map(len, sections))
    sections.append(_scrolled(processes, view.scrolled, room=left, width=width, glyphs=glyphs, say=say))
    notices = [_fit([(told(notice, say.language), "dim")], width, glyphs) for notice in snapshot.notices]
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


def words(
    snapshot: Snapshot, view: View, *, width: int, glyphs: Glyphs = UNICODE, language: str = CALLED_EN
) -> str:
    """The page as plain text, ending in a newline."""
    lines = page(snapshot, view, width=width, glyphs=glyphs, language=language)
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

    width: int
    worth: int
    right: bool = True


_ROW_COLUMNS: dict[str, _Column] = {
    "gpu": _Column(4, 100, right=False),
    "doing": _Column(19, 90, right=False),
    "spark": _Column(0, 95, right=False),
    "sm": _Column(5, 99),
    "tensor": _Column(5, 98),
    "dram": _Column(5, 97),
    "smi": _Column(5, 96),
    "pcie": _Column(5, 70),
    "nvlink": _Column(5, 65),
    "power": _Column(6, 80),
    "limit": _Column(7, 30),
    "clock": _Column(6, 50),
    "highest": _Column(7, 29),
    "temperature": _Column(5, 60),
    "memory": _Column(5, 75),
    "total": _Column(6, 28),
    "processes": _Column(5, 40),
    "held": _Column(8, 85),
    "name": _Column(20, 20, right=False),
}
"""In their order; what stands above each is "top.row_*" in the catalogues."""


def _rows(
    gpus: Sequence[GpuNow], selected: int, *, width: int, lines: int, glyphs: Glyphs, say: Voice
) -> list[Line]:
    columns = dict(_ROW_COLUMNS)
    if not any(math.isfinite(gpu.nvlink_share) for gpu in gpus):
        del columns["nvlink"]
    if not any(gpu.held_down for gpu in gpus):
        columns["held"] = replace(columns["held"], worth=10)
    while sum(c.width for c in columns.values()) + LEAST_SPARK + 1 > width:
        del columns[min(columns, key=lambda name: columns[name].worth)]
    length = min(MOST_SPARK, width - 1 - sum(c.width for c in columns.values()))
    columns["spark"] = replace(columns["spark"], width=length + 1)
    heading = "".join(
        _cell(_heading(name, say), c.width, glyphs, right=c.right) for name, c in columns.items()
    )
    first = max(0, min(selected - (lines - 1) + 1, len(gpus) - (lines - 1)))
    out: list[Line] = [_fit([(heading, "dim")], width, glyphs)]
    for place in range(first, min(len(gpus), first + lines - 1)):
        gpu = gpus[place]
        cells = _row(gpu, glyphs, say, spark_width=length)
        mark = glyphs.pointer if place == selected else " "
        cells["gpu"] = (f"{mark}{gpu.gpu.index:>2}", "selected" if place == selected else "bold")
        if gpu.lost:
            number = _cell(cells["gpu"][0], columns["gpu"].width, glyphs, right=False)
            parts: list[tuple[str, Style]] = [
                (number, "bold"),
                (f" {_lost(gpu, say)}", "warn"),
            ]
        else:
            parts = [
                (_cell(cells[name][0], c.width, glyphs, right=c.right), cells[name][1])
                for name, c in columns.items()
            ]
        out.append(_fit(parts, width, glyphs))
    return out


def _heading(name: str, say: Voice) -> str:
    """What stands above a column, behind as many spaces as its cells begin with."""
    if name == "spark":
        return f" {say('top.sm_busy')}"
    before = {"doing": " ", "name": "  "}.get(name, "")
    return before + say(f"top.row_{name}")


def _row(gpu: GpuNow, glyphs: Glyphs, say: Voice, *, spark_width: int) -> dict[str, tuple[str, Style]]:
    counted = gpu.tier == "gpm"
    # The card has all of them; here there is room for one, and how many more.
    held = say(f"top.held_short_{gpu.held_down[0]}") if gpu.held_down else ""
    held += f"+{len(gpu.held_down) - 1}" if len(gpu.held_down) > 1 else ""
    doing: tuple[str, Style] = (say("top.no_counters"), "dim")
    if counted and gpu.first_class is not None:
        share = short(gpu.shares[gpu.first_class], glyphs)
        doing = (f"{say(gpu.first_class)} {share}", "accent")
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


def card(
    gpu: GpuNow, snapshot: Snapshot, *, width: int, lines: float, glyphs: Glyphs, say: Voice
) -> list[Line]:
    """One GPU in full, in at most *lines* lines: the least important ones are left out first."""
    found = list(_card(gpu, snapshot, width=width, glyphs=glyphs, say=say))
    while len(found) > lines and found:
        found.remove(min(found, key=lambda each: each[0]))
    return [line for _, line in found]


def _lost(gpu: GpuNow, say: Voice) -> str:
    return text.printable(say("top.lost", why=gpu.lost))


def _card(
    gpu: GpuNow, snapshot: Snapshot, *, width: int, glyphs: Glyphs, say: Voice
) -> Iterable[tuple[int, Line]]:
    """Each line with its worth."""
    used, whole = (_giga(size, glyphs) for size in (gpu.memory_used, gpu.memory_total))
    clock, highest = (_whole(hertz / 1e6, "", glyphs) for hertz in (gpu.sm_clock, gpu.sm_clock_max))
    state = [
        f"{_whole(gpu.temperature, '', glyphs)} {glyphs.degree}",
        say("top.card_memory", used=used, whole=whole),
        say("top.card_clock", clock=clock, highest=highest),
    ]
    name = text.printable(gpu.gpu.name).removeprefix("NVIDIA ")
    head = f"GPU {gpu.gpu.index}  {name}{'  (MIG)' if gpu.gpu.mig else ''}"
    yield 90, _spread((head, "bold"), (glyphs.dot.join(state), ""), width, glyphs)
    if gpu.lost:
        yield 99, _fit([(f"  {_lost(gpu, say)}", "warn")], width, glyphs)
        return

    def measure(label: str, value: float, trail: str, note: str = "", style: Style = "") -> Line:
        return _measure(label, value, gpu, trail, note, width, glyphs, style)

    if gpu.tier == "gpm":
        note = say("top.last", span=text.duration(snapshot.column_s * _spark_width(width)))
        yield 89, measure(say("top.sm_busy"), gpu.sm_active, "sm_active", note, "bold")
        yield 88, measure(say("tensor"), gpu.tensor_active, "tensor_active")
        yield 87, measure("DRAM", gpu.dram_roof_share, "dram_roof_share", say("top.of_roof"))
        note = _both(gpu.pcie_rx, gpu.pcie_tx, glyphs)
        yield 60, measure("PCIe", gpu.pcie_link_share, "pcie_link_share", note)
        # A GPU alone has nobody to talk to over NVLink, though its counters are there and read zero.
        if math.isfinite(gpu.nvlink_share) and (len(snapshot.gpus) > 1 or any(gpu.trails["nvlink_share"])):
            note = _both(gpu.nvlink_rx, gpu.nvlink_tx, glyphs)
            yield 55, measure("NVLink", gpu.nvlink_share, "nvlink_share", note)
    power, limit = (_whole(watts, "", glyphs) for watts in (gpu.power, gpu.power_limit))
    note = say("top.card_power", power=power, limit=limit)
    yield 65, measure(say("top.row_power"), gpu.power_share, "power_share", note)
    yield 70, measure("nvidia-smi", gpu.smi_utilization, "smi_utilization", say("top.some_kernel"), "dim")
    if gpu.held_down:
        held = say.joined("top.held_and", [say(f"top.held_{name}") for name in gpu.held_down])
        yield 86, _fit([(f"  {say('top.held_by')}  ", ""), (held, "warn")], width, glyphs)
    if gpu.tier == "nvml":
        why = [say.tell(gpu.without_gpm)] if gpu.without_gpm else []
        little = say.joined("join.sentences", [say("top.nvml_only"), *why])
        yield 85, _fit([(f"  {little}", "warn")], width, glyphs)
    elif gpu.shares:
        shares = glyphs.dot.join(f"{say(n)} {short(s, glyphs)}" for n, s in told_shares(gpu))
        last = say("top.last", span=f"{gpu.shares_s:.0f} s")
        yield 95, _fit([(f"  {last}  ", ""), (shares, "accent")], width, glyphs)


def told_shares(gpu: GpuNow) -> list[tuple[TimeClass, float]]:
    """Where the last minute went, the largest share first; what rounds to nothing is left out."""
    return sorted(((n, s) for n, s in gpu.shares.items() if s >= TOLD_SHARE), key=lambda item: -item[1])


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


def process_lines(snapshot: Snapshot, view: View, *, width: int, glyphs: Glyphs, say: Voice) -> list[Line]:
    """The heading and a line for each process; a sentence where the driver tells of none."""
    widths = {"gpu": 4, "pid": 9, "user": 10 if width < WIDE else 16, "memory": 9}
    found = sorted_processes(snapshot, view)
    if not found:
        return [_fit([(_nobody(snapshot, say), "dim")], width, glyphs)]
    mark = {key: f"{say(f'top.column_{key}')}{'*' if key == view.sort else ''}" for key in SORT_KEYS}
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
            + f"  {process.command or say('top.not_visible')}"
        )
        out.append(_fit([(line, "" if process.gpu == chosen else "dim")], width, glyphs))
    return out


def _nobody(snapshot: Snapshot, say: Voice) -> str:
    if any((gpu.memory_used or 0) > HIDDEN_BYTES or gpu.sm_active > HIDDEN_ACTIVE for gpu in snapshot.gpus):
        return say("top.processes_hidden")
    return say("top.no_process" if len(snapshot.gpus) == 1 else "top.no_process_anywhere")


def _scrolled(
    lines: Sequence[Line], by: int, *, room: float, width: int, glyphs: Glyphs, say: Voice
) -> list[Line]:
    """The heading and as many of the other *lines* as there is *room* for, from number *by* on."""
    if len(lines) <= room:
        return list(lines)
    if room < 2:
        return []  # a heading says nothing alone
    shown = max(0, int(room) - 2)
    first = max(0, min(by, len(lines) - 1 - shown))
    hidden = len(lines) - 1 - shown
    more = f"    {say('top.more_keys' if shown else 'top.more', hidden=hidden)}"
    seen = [lines[0], *lines[1 + first : 1 + first + shown], _fit([(more, "dim")], width, glyphs)]
    return seen[: int(room)]


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


def _title(snapshot: Snapshot, view: View, width: int, glyphs: Glyphs, say: Voice) -> Line:
    names = list(dict.fromkeys(text.printable(g.gpu.name).removeprefix("NVIDIA ") for g in snapshot.gpus))
    number = len(snapshot.gpus)
    count = f"{number} x {names[0]}" if len(names) == 1 else say("top.gpus", number=number)
    left = ["perfzero top", *([snapshot.host] if snapshot.host else []), count]
    if snapshot.driver:
        left.append(say("top.driver", version=snapshot.driver))
    moment = datetime.fromtimestamp(snapshot.time_ns / 1e9, timezone.utc).strftime("%H:%M:%S UTC")
    every = f"{say('top.every', time=view.every)}  " if view.every else ""
    right = say("top.paused") if view.paused else f"{every}{moment}"
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
