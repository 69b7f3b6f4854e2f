"""
Makes a recording small enough to attach to an issue, without making it lie.

What is taken away, in this order, and said in the manifest under "trimmed":

1. what lies outside the wanted time;
2. the last bits of the values: 12 bits of mantissa stay, a relative error of at most 1.2e-4,
   far below that of any counter, and counts below 8,192 stay exact;
3. of the looks inside the program all that the breakdown is not made of, and every folder (`slim`);
   those for which there is no room even so, the largest first. Of the stacks of the host every folder,
   and all of them if there is still no room;
4. zoom bursts down to a tenth, then whole windows of PM sampling, evenly over the recording,
   at least one of each kind (so that start, steady state and bursts all survive). Long windows
   are split into pieces of a thousand samples first; a window is shortened only if it is the
   last of its kind. Samples are never merged: what is kept was measured so.

GPM, board and host tables are kept whole, and so are the samples beside a look that is kept: what a
kernel read is told from all of them.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from perfzero import __version__
from perfzero.errors import BrokenRecording, NoRecording, UsageError
from perfzero.stacks import HostStacks
from perfzero.store.reader import Recording, disturbed_by
from perfzero.store.redact import anonymous_text, anonymous_uuid, redact_environment
from perfzero.store.schema import (
    EVENTS,
    FORMAT,
    MANIFEST,
    STACKS,
    Manifest,
    event_line,
    file_name,
    is_ours,
    manifest_bytes,
)
from perfzero.store.slim import slim_look
from perfzero.store.stacks import encode_stacks, read_stacks, slim_stacks
from perfzero.store.stream import encode_stream
from perfzero.store.writer import prepare_folder
from perfzero.traces import BoolArray
from perfzero.values import FloatArray, Gap, IntArray, Look, Note, Samples, Window
from perfzero.words.said import say

MANTISSA_BITS = 12
RELATIVE_ERROR = 2.0 ** -(MANTISSA_BITS + 1)

# A window of more rows is split before any is dropped; 1 s at 1 kHz stays whole.
_PIECE_ROWS = 1_000
# What must be left of the last window of a kind to be worth keeping.
_LEAST_ROWS = 100
_SEARCH_STEPS = 7  # halvings of what may be kept: the size lands within a few percent of the limit

MAX_LOOKS = 16
"""As many as a report is made of; each takes seconds, however many there are."""

BESIDE = "beside a look"
"""The kind of the stretches that stay whole."""

Key = tuple[str, int | None]
# File name -> content, and what its manifest says under "trimmed".
_Candidate = tuple[dict[str, bytes], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Trimmed:
    """What `trim` did: sizes in bytes, and in words what was taken away."""

    path: Path
    size: int
    size_before: int
    done: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows [first, stop) of a table, and the window (or part of one) they belong to, if any."""

    first: int
    stop: int
    window: Window | None

    @property
    def rows(self) -> int:
        return self.stop - self.first


@dataclass(frozen=True, slots=True)
class _Content:
    """
    Everything of a recording but its manifest.

    `traces`: the slim file of each look that is kept, by its name; `left_out`: why another one is not.
    `stacks`: what the host was seen to do, slim; None without any, or with `no_stacks` as the reason.
    """

    tables: Mapping[Key, Samples]
    windows: tuple[Window, ...]
    gaps: tuple[Gap, ...]
    notes: tuple[Note, ...]
    looks: tuple[Look, ...]
    traces: Mapping[str, bytes] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    stacks: HostStacks | None = None
    no_stacks: str = ""


