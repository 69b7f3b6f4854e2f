"""
The breakdown of a look as a file for programs, and as a few lines for people.

detailed_breakdown.json holds all of it: strict JSON, durations in whole nanoseconds so that sums add up, a
missing number null. docs/attribution.md describes every field.
"""

from __future__ import annotations

import json
import math
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any

from perfzero import __version__, text
from perfzero.attribute.breakdown import (
    COLLECTIVES_ROW,
    OPTIMIZER_ROW,
    OUTSIDE_ROW,
    REPLAYS_ROW,
    UNATTRIBUTED_ROW,
    Breakdown,
    Call,
    Row,
    SourceLine,
)
from perfzero.limits import CHOICE, Limit
from perfzero.report.voice import Voice
from perfzero.values import jsonable
from perfzero.words.said import say

FILE = "detailed_breakdown.json"

# Readers may rely on a version for ever: a field is only ever added within one. Removing or
# changing one makes the next version.
# 1 - first version
SCHEMA_VERSION = 1

NAMED_ROWS = (OPTIMIZER_ROW, COLLECTIVES_ROW, REPLAYS_ROW, OUTSIDE_ROW, UNATTRIBUTED_ROW)
"""Rows that are no module of the program, and named in the reader's language."""

LINES = 5
"""As many as fit beside the verdict; the file has all."""

WORTH_TELLING: Annotated[float, Limit("ratio", CHOICE)] = 0.01
"""What takes less of the GPU's time than this is no place to look at first."""

WIDTH = 96
"""A report is 100 columns wide at most, and indented."""

_PATH, _CLASS, _SHARE, _READS, _GIVEN, _SOURCE = range(6)
"""The columns. That of reads is left out where no counters were sampled."""

_LEAST = {_PATH: 14, _CLASS: 10, _SHARE: 7, _READS: 20, _GIVEN: 43, _SOURCE: 14}
"""So narrow may a column get where a line is too long; with what is between them they fill `WIDTH`."""

_LEAST_GIVEN_BESIDE_READS = 21
"""Beside the column of reads what goes in gets as narrow as this, so that a line fits `WIDTH` too."""

_SHORTENED = (_PATH, _SOURCE, _CLASS, _GIVEN)
"""The columns that give way, in this order; those of shares stay whole."""

OVERLAPPING: Annotated[float, Limit("ratio", CHOICE)] = 1.05
"""All work over the busy time, from which on shares visibly do not add up to 100 %, and it is said why."""

_KERNEL = 44
"""Characters of a kernel's name, which says most at its beginning."""

_NUMBERS = frozenset("0123456789*.")
"""Of what the path of a module consists that names nothing: parts of lists."""

_SUFFIX = 8
"""Characters at the end of such a name that stay: "_TNT" tells kernels of one tile size apart."""

_ARCHITECTURE = re.compile(r"(?<![^\W_])sm[0-9]+[a-z]?_")
"""In a kernel's name: what it was compiled for, the same for all on one GPU."""

_SHAPE, _DTYPE = 24, 12
"""Characters of a shape and of a type: those in use are shorter, and one that is not widens every line."""

_DTYPES = {
    "float": "fp32",
    "double": "fp64",
    "c10::Half": "fp16",
    "c10::BFloat16": "bf16",
    "c10::Float8_e4m3fn": "fp8 e4m3",
    "c10::Float8_e5m2": "fp8 e5m2",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
    "long int": "int64",
    "int": "int32",
    "short int": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
}
"""C++'s names of types, as Kineto writes them, to those that people use."""


