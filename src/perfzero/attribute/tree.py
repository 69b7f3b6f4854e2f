"""
The breakdown of a trace: the GPU's time by module, by operator and by kernel.

A piece of work counts with its whole duration, so the totals of each of the three views add up to the sum
of all durations. The GPU's busy time is less where streams overlap: it is the union of all work on a device,
summed over devices. Shares are held against the busy time, so together they exceed 1 by what overlaps.

Modules form a tree along the dots of their paths. `own` is what no deeper module took, `total` is with all
that lies below. What belongs to no module stands beside the tree, in `elsewhere`, and is never left out.
Models in one process share one tree: a trace does not say which of two outermost modules a path belongs to.
But an outermost module that never calls one with a path, such as a loss, stands beside it by itself.

Where the GPU's counters were sampled while the trace was taken, each row also has what its kernels read,
wrote and kept busy (`counted.py`). What they compute and have to move is told of each row (`work.py`), and
with counters its place under the roof (`roofline.py`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Annotated, TypeVar

import numpy as np

from perfzero.attribute.allocating import allocating
from perfzero.attribute.beside import beside_ns
from perfzero.attribute.breakdown import (
    COLLECTIVES_ROW,
    OPTIMIZER_ROW,
    OUTSIDE_ROW,
    PHASES,
    REPLAYS_ROW,
    UNATTRIBUTED_ROW,
    Alike,
    Breakdown,
    Call,
    CallRow,
    Chain,
    GpuTime,
    KernelRow,
    Module,
    Row,
    SourceLine,
)
from perfzero.attribute.chains import Moved, chains
from perfzero.attribute.counted import Counted, Counting, Sampled, count
from perfzero.attribute.earlier import is_earlier, without_earlier
from perfzero.attribute.layout import layout
from perfzero.attribute.owners import (
    BACKWARD,
    COLLECTIVE,
    FORWARD,
    IN_OPTIMIZER,
    IN_REPLAY,
    OPTIMIZER,
    OTHER,
    OUTSIDE,
    UNKNOWN,
    Owners,
    find_owners,
)
from perfzero.attribute.parts import NOTEWORTHY
from perfzero.attribute.paths import ancestry, natural, parent, pattern, without_numbers
from perfzero.attribute.positions import kernels_of
from perfzero.attribute.repeats import with_steps
from perfzero.attribute.roofline import Ceilings, Roofline
from perfzero.attribute.work import Demand, demand, leaves_the_device
from perfzero.limits import CHOICE, Limit
from perfzero.traces import WORK_KINDS, BoolArray, Spans, Trace, Work
from perfzero.values import IntArray, Samples
from perfzero.words.said import say

SEVERAL_GPUS = say("layers.several_gpus")
NOT_SAMPLED = say("layers.no_sample")
CLOCK_UNKNOWN = say("layers.clocks")

LONG_SAMPLES_NS: Annotated[int, Limit("nanoseconds", CHOICE)] = 200_000
"""Longer samples tell single kernels from each other only after hundreds of steps."""

BESIDE: Annotated[float, Limit("ratio", CHOICE)] = 0.02
"""
Of a row's time. Up to here it has no place under the roof less for what another stream moved meanwhile: as
much as may be unknown of it (`work.KNOWN`).
"""

T = TypeVar("T", bound=Hashable)


def break_down(
    trace: Trace,
    samples: Samples | None = None,
    ceilings: Ceilings | None = None,
    *,
    l2_bytes: int | None = None,
) -> Breakdown:
    """
    The breakdown of *trace*, without the work that was launched before it began.

    *samples* are of the counters of the trace's GPU, taken meanwhile, and *ceilings* what it does at most.
    *l2_bytes*: how large its L2 is, None where not known.
    """
    whole = with_steps(trace)
    trace = without_earlier(whole)
    table = _Table(trace, find_owners(trace), l2_bytes)
    modules = table.modules()
    found = table.chains()
    breakdown = Breakdown(
        total=table.time(np.arange(len(trace.work))),
        busy_ns=table.busy_ns,
        steps=table.steps,
        modules=modules,
        alike=table.alike(modules),
        elsewhere=table.elsewhere(),
        operators=table.operators(),
        kernels=table.kernels(),
        doubts=(*trace.doubts, *_doubts(trace, table)),
        calls=table.calls(),
        chains=tuple(chain for chain in found if len(chain.calls) > 1),
        alone=tuple(chain for chain in found if len(chain.calls) == 1),
        roofline=table.demand.roofline(np.arange(len(trace.work)), whole=True),
        exposed_ns=table.exposed_ns(),
        allocating=allocating(trace),
        span_ns=int(trace.work.end_ns.max() - trace.work.start_ns.min()) if len(trace.work) else 0,
    )
    if samples is None or not len(samples) or not len(trace.work):
        return breakdown
    if len(np.unique(whole.work.device)) > 1:
        return replace(breakdown, doubts=(*breakdown.doubts, SEVERAL_GPUS))
    counting = _counting(whole, table, samples)
    if counting is None:
        return replace(breakdown, doubts=(*breakdown.doubts, NOT_SAMPLED))
    return _with_counters(breakdown, table, counting, ceilings)


def _counting(whole: Trace, table: _Table, samples: Samples) -> Counting | None:
    """*samples* shared out to all work, for what was launched earlier is one more step to learn from."""
    kept = np.flatnonzero(~is_earlier(whole))
    call = np.full(len(whole.work), -1, np.int64)
    call[kept] = table.call
    return count(kernels_of(whole, call), samples, kept)


def _with_counters(
    breakdown: Breakdown, table: _Table, counting: Counting, ceilings: Ceilings | None
) -> Breakdown:
    """*breakdown* with what is counted in each of its rows, and their places under the roof."""

    beside = beside_ns(table.trace.work)

    def under(roofline: Roofline, rows: IntArray, counted: Counted) -> Roofline:
        gpu_ns = int(table.length_ns[rows].sum())
        placed = gpu_ns >= NOTEWORTHY * table.busy_ns and int(beside[rows].sum()) <= BESIDE * gpu_ns
        roofs = (ceilings if placed else None) or Ceilings()
        compute_s = table.demand.compute_s(rows, roofs)
        return roofline.measured(counted, gpu_ns, compute_s, roofs)

    def told(of: Sequence[Row]) -> list[Row]:
        sets = [table.rows_of.get(id(row), _NONE) for row in of]
        each = zip(of, sets, counting.told(sets, [row.name for row in of]), strict=True)
        return [replace(row, counted=c, roofline=under(row.roofline, rows, c)) for row, rows, c in each]

    modules, alike, kernels = breakdown.modules, breakdown.alike, breakdown.kernels
    heavy = [r for r in (*(a.row for a in alike), *breakdown.elsewhere) if r.time.share >= NOTEWORTHY]
    several = len(heavy) > 1 or not heavy
    below = [table.below[m.path] for m in modules]
    totals, everything = counting.told(below), np.arange(len(table.length_ns))
    [counted] = counting.told([everything])
    return replace(
        breakdown,
        modules=tuple(
            replace(m, own=row, total_counted=c, total_roofline=under(m.total_roofline, rows, c))
            for m, row, rows, c in zip(modules, told([m.own for m in modules]), below, totals, strict=True)
        ),
        alike=tuple(replace(a, row=row) for a, row in zip(alike, told([a.row for a in alike]), strict=True)),
        elsewhere=tuple(told(breakdown.elsewhere)),
        operators=tuple(told(breakdown.operators)),
        kernels=tuple(
            replace(k, row=row) for k, row in zip(kernels, told([k.row for k in kernels]), strict=True)
        ),
        sampled=counting.sampled,
        counted=counted,
        roofline=under(breakdown.roofline, everything, counted),
        ceilings=ceilings,
        doubts=(*breakdown.doubts, *_doubts_of(counting.sampled, several), *counting.doubts),
    )


def _doubts_of(sampled: Sampled, several: bool) -> Iterable[str]:
    """*several*: rows share what was counted, so that it matters when their kernels ran."""
    if several and not sampled.clock.known:
        yield CLOCK_UNKNOWN
    if sampled.period_ns > LONG_SAMPLES_NS:
        yield (say("layers.long_samples", length=f"{sampled.period_ns / 1000000.0:.1f}"))


def busy_ns(work: Work, among: BoolArray | None = None) -> int:
    """How long a GPU did anything *among* all work: the union on each device, summed over devices."""
    busy = 0
    among = np.ones(len(work), bool) if among is None else among
    for device in np.unique(work.device[among]):
        here = among & (work.device == device)
        start, end = work.start_ns[here], work.end_ns[here]  # ordered by start
        before = np.concatenate((start[:1], np.maximum.accumulate(end)[:-1]))
        busy += int(np.maximum(0, end - np.maximum(start, before)).sum())
    return busy


def _doubts(trace: Trace, table: _Table) -> Iterable[str]:
    if not len(trace.work):
        yield say("layers.no_work")
    elif not table.steps:
        yield say("layers.no_steps")


class _Table:
    """The work of a trace row by row with its owners, and sums over parts of it."""

    def __init__(self, trace: Trace, owners: Owners, l2_bytes: int | None) -> None:
        self.trace, self.owners = trace, owners
        self.length_ns = trace.work.end_ns - trace.work.start_ns
        self.busy_ns = busy_ns(trace.work)
        self.steps = len(np.unique(trace.steps.what))
        operators = trace.operators
        self._operator = _mapped(operators.spans.what, owners.operator)
        inputs = _mapped(operators.inputs, owners.operator)
        self.call, self._calls = _numbered(zip(self._operator.tolist(), inputs.tolist(), strict=True))
        self.call[self._operator < 0] = -1
        self.calls_at = {n: self._call_at(n) for n in np.unique(self.call).tolist() if n >= 0}
        self.demand: Demand = demand(
            trace.work, owners.operator, self.call, self.calls_at, owners.replay, l2_bytes
        )
        self.rows_of: dict[int, IntArray] = {}  # of each row that was made, by its identity
        self.below: dict[str, IntArray] = {}  # of each module with those below it
        self._source, self._sources = self._different_sources()
        # Two classes may share a path, which then is one node of the tree.
        self._standing = _standing(trace)
        of_module, self._paths = _numbered(self._standing)
        self._path = _mapped(of_module, owners.module)

    def time(self, rows: IntArray) -> GpuTime:
        """All that is told of the time in *rows* of the work."""
        if not len(rows):  # most modules of a deep tree, where this is what takes the time
            share, per_step = (0.0 if part else math.nan for part in (self.busy_ns, self.steps))
            return GpuTime(0, share, per_step, 0, 0, 0, 0, 0, 0)
        length, phase = self.length_ns[rows], self.owners.phase[rows]
        gpu_ns = int(length.sum())
        in_steps = int(length[self.owners.in_step[rows]].sum())
        return GpuTime(
            gpu_ns=gpu_ns,
            share=gpu_ns / self.busy_ns if self.busy_ns else math.nan,
            per_step_ns=in_steps / self.steps if self.steps else math.nan,
            launches=len(rows),
            forward_ns=int(length[phase == FORWARD].sum()),
            backward_ns=int(length[phase == BACKWARD].sum()),
            optimizer_ns=int(length[phase == OPTIMIZER].sum()),
            other_ns=int(length[phase == OTHER].sum()),
            replay_ns=int(length[self.owners.replay[rows]].sum()),
        )

    def row(self, name: str, rows: IntArray, *, whole: bool = True) -> Row:
        """A row of the breakdown, made of *rows* of the work; *whole*: with all kernels of each call."""
        if not len(rows):
            return Row(name, self.time(rows))
        forward = rows[self.owners.phase[rows] == FORWARD]
        call = self._heaviest(self.call, forward if len(forward) else rows)
        source = self._sources[self._heaviest(self._source, rows)]
        kernel = self._heaviest(self.trace.work.name, rows)
        path = self._heaviest(self._path, rows)
        row = Row(
            name,
            self.time(rows),
            None if call < 0 else self._call_at(call),
            "" if kernel < 0 else self.trace.work.names[kernel],
            None if path < 0 else self._paths[path],
            source,
            roofline=self.demand.roofline(rows, whole=whole),
        )
        self.rows_of[id(row)] = rows
        return row

    def modules(self) -> tuple[Module, ...]:
        """The tree of modules, each before those below it."""
        called: dict[str, list[int]] = {}
        for number, path in enumerate(self._standing):
            called.setdefault(path, []).append(number)
        beside = {p for p, m in zip(self._standing, self.trace.modules, strict=True) if p != m.path}
        above_of = {path: [path] if path in beside else ancestry(path) for path in called}
        paths = {above for path in called for above in above_of[path]}
        own = self._own()
        below: dict[str, list[IntArray]] = {path: [_NONE] for path in paths}
        for path, rows in own.items():
            for above in above_of[path]:
                below[above].append(rows)
        self.below = {path: np.concatenate(parts) for path, parts in below.items()}
        totals = {path: self.time(rows) for path, rows in self.below.items()}
        children: dict[str, list[str]] = {path: [] for path in paths}
        for path in paths - beside - {""}:
            children[parent(path)].append(path)

        def heaviest_first(path: str) -> tuple[int, list[tuple[int, str]]]:
            return -totals[path].gpu_ns, natural(path)

        found: list[Module] = []
        roots = [*(paths & {""}), *sorted(beside, key=heaviest_first)]
        stack = [(path, 0) for path in reversed(roots)]
        while stack:
            path, depth = stack.pop()
            rows = own.get(path, _NONE)
            found.append(
                Module(
                    path,
                    self._class_name(called.get(path, []), rows),
                    None if not path or path in beside else parent(path),
                    depth,
                    self.row(path, rows),
                    totals[path],
                    total_roofline=self.demand.roofline(self.below[path], whole=True),
                )
            )
            below_it = sorted(children[path], key=heaviest_first)
            stack += [(child, depth + 1) for child in reversed(below_it)]
        return tuple(found)

    def alike(self, modules: Sequence[Module]) -> tuple[Alike, ...]:
        """Modules with time of their own, like ones taken together, the heaviest first."""
        own = self._own()
        groups: dict[tuple[str, str, Call | None], list[str]] = {}
        for module in modules:
            if module.own.time.gpu_ns:
                key = (without_numbers(module.path), module.class_name, module.own.call)
                groups.setdefault(key, []).append(module.path)
        found = [
            Alike(
                self.row(pattern(paths), np.concatenate([own[p] for p in paths])),
                class_name,
                len(paths),
            )
            for (_, class_name, _), paths in groups.items()
        ]
        return tuple(sorted(found, key=lambda a: (-a.row.time.gpu_ns, natural(a.row.name))))

    def elsewhere(self) -> tuple[Row, ...]:
        """What belongs to no module; the rows are there even where nothing does."""
        places = (
            (OPTIMIZER_ROW, IN_OPTIMIZER),
            (COLLECTIVES_ROW, COLLECTIVE),
            (REPLAYS_ROW, IN_REPLAY),
            (OUTSIDE_ROW, OUTSIDE),
            (UNATTRIBUTED_ROW, UNKNOWN),
        )
        return tuple(self.row(name, np.flatnonzero(self.owners.place == place)) for name, place in places)

    def exposed_ns(self) -> int:
        """How long collectives ran on a GPU that did nothing else meanwhile."""
        return self.busy_ns - busy_ns(self.trace.work, self.owners.place != COLLECTIVE)

    def operators(self) -> tuple[Row, ...]:
        """By the innermost operator that launched the work, the heaviest first, and the rest at the end."""
        names = self.trace.operators.names
        found = [self.row(names[number], rows) for number, rows in self._groups(self._operator).items()]
        rest = self.row(UNATTRIBUTED_ROW, np.flatnonzero(self._operator < 0))
        return (*sorted(found, key=_heaviest_first), rest)

    def kernels(self) -> tuple[KernelRow, ...]:
        """By the name of the kernel, the heaviest first."""
        work = self.trace.work
        key = work.name * len(WORK_KINDS) + work.kind
        found = []
        for number, rows in self._groups(key).items():
            name, kind = divmod(number, len(WORK_KINDS))
            row = self.row(work.names[name], rows, whole=False)
            found.append(KernelRow(row, WORK_KINDS[kind]))
        return tuple(sorted(found, key=lambda k: (*_heaviest_first(k.row), k.kind)))

    def calls(self) -> tuple[CallRow, ...]:
        """Sums over kernels that have call, phase, module and kernel in common."""
        if not len(self.length_ns):
            return ()
        work = self.trace.work
        keys = np.stack((self.call, self.owners.phase, self._path, work.name, work.kind), axis=1)
        different, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        gpu_ns, launches = np.zeros((2, len(different)), np.int64)
        np.add.at(gpu_ns, group.reshape(-1), self.length_ns)
        np.add.at(launches, group.reshape(-1), (~self.owners.replay).astype(np.int64))
        return tuple(
            CallRow(
                self.calls_at.get(call),
                PHASES[phase],
                None if path < 0 else self._paths[path],
                work.names[name],
                WORK_KINDS[kind],
                ns,
                ns / self.busy_ns if self.busy_ns else math.nan,
                many,
                self._sources[source],
            )
            for (call, phase, path, name, kind), ns, many, source in zip(
                different.tolist(),
                gpu_ns.tolist(),
                launches.tolist(),
                self._source[first].tolist(),
                strict=True,
            )
        )

    def chains(self) -> tuple[Chain, ...]:
        """What works element by element, one after another or alone."""
        names = self.trace.work.names
        leaves = np.array([leaves_the_device(name) for name in names], bool)[self.trace.work.name]
        no_part = self.owners.replay | (self.owners.phase == OPTIMIZER) | leaves
        call = np.where(no_part, -1, self.call)
        sources = [self._sources[number] for number in self._source.tolist()]
        moved = Moved(self.owners.operator, self.demand.bytes, self.demand.again)
        return chains(
            self.trace.work, call, self.calls_at, self._path, self._paths, self.owners.phase, sources, moved
        )

    def _own(self) -> dict[str, IntArray]:
        """The rows of the work by the path of the module that owns them."""
        return {self._paths[number]: rows for number, rows in self._groups(self._path).items()}

    def _groups(self, key: IntArray) -> dict[int, IntArray]:
        """The rows of the work by *key*; those with a key below 0 belong to no group."""
        rows = np.flatnonzero(key >= 0)
        rows = rows[np.argsort(key[rows], kind="stable")]
        numbers, first = np.unique(key[rows], return_index=True)
        return dict(zip(numbers.tolist(), np.split(rows, first[1:]), strict=True)) if len(rows) else {}

    def _heaviest(self, key: IntArray, rows: IntArray) -> int:
        """The value of *key* with the most time in *rows*, of equals the first; -1 where there is none."""
        of = key[rows]
        rows, of = rows[of >= 0], of[of >= 0]
        if not len(rows):
            return -1
        numbers, inverse = np.unique(of, return_inverse=True)
        sums = np.zeros(len(numbers), np.int64)
        np.add.at(sums, inverse, self.length_ns[rows])
        return int(numbers[np.argmax(sums)])

    def _class_name(self, numbers: Sequence[int], rows: IntArray) -> str:
        """The class of a module; where several share its path, that with the most time of its own."""
        if not numbers:
            return ""
        number = self._heaviest(self.owners.module, rows)
        return self.trace.modules[number if number >= 0 else numbers[0]].class_name

    def _call_at(self, number: int) -> Call:
        name, shapes = self._calls[number]
        operators = self.trace.operators
        inputs = operators.shapes[shapes] if shapes >= 0 else ()
        ranks = [len(tensor.shape) for tensor in inputs]
        main = ranks.index(max(ranks)) if ranks else None
        images = next((t for t in inputs if len(t.shape) == 4), None)
        convolves = "conv" in operators.names[name]
        return Call(
            operators.names[name], inputs, main, layout(images) if convolves and images is not None else None
        )

    def _different_sources(self) -> tuple[IntArray, list[SourceLine | None]]:
        """
        Where each piece of work comes from, as a number that counts in the different places; -1: not known.

        The last of the places is None, so that -1 leads there.
        """
        owners, trace = self.owners, self.trace
        sites = np.array([m.site is not None for m in trace.modules], bool)
        called = owners.called.copy()
        called[called] = sites[owners.module[called]]
        module = np.where(called, owners.module, -1)
        function = np.where(called | (owners.site >= 0), -1, owners.function)
        keys, different = _numbered(
            zip(module.tolist(), owners.site.tolist(), function.tolist(), owners.began.tolist(), strict=True)
        )
        places, sources = _numbered(self._source_at(*key) for key in different)
        source = _mapped(places, keys)
        nowhere = [number for number, place in enumerate(sources) if place is None]
        source[np.isin(source, nowhere)] = -1
        return source, [*sources, None]

    def _source_at(self, module: int, replay: int, function: int, began: bool) -> SourceLine | None:
        site = None if module < 0 else self.trace.modules[module].site
        if replay >= 0:
            site = self.trace.sites[replay]
        if site is not None:
            return SourceLine(site.file, site.line)
        if function < 0:
            return None
        found = self.trace.functions[function]
        return SourceLine(found.file, found.line if began else None, found.name)


def _standing(trace: Trace) -> list[str]:
    """
    Where each of the trace's modules stands: at its own path, but for some outermost ones.

    Where several classes are outermost, or there are paths below, a class none of whose calls encloses one
    of a module with a path stands beside the tree: a loss is not the model, though both are outermost.
    """
    modules, calls = trace.modules, trace.module_calls
    paths = [module.path for module in modules]
    if len({m.path or f"({m.class_name})" for m in modules}) < 2:
        return paths
    outermost = np.array([not path for path in paths], bool)[calls.what]
    outer, deeper = calls.where(outermost), calls.where(~outermost)
    encloses = _encloses(outer, deeper)
    models = {modules[number].class_name for number in np.unique(outer.what[encloses]).tolist()}
    taken = set(paths)
    for number, module in enumerate(modules):
        name = f"({module.class_name})"
        if not module.path and module.class_name not in models and name not in taken:
            paths[number] = name
    return paths


def _encloses(outer: Spans, inner: Spans) -> BoolArray:
    """Which of *outer* have the start of any of *inner* in them, on the same thread."""
    moments = (inner.start_ns, outer.start_ns, outer.end_ns)
    different, rank = np.unique(np.concatenate(moments), return_inverse=True)
    at, start, end = np.split(rank, np.cumsum([len(m) for m in moments[:-1]]))
    # Thread and moment as one number, so that one search is enough for all threads.
    begins = np.sort(inner.thread * len(different) + at)
    here = outer.thread * len(different)
    within: BoolArray = np.searchsorted(begins, here + start) < np.searchsorted(begins, here + end)
    return within


_NONE: IntArray = np.empty(0, np.int64)


def _numbered(values: Iterable[T]) -> tuple[IntArray, list[T]]:
    """Each value as a number that counts in the different values, which come in the order of appearance."""
    numbers: dict[T, int] = {}
    found = [numbers.setdefault(value, len(numbers)) for value in values]
    return np.array(found, np.int64), list(numbers)


def _mapped(values: IntArray, rows: IntArray) -> IntArray:
    """*values* at *rows*, and -1 where a row is -1."""
    found = np.full(len(rows), -1, np.int64)
    found[rows >= 0] = values[rows[rows >= 0]]
    return found


def _heaviest_first(row: Row) -> tuple[int, str]:
    return -row.time.gpu_ns, row.name