def trim(
    recording: Recording,
    *,
    to: Path,
    from_s: float | None = None,
    until_s: float | None = None,
    max_bytes: int = 400_000,
    redact: bool = False,
    force: bool = False,
) -> Trimmed:
    """
    Write a smaller copy of *recording* to the folder *to*, at most *max_bytes* on disk.

    *from_s* and *until_s* are seconds since the first sample. *redact* takes out host name,
    paths, serial numbers and environment as well; a look is never kept with any of these. Raises
    `UsageError` if nothing would be left or if it cannot be made small enough, and then writes nothing.
    """
    whole = _content(recording)
    first, last = _extent(whole.tables)
    content = _cut(whole, first=first, last=last, from_s=from_s, until_s=until_s)
    start, end = _extent(content.tables)
    # The new folder is format FORMAT, whatever the old one was; the state stays what it was.
    manifest = replace(recording.manifest, format=FORMAT, created_ns=start, ended_ns=end)
    whole_time = from_s is None and until_s is None
    if whole_time:
        manifest = replace(recording.manifest, format=FORMAT)
    hide = _hider(manifest)
    content = _with_slim_looks(content, recording.path, hide)
    content = _with_slim_stacks(content, recording.path, None if whole_time else (start, end), hide)
    if redact:
        content, manifest = _anonymous_content(content, hide), _anonymous_manifest(manifest, hide)
    facts = {
        "perfzero": __version__,
        "from_s": from_s,
        "until_s": until_s,
        "max_bytes": max_bytes,
        "relative_error": RELATIVE_ERROR,
        "redacted": redact,
        "rows_before": sum(map(len, whole.tables.values())),
        "windows_before": len(whole.windows),
        "looks_before": sum(bool(look.file) for look in recording.looks),
    }
    if to.exists() and to.samefile(recording.path):
        raise UsageError(say("trim.itself"))
    files, trimmed = _fitting(content, manifest, facts, max_bytes)
    prepare_folder(to, force=force)
    _write(to, files)
    return Trimmed(
        path=to,
        size=sum(map(len, files.values())),
        size_before=_size_on_disk(recording),
        done=_in_words(trimmed, lasted_s=(last - first) / 1e9),
    )


def round_mantissa(values: FloatArray) -> FloatArray:
    """*values* (n,) rounded to float32 with `MANTISSA_BITS` bits of mantissa; NaN and infinities stay."""
    dropped = np.uint32(23 - MANTISSA_BITS)
    with np.errstate(over="ignore"):
        bits = values.astype(np.float32).view(np.uint32)
    # Adding half a step may carry into the exponent, which is what rounding up means.
    half = np.uint32(1 << (dropped - 1))
    rounded = ((bits + half) >> dropped) << dropped
    finite = np.isfinite(values)
    return np.where(finite, rounded.view(np.float32), values.astype(np.float32)).astype(np.float64)


def _content(recording: Recording) -> _Content:
    tables = {key: recording.samples(*key) for key in recording.streams}
    tables = {key: table for key, table in tables.items() if len(table)}
    if not tables:
        raise UsageError(say("trim.no_samples", path=recording.path))
    return _Content(tables, recording.windows(), recording.gaps(), recording.notes(), recording.looks)


def _with_slim_looks(content: _Content, folder: Path, hide: Callable[[str], str]) -> _Content:
    """*content* with the traces of its looks, made slim, and notes on what was doubtful in them."""
    traces: dict[str, bytes] = {}
    notes: list[Note] = []
    result = content
    files = {look.file: look for look in content.looks if look.file}
    for number, (file, look) in enumerate(files.items()):
        if number >= MAX_LOOKS:
            result = _without_look(result, file, say("trim.many_looks", most=MAX_LOOKS))
            continue
        try:
            traces[file], doubts = slim_look(folder / file, hide=hide)
        except (BrokenRecording, NoRecording) as error:
            said = str(error).splitlines()[0].removeprefix(f"{folder}/").rstrip(".")
            result = _without_look(result, file, hide(said))
            continue
        notes += (Note(look.end_ns, "look", doubt) for doubt in doubts)
    return replace(result, traces=traces, notes=(*content.notes, *notes))


def _with_slim_stacks(
    content: _Content, folder: Path, time_ns: tuple[int, int] | None, hide: Callable[[str], str]
) -> _Content:
    """*content* with what the host was seen to do in *time_ns*, or in all the time, made slim."""
    start_ns, end_ns = time_ns or (0, 1 << 62)
    try:
        stacks = slim_stacks(read_stacks(folder), start_ns, end_ns, hide=hide)
        return replace(content, stacks=stacks if stacks.processes or stacks.doubts else None)
    except NoRecording:
        return content
    except BrokenRecording as error:
        return replace(content, no_stacks=hide(str(error).splitlines()[0].rstrip(".")))