def breakdown_json(looks: Mapping[str, Breakdown], *, recording: str) -> str:
    """The text of detailed_breakdown.json: the breakdowns of *looks* by the names of their files."""
    document = {
        "schema": SCHEMA_VERSION,
        "perfzero": __version__,
        "recording": recording,
        "looks": [{"file": file, **_look(looks[file])} for file in sorted(looks)],
    }
    return json.dumps(jsonable(document), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def overlap(breakdown: Breakdown) -> float:
    """What the shares of all work add up to where that is more than 100 %, for streams overlap; else NaN."""
    return breakdown.total.share if breakdown.total.share >= OVERLAPPING else math.nan


def _whole(breakdown: Breakdown) -> float:
    """What the shares of lines are of, over the busy time: all work where its kernels share the SMs."""
    together = overlap(breakdown)
    beside = any(row.name == COLLECTIVES_ROW and row.time.gpu_ns for row in breakdown.elsewhere)
    return 1.0 if math.isnan(together) or beside else together


def about_streams(breakdown: Breakdown) -> str:
    """What is to be known of the shares of `lines` where streams overlap, in words; else empty."""
    together = overlap(breakdown)
    if math.isnan(together):
        return ""
    share = text.percent(together)
    return say("layers_overlap" if _whole(breakdown) == 1.0 else "layers_work", sum=share)


def lines(breakdown: Breakdown, *, language: str = "en") -> list[str]:
    """
    What takes the most GPU time, a line each, the heaviest first; none where the trace holds no GPU work.

    Path, class and how many are alike; share of the busy time, or, where streams overlap, of the work of all
    of them, unless what is hidden behind the rest are collectives, which hardly need SMs; share of what is
    read from device memory where that was counted; what goes in; where the program says so. Without modules
    and operators it is kernels that are told, with how often they run in a step.
    """
    voice = Voice(language)
    rows = sorted(_told(breakdown), key=lambda told: -told[0].time.share)[:LINES]
    folder = _folder([row.source.file for row, _, _ in rows if row.source is not None])
    whole = _whole(breakdown)
    cells = [_cells(*row, folder, voice, whole) for row in rows]
    return _aligned(cells, kernels=kernels_alone(breakdown))


def _look(breakdown: Breakdown) -> dict[str, Any]:
    return {
        "steps": breakdown.steps,
        "busy_ns": breakdown.busy_ns,
        "exposed_ns": breakdown.exposed_ns,
        "span_ns": breakdown.span_ns,
        "total": asdict(breakdown.total),
        "modules": [asdict(m) for m in breakdown.modules],
        "alike": [asdict(a) for a in breakdown.alike],
        "elsewhere": [asdict(r) for r in breakdown.elsewhere],
        "operators": [asdict(r) for r in breakdown.operators],
        "kernels": [asdict(k) for k in breakdown.kernels],
        "doubts": breakdown.doubts,
        "sampled": None if breakdown.sampled is None else asdict(breakdown.sampled),
        "counted": None if breakdown.counted is None else asdict(breakdown.counted),
        "roofline": asdict(breakdown.roofline),
        "ceilings": None if breakdown.ceilings is None else asdict(breakdown.ceilings),
    }


REST_OF_REPLAYS: Annotated[float, Limit("ratio", CHOICE)] = 0.1
"""Of the busy time: if no more runs outside of graphs, their kernels say more than the one row of replays."""


def _told(breakdown: Breakdown) -> Iterator[tuple[Row, str, str]]:
    """
    Rows worth telling, each with what stands in the second column, and what else is said of it.

    Kernels where nothing else is known. Where one row of modules has nearly everything, operators too.
    """
    if kernels_alone(breakdown):
        for kernel in breakdown.kernels:
            if kernel.row.time.share >= WORTH_TELLING:
                often = round(kernel.row.time.launches / breakdown.steps) if breakdown.steps else 0
                name = _ARCHITECTURE.sub("", kernel.row.name.removeprefix("void "))
                row = replace(kernel.row, name=_kernel(name, _KERNEL))
                yield row, f"{kernel.kind} ×{often}" if often > 1 else kernel.kind, ""
        return
    for alike in breakdown.alike:
        if alike.row.time.share >= WORTH_TELLING:
            times = f" ×{alike.count}" if alike.count > 1 else ""
            row = replace(alike.row, name=within_model(alike.row.name))
            own = _own_kernel(breakdown, row)
            yield replace(row, call=None) if own else row, f"{alike.class_name}{times}", own
    for row in breakdown.elsewhere:
        if row.time.share >= WORTH_TELLING:
            if row.name == COLLECTIVES_ROW:
                yield row, _collective(row.kernel), _exposed(breakdown, row)
            elif row.name == OUTSIDE_ROW and (own := _own_kernel(breakdown, row)):
                yield replace(row, call=None), own, ""
            else:
                yield row, "" if row.call is None else row.call.operator, ""
    if any(alike.row.time.share >= ALL_IN_ONE for alike in breakdown.alike):
        yield from _operators(breakdown)


def _operators(breakdown: Breakdown) -> Iterator[tuple[Row, str, str]]:
    """Operators worth telling, where there are several: a single one is told with its module."""
    known = [row for row in breakdown.operators if row.name != UNATTRIBUTED_ROW]
    heavy = [row for row in known if row.time.share >= WORTH_TELLING]
    for row in heavy if len(heavy) > 1 else ():
        yield row, say("layer_operator"), ""


ALL_IN_ONE: Annotated[float, Limit("ratio", CHOICE)] = 0.9
"""Of the busy time, in one row of modules: that says nothing of where it goes, and its operators do."""

MOSTLY: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""Of a row's time. A kernel with less does not stand for it."""


def _own_kernel(breakdown: Breakdown, row: Row) -> str:
    """
    The kernel with most of *row*'s time where no operator launched it, as one written in Triton: then what
    operators beside it were given says nothing of it. Empty where an operator did.
    """
    alone = sum(c.gpu_ns for c in breakdown.calls if c.call is None and c.kernel == row.kernel)
    replayed = row.time.replay_ns * 2 > row.time.gpu_ns  # of a graph nobody knows the operators
    if not row.kernel or replayed or not alone >= MOSTLY * row.time.gpu_ns:
        return ""
    return _kernel(_ARCHITECTURE.sub("", row.kernel.removeprefix("void ")), _KERNEL)


def kernels_alone(breakdown: Breakdown) -> bool:
    """
    Whether nothing is known but kernels, as from CUPTI's records alone, or of nearly all of a step.

    A graph that holds the whole step, as of an inference server, is captured before anybody looks: whose its
    kernels are was known then.
    """
    if not breakdown.alike and all(row.name == UNATTRIBUTED_ROW for row in breakdown.operators):
        return True
    replays = next(row for row in breakdown.elsewhere if row.name == REPLAYS_ROW)
    return replays.time.share >= 1 - REST_OF_REPLAYS


def within_model(path: str) -> str:
    """*path* of a module, or of several, with the model above it where it says nothing alone: "0", "*.*"."""
    if not path:
        return "(model)"
    return f"(model).{path}" if set(path) <= _NUMBERS else path


def _collective(kernel: str) -> str:
    """What NCCL's *kernel* does: "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...)" -> "AllReduce"."""
    return kernel.partition("_")[2].partition("(")[0].partition("_")[0]


def _exposed(breakdown: Breakdown, row: Row) -> str:
    """What of the time of collectives was seen by the program: that in which nothing else ran."""
    if not row.time.gpu_ns:
        return ""
    return say("layer_exposed", share=text.percent(breakdown.exposed_ns / row.time.gpu_ns))


def _cells(row: Row, kind: str, more: str, folder: str, voice: Voice, whole: float) -> tuple[str, ...]:
    """*whole*: what the shares of all work add up to."""
    replayed = say("layer_replayed") if row.time.replay_ns * 2 > row.time.gpu_ns else ""
    what = " ".join(voice.tell(part) for part in (more, given(row.call), replayed) if part)
    name = say(f"row.{row.name}") if row.name in NAMED_ROWS else row.name
    cells = (name, kind, text.percent(row.time.share / whole), _reads(row), what, _place(row.source, folder))
    return tuple(voice.tell(cell) for cell in cells)


def _reads(row: Row) -> str:
    """What share of all reads from device memory the row makes; empty where that is not known."""
    reads = None if row.counted is None else row.counted.dram_read_bytes
    if reads is None or math.isnan(reads.share):
        return ""
    return say("layer_reads", share=text.percent(reads.share))


def given(call: Call | None) -> str:
    """The main input of a call in words: "[256,64,56,56] NCHW bf16"."""
    if call is None or call.main is None:
        return ""
    tensor = call.inputs[call.main]
    shape = text.fitting(f"[{','.join(map(str, tensor.shape))}]", _SHAPE)
    dtype = text.fitting(_DTYPES.get(tensor.dtype, tensor.dtype), _DTYPE)
    return " ".join(part for part in (shape, call.layout, dtype) if part)


def _kernel(name: str, width: int) -> str:
    """A kernel's *name* cut to *width*: its beginning, and its end from the last "_" on if that is short."""
    if len(name) <= width:
        return name
    suffix = name[name.rfind("_") :] if "_" in name else ""
    kept = suffix if 1 < len(suffix) <= _SUFFIX else ""
    return text.fitting(name, width - len(kept)) + kept


def _folder(files: Sequence[str]) -> str:
    """What the files with a whole path have in common, for they are told without it; empty if nothing."""
    whole = [posixpath.dirname(file) for file in files if posixpath.isabs(file)]
    common = posixpath.commonpath(whole) if whole else "/"
    return "" if common == "/" else f"{common}/"


def _place(source: SourceLine | None, folder: str) -> str:
    if source is None:
        return ""
    file = source.file.removeprefix(folder)
    return file if source.line is None else f"{file}:{source.line}"


def _aligned(rows: Sequence[tuple[str, ...]], *, kernels: bool) -> list[str]:
    columns = [c for c in _LEAST if c != _READS or any(row[_READS] for row in rows)]
    if not rows:
        return []
    widths = {column: max(text.width(row[column]) for row in rows) for column in columns}
    least = _LEAST if _READS not in columns else {**_LEAST, _GIVEN: _LEAST_GIVEN_BESIDE_READS}
    excess = sum(widths.values()) + 2 * (len(widths) - 1) - WIDTH
    for column in _SHORTENED:
        less = max(0, min(excess, widths[column] - least[column]))
        widths[column] -= less
        excess -= less
    return ["  ".join(_fitted(row, widths, kernels=kernels)).rstrip() for row in rows]


def _fitted(row: Sequence[str], widths: Mapping[int, int], *, kernels: bool) -> Iterator[str]:
    """
    The cells of a row in their widths.

    A path says most at its end, class and shape at the beginning, and kernels, if the rows are, at both.
    """
    for column, width in widths.items():
        cell = row[column]
        if kernels and column == _PATH:
            cell = _kernel(cell, width)
        elif column in (_CLASS, _GIVEN):
            cell = text.fitting(cell, width)
        else:
            cell = text.fitting(cell[::-1], width)[::-1]
        rest = " " * (width - text.width(cell))
        yield rest + cell if column in (_SHARE, _READS) else cell + rest