def _without_look(content: _Content, file: str, why: str) -> _Content:
    """*content* without the trace in *file*; when the look was is still to be known."""
    reason = say("trim.left_out", why=why)
    looks = (replace(k, file="", reason=reason) if k.file == file else k for k in content.looks)
    traces = {name: data for name, data in content.traces.items() if name != file}
    left_out = {**content.left_out, file: why}
    return replace(content, looks=tuple(looks), traces=traces, left_out=left_out)


def _cut(
    content: _Content, *, first: int, last: int, from_s: float | None, until_s: float | None
) -> _Content:
    """What lies in the wanted seconds since *first*, of a recording that lasts until *last* (ns)."""
    if from_s is None and until_s is None:
        return content
    if from_s is not None and until_s is not None and not from_s < until_s:
        raise UsageError(say("trim.nothing_between", first=f"{from_s:g}", last=f"{until_s:g}"))
    start = first if from_s is None else first + round(from_s * 1e9)
    end = last if until_s is None else first + round(until_s * 1e9)
    tables = {key: table.between(start, end) for key, table in content.tables.items()}
    tables = {key: table for key, table in tables.items() if len(table)}
    if not tables:
        raise UsageError(say("trim.no_sample", length=f"{(last - first) / 1000000000.0:.1f}"))
    middles = {key: _middles(table) for key, table in tables.items()}
    windows = (_clip(w, start, end, middles) for w in content.windows)
    return replace(
        content,
        tables=tables,
        windows=tuple(w for w in windows if w is not None),
        gaps=tuple(
            replace(g, start_ns=max(g.start_ns, start), end_ns=min(g.end_ns, end))
            for g in content.gaps
            if g.start_ns < end and g.end_ns > start
        ),
        notes=tuple(n for n in content.notes if start <= n.time_ns < end),
        looks=tuple(k for k in content.looks if k.start_ns < end and k.end_ns > start),
    )


def _clip(window: Window, start: int, end: int, middles: Mapping[Key, IntArray]) -> Window | None:
    """The part of *window* in [start, end), losses shared out by time; None if there is none."""
    low, high = max(window.start_ns, start), min(window.end_ns, end)
    if low >= high:
        return None
    if (low, high) == (window.start_ns, window.end_ns):
        return window
    lost = math.ceil(window.lost * (high - low) / (window.end_ns - window.start_ns))
    clipped = replace(window, start_ns=low, end_ns=high, lost=lost)
    return replace(clipped, samples=_rows_in(clipped, middles))


def _rows_in(window: Window, middles: Mapping[Key, IntArray]) -> int:
    found = middles.get((_stream_of(window), window.gpu))
    if found is None:
        return 0
    first, stop = _span(found, window.start_ns, window.end_ns)
    return stop - first


def _fitting(content: _Content, manifest: Manifest, facts: Mapping[str, Any], max_bytes: int) -> _Candidate:
    """The recording with as many looks, and then as many windows, as *max_bytes* allow."""
    attempt = _Attempt(content, manifest, facts)
    best = attempt.at(0.0)
    while content.traces and _size(best) > max_bytes:
        file = max(content.traces, key=lambda name: len(content.traces[name]))
        with_it = math.ceil(_size(best) / 10_000) * 10
        why = say("trim.with_it", size=f"{with_it:,}", option=with_it)
        content = _without_look(content, file, why)
        attempt = _Attempt(content, manifest, facts)
        best = attempt.at(0.0)
    if content.stacks is not None and _size(best) > max_bytes:
        with_them = math.ceil(_size(best) / 10_000) * 10
        why = say("trim.with_them", size=f"{with_them:,}", option=with_them)
        content = replace(content, stacks=None, no_stacks=why)
        attempt = _Attempt(content, manifest, facts)
        best = attempt.at(0.0)
    least = _size(best)
    if least > max_bytes:
        raise UsageError(
            say(
                "trim.no_smaller",
                least=f"{least / 1000:.0f}",
                asked=f"{max_bytes / 1000:.0f}",
                whole=f"{sum(map(len, attempt.fixed.values())) / 1000:.0f}",
            )
        )
    low, high = 0.0, 1.0
    # A rough size first: most recordings fit whole or need a small share, and encoding much
    # of a large one at the highest level only to find that it is too large takes minutes.
    rough = sum(len(encode_stream(t, stream=k[0], gpu=k[1], level=1)) for k, t in attempt.sampled.items())
    guess = (max_bytes - least) / rough if rough else 1.0
    if guess < 0.25:
        high = guess * 4  # the highest level is never four times better than the lowest
    else:
        candidate = attempt.at(1.0)
        if _size(candidate) <= max_bytes:
            return candidate
    for _ in range(_SEARCH_STEPS):
        middle = (low + high) / 2
        candidate = attempt.at(middle)
        if _size(candidate) <= max_bytes:
            low, best = middle, candidate
        else:
            high = middle
    return best


class _Attempt:
    """A recording that is to be thinned, `at` any fill from 0 to 1; `fixed` files stay as they are."""

    def __init__(self, content: _Content, manifest: Manifest, facts: Mapping[str, Any]) -> None:
        self._content, self._manifest, self._facts = content, manifest, facts
        kept = {key: _rounded(t) for key, t in content.tables.items() if key[0] not in ("pm", "zoom")}
        self.sampled = {key: _rounded(t) for key, t in content.tables.items() if key[0] in ("pm", "zoom")}
        self.fixed = {file_name(*key): encode_stream(t, stream=key[0], gpu=key[1]) for key, t in kept.items()}
        if content.stacks is not None:
            self.fixed[STACKS] = encode_stacks(content.stacks)
        self._fixed_rows = sum(map(len, kept.values()))
        self._pieces = {key: _pieces(content, table, key) for key, table in self.sampled.items()}
        # A window in which nothing was sampled takes no room, and is worth knowing.
        middles = {key: _middles(table) for key, table in self.sampled.items()}
        self._empty = [w for w in content.windows if not _rows_in(w, middles)]

    def at(self, fill: float) -> _Candidate:
        """The files, and what was done."""
        content = self._content
        windows, rows = list(self._empty), self._fixed_rows
        result = {**self.fixed, **content.traces}
        for key, table in self.sampled.items():
            chosen = _thin(self._pieces[key], table, fill)
            windows.extend(p.window for p in chosen if p.window is not None)
            part = table if fill >= 1 else _rows(table, chosen)
            rows += len(part)
            result[file_name(*key)] = encode_stream(part, stream=key[0], gpu=key[1])
        result[EVENTS] = _events(windows, content.gaps, content.notes, content.looks)
        looks = {"looks_after": len(content.traces), "looks_left_out": content.left_out}
        stacks = {"stacks": content.stacks is not None, "stacks_left_out": content.no_stacks}
        trimmed = {**self._facts, "rows_after": rows, "windows_after": len(windows), **looks, **stacks}
        result[MANIFEST] = manifest_bytes(replace(self._manifest, trimmed=trimmed))
        return result, trimmed


def _size(candidate: _Candidate) -> int:
    return sum(map(len, candidate[0].values()))


def _pieces(content: _Content, table: Samples, key: Key) -> dict[str, list[_Piece]]:
    """Kind of window -> the stretches of *table* of that kind, in order; "" holds rows outside any window."""
    stream, gpu = key
    middles = _middles(table)
    owner = np.full(len(table), -1, np.int64)
    own = [w for w in content.windows if w.gpu == gpu and _stream_of(w) == stream]
    for i, window in enumerate(own):
        first, stop = _span(middles, window.start_ns, window.end_ns)
        owner[first:stop] = i
    edges = np.flatnonzero(np.diff(owner)) + 1
    beside = _beside_looks(content, table, key)
    pieces: dict[str, list[_Piece]] = {}
    for first, stop in itertools.pairwise([0, *edges.tolist(), len(table)]):
        owned_by = own[owner[first]] if owner[first] >= 0 else None
        kind = "" if owned_by is None else owned_by.kind
        for piece in _split(_Piece(first, stop, owned_by), table):
            stays = beside[piece.first : piece.stop].any()
            pieces.setdefault(BESIDE if stays else kind, []).append(piece)
    return pieces


def _beside_looks(content: _Content, table: Samples, key: Key) -> BoolArray:
    """Which rows of *table* were sampled beside looks whose traces are kept: the finest of that time."""
    stream, gpu = key
    found = np.zeros(len(table), bool)
    windows = [w for w in content.windows if w.gpu == gpu]
    bursts = content.tables.get(("zoom", gpu), Samples.empty())
    for look in (k for k in content.looks if k.file):
        start_ns, end_ns = disturbed_by(look, windows)
        if stream == "zoom" or not len(bursts.between(start_ns, end_ns)):
            found |= (table.start_ns >= start_ns) & (table.end_ns <= end_ns)
    return found


def _split(piece: _Piece, table: Samples) -> list[_Piece]:
    """A long window as several; a burst stays whole, since its rows are one picture."""
    zoom = piece.window is not None and piece.window.kind == "zoom"
    if zoom or piece.rows <= 2 * _PIECE_ROWS:
        return [piece]
    starts = range(piece.first, piece.stop, _PIECE_ROWS)
    return [_shortened(piece, first, min(first + _PIECE_ROWS, piece.stop), table) for first in starts]


def _shortened(piece: _Piece, first: int, stop: int, table: Samples) -> _Piece:
    """The rows [first, stop) of *piece*, its window cut to them, losses shared out by rows."""
    if piece.window is None:
        return _Piece(first, stop, None)
    window = replace(
        piece.window,
        start_ns=int(table.start_ns[first]),
        end_ns=int(table.end_ns[stop - 1]),
        samples=stop - first,
        lost=math.ceil(piece.window.lost * (stop - first) / piece.rows),
    )
    return _Piece(first, stop, window)


def _thin(pieces: Mapping[str, Sequence[_Piece]], table: Samples, fill: float) -> list[_Piece]:
    """The pieces to keep at *fill* in [0, 1], evenly spread, and of each kind at least a part of one."""
    chosen: list[_Piece] = []
    for kind, group in pieces.items():
        share = _share(kind, fill)
        count = max(1, round(len(group) * share))
        places = ((np.arange(count) + 0.5) * len(group) / count).astype(int)
        parts = [group[i] for i in places]
        rows = max(_LEAST_ROWS, round(sum(p.rows for p in group) * share))
        if count == 1 and rows < parts[0].rows:
            parts = [_shortened(parts[0], parts[0].first, parts[0].first + rows, table)]
        chosen.extend(parts)
    return sorted(chosen, key=lambda p: p.first)


def _share(kind: str, fill: float) -> float:
    """
    How much of a kind of window to keep at *fill*: 0 at 0, 1 at 1, never falling.

    Down to 0.5 only zoom bursts give way: a tenth of one still shows single kernels, while each
    window of the rest is needed to see whether the program runs steadily. Below, both shrink together.
    """
    if kind == BESIDE:
        return 1.0
    if kind != "zoom":
        return min(1.0, 2 * fill)
    return 0.2 * fill if fill < 0.5 else 0.1 + 1.8 * (fill - 0.5)


def _rows(table: Samples, pieces: Iterable[_Piece]) -> Samples:
    keep = np.zeros(len(table), bool)
    for piece in pieces:
        keep[piece.first : piece.stop] = True
    return table.where(keep)


def _rounded(table: Samples) -> Samples:
    return table.with_columns({name: round_mantissa(values) for name, values in table.columns.items()})


def _stream_of(window: Window) -> str:
    return "zoom" if window.kind == "zoom" else "pm"


def _middles(table: Samples) -> IntArray:
    """The middle of each sample, which tells its window: edges may be off by a part of a period."""
    return np.maximum.accumulate(table.start_ns + (table.end_ns - table.start_ns) // 2)


def _span(middles: IntArray, start: int, end: int) -> tuple[int, int]:
    """First and last + 1 of the rows whose middle lies in [start, end)."""
    first, stop = np.searchsorted(middles, [start, end])
    return int(first), int(stop)


def _events(
    windows: Iterable[Window], gaps: Iterable[Gap], notes: Iterable[Note], looks: Iterable[Look]
) -> bytes:
    ordered = sorted(windows, key=lambda w: w.start_ns)
    return b"".join(
        [
            *(event_line("window", w) for w in ordered),
            *(event_line("gap", g) for g in gaps),
            *(event_line("note", n) for n in notes),
            *(event_line("look", k) for k in looks),
        ]
    )


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """The manifest comes last: without it, what an interrupted trim leaves is no recording."""
    try:
        for name, data in sorted(files.items(), key=lambda item: item[0] == MANIFEST):
            (folder / name).write_bytes(data)
    except OSError as error:
        raise UsageError(say("trim.unwritable", folder=folder, why=error.strerror or error)) from error


def _size_on_disk(recording: Recording) -> int:
    names = [n for n in os.listdir(recording.path) if is_ours(n)]
    return sum(os.lstat(recording.path / n).st_size for n in names)


def _in_words(facts: Mapping[str, Any], *, lasted_s: float) -> tuple[str, ...]:
    words: list[str] = []
    if facts["from_s"] is not None or facts["until_s"] is not None:
        start = 0.0 if facts["from_s"] is None else facts["from_s"]
        end = lasted_s if facts["until_s"] is None else facts["until_s"]
        words.append(say("trim.kept_time", start=f"{start:g}", end=f"{end:g}", lasted=f"{lasted_s:.1f}"))
    words.append(
        say(
            "trim.kept_samples",
            rows=f"{facts['rows_after']:,}",
            rows_before=f"{facts['rows_before']:,}",
            windows=facts["windows_after"],
            windows_before=facts["windows_before"],
        )
    )
    words.append(say("trim.rounded", error=f"{facts['relative_error']:.1e}"))
    if facts["looks_after"]:
        kept, there = facts["looks_after"], facts["looks_before"]
        words.append(say("trim.kept_looks", kept=kept, there=there))
    words += (say("trim.left_out_file", file=file, why=why) for file, why in facts["looks_left_out"].items())
    if facts["stacks"]:
        words.append(say("trim.kept_host"))
    if facts["stacks_left_out"]:
        words.append(say("trim.left_out_file", file=STACKS, why=facts["stacks_left_out"]))
    if facts["redacted"]:
        words.append(say("trim.redacted"))
    return tuple(words)


def _extent(tables: Mapping[Key, Samples]) -> tuple[int, int]:
    return min(int(t.start_ns[0]) for t in tables.values()), max(int(t.end_ns.max()) for t in tables.values())


def _hider(manifest: Manifest) -> Callable[[str], str]:
    """A function that takes from a text what would tell a stranger whose machine this was."""
    hostname = manifest.host.get("hostname")
    names = [hostname, hostname.split(".")[0]] if isinstance(hostname, str) else []
    serials = {gpu.uuid: anonymous_uuid(gpu.uuid) for gpu in manifest.gpus if gpu.uuid}

    def hide(text: str) -> str:
        for real, fake in serials.items():
            text = text.replace(real, fake)
        return anonymous_text(text, names=names)

    return hide


def _anonymous_content(content: _Content, hide: Callable[[str], str]) -> _Content:
    return replace(
        content,
        gaps=tuple(replace(g, reason=hide(g.reason)) for g in content.gaps),
        notes=tuple(replace(n, text=hide(n.text)) for n in content.notes),
        looks=tuple(replace(k, reason=hide(k.reason)) for k in content.looks),
    )


def _anonymous_manifest(manifest: Manifest, hide: Callable[[str], str]) -> Manifest:
    process = manifest.process
    return replace(
        manifest,
        gpus=tuple(replace(g, uuid=hide(g.uuid)) for g in manifest.gpus),
        process=replace(
            process,
            command=tuple(map(hide, process.command)),
            # What was kept when it was recorded need not be kept today.
            threads_env={k: hide(v) for k, v in redact_environment(process.threads_env).items()},
        ),
        tier_reasons={k: hide(v) for k, v in manifest.tier_reasons.items()},
        lost={k: hide(v) for k, v in manifest.lost.items()},
        settings=_hidden(manifest.settings, hide),
        host=_anonymous_host(manifest.host, hide),
    )


def _anonymous_host(host: Mapping[str, Any], hide: Callable[[str], str]) -> dict[str, Any]:
    """Without its name, and with the kernel's first two numbers only: the rest names who built it."""
    kept = {k: _hidden(v, hide) for k, v in host.items() if k != "hostname"}
    kernel = re.match(r"\d+\.\d+", str(kept.get("kernel", "")))
    return kept | ({"kernel": kernel[0]} if kernel else {})


def _hidden(value: Any, hide: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, Mapping):
        return {k: _hidden(v, hide) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(v, hide) for v in value]
    return value
