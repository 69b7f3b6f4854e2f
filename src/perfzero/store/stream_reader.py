"""
Reads a stream of samples that anyone may have written, and trusts nothing in it.

The framing of the IPC format is walked here, message by message
(https://arrow.apache.org/docs/format/Columnar.html#ipc-streaming-format), because Arrow
allocates whatever size a message claims for itself: a few kilobytes of zstd can claim to be
terabytes. Only a message whose claims fit its columns and rows is handed to Arrow. A batch
that cannot be decoded is skipped; one that is cut off ends the stream; both are said.
"""

from __future__ import annotations

import bisect
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perfzero.counters import BY_NAME
from perfzero.store.schema import (
    MAX_BATCH_ROWS,
    MAX_BODY_BYTES,
    MAX_COLUMNS,
    MAX_METADATA_BYTES,
    STEPS,
    TIMES,
    stream_name,
)
from perfzero.values import FloatArray, IntArray, Samples
from perfzero.words.said import say

_PREFIX = struct.Struct("<Ii")  # continuation mark, length of the metadata
_CONTINUATION = 0xFFFFFFFF
_SCHEMA_HEADER, _BATCH_HEADER = 1, 3  # org.apache.arrow.flatbuf.MessageHeader
_PADDING = 64  # Arrow pads buffers to multiples of it
_ARROW_ERRORS = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, IndexError, MemoryError)


@dataclass(frozen=True, slots=True)
class StreamContent:
    """What a stream file held: the rows that can be trusted, and in words what was wrong with the rest."""

    samples: Samples
    doubts: tuple[str, ...] = ()


def read_stream(file: BinaryIO, *, name: str, stream: str, gpu: int | None, max_cells: int) -> StreamContent:
    """
    The samples in *file*, ordered by start, up to the last whole batch and at most *max_cells* values.

    *name* is what the file is called in `doubts`; *stream* and *gpu* are what it must say of
    itself. Nothing a file can hold makes this raise.
    """
    return _Reader(file, name=name, stream=stream, gpu=gpu, max_cells=max_cells).read()


class _Damaged(ValueError):
    """A message that cannot be trusted."""


class _Unframed(_Damaged):
    """The place where the next message starts is unknown: nothing more can be read."""

    def __str__(self) -> str:
        return say("file.damaged_middle")


class _CutShort(_Unframed):
    """The file ends before the message does."""

    def __str__(self) -> str:
        return say("file.ends_in_batch")


class _Reader:
    """Walks the messages of one stream file."""

    def __init__(self, file: BinaryIO, *, name: str, stream: str, gpu: int | None, max_cells: int) -> None:
        self._file = file
        self._left = os.fstat(file.fileno()).st_size
        self._name = name
        self._claim = stream_name(stream, gpu)
        self._max_cells = max_cells
        self._doubts: list[str] = []

    def read(self) -> StreamContent:
        try:
            schema = self._schema()
        except (_Damaged, *_ARROW_ERRORS) as error:
            self._doubts.append(say("file.left_out", name=self._name, why=_first_line(error)))
            return StreamContent(Samples.empty(), tuple(self._doubts))
        if schema is None:
            return StreamContent(Samples.empty(), tuple(self._doubts))
        names = self._known_columns(schema)
        samples = self._trusted_rows(self._batches(schema), schema, names)
        return StreamContent(samples, tuple(self._doubts))

    def _schema(self) -> Any:
        message = self._message()
        if message is None:
            return None
        if message.header_type != _SCHEMA_HEADER:
            raise _Damaged(say("file.no_arrow_schema"))
        # Extension types may run code of the library that declares them, and none is ever written.
        if b"ARROW:extension" in message.metadata:
            raise _Damaged(say("file.extension_type"))
        schema = pa.ipc.read_schema(pa.py_buffer(message.framed()))
        if len(schema) > MAX_COLUMNS:
            raise _Damaged(say("file.many_columns", count=len(schema), most=MAX_COLUMNS))
        if len(set(schema.names)) != len(schema):
            raise _Damaged(say("file.same_columns"))
        first = tuple(schema.names[:2])
        if first not in (TIMES, STEPS) or any(schema.field(n).type != pa.int64() for n in first):
            raise _Damaged(say("file.first_columns"))
        odd = [n for n in schema.names[2:] if schema.field(n).type not in (pa.float32(), pa.float64())]
        if odd:
            raise _Damaged(say("file.column_type", column=f"{odd[0][:40]!r}"))
        claim = (schema.metadata or {}).get(b"perfzero.stream", b"").decode("utf-8", "replace")
        if claim != self._claim:
            raise _Damaged(say("file.claims", stream=f"{claim[:40]!r}"))
        return schema

    def _known_columns(self, schema: Any) -> list[str]:
        unknown = [n for n in schema.names[2:] if n not in BY_NAME]
        if unknown:
            listed = ", ".join(repr(n[:40]) for n in unknown[:3]) + (", ..." if len(unknown) > 3 else "")
            self._doubts.append(
                say("file.unknown_columns", name=self._name, count=len(unknown), names=listed)
            )
        return [n for n in schema.names[2:] if n in BY_NAME]

    def _batches(self, schema: Any) -> list[Any]:
        """The batches that can be decoded."""
        batches: list[Any] = []
        damaged = rows = 0
        max_rows = self._max_cells // len(schema)
        while True:
            try:
                message = self._message()
                if message is None:
                    break
                count = message.check_batch(columns=len(schema))
                if rows + count > max_rows:
                    self._doubts.append(say("file.first_rows", name=self._name, rows=f"{rows:,}"))
                    break
                batch = pa.ipc.read_record_batch(pa.ipc.read_message(pa.py_buffer(message.framed())), schema)
                batch.validate(full=True)
                batches.append(batch)
                rows += count
            except _Unframed as error:
                self._doubts.append(f"{self._name}: {error}.")
                break
            except (_Damaged, struct.error, *_ARROW_ERRORS):
                damaged += 1
        if damaged:
            self._doubts.append(say("file.damaged_batches", name=self._name, count=damaged))
        return batches

    def _message(self) -> _Message | None:
        """The next message; None at the end mark, or where the file just ends after a whole one."""
        if self._left == 0:
            return None
        prefix = self._take(_PREFIX.size)
        mark, length = _PREFIX.unpack(prefix)
        if mark == _CONTINUATION and length == 0:
            return None
        if mark != _CONTINUATION or not 0 < length <= MAX_METADATA_BYTES:
            raise _Unframed
        metadata = self._take(length)
        try:
            header_type, body_length = _message_header(metadata)
        except (_Damaged, struct.error):
            raise _Unframed from None
        if not 0 <= body_length <= MAX_BODY_BYTES:
            raise _Unframed
        return _Message(prefix, metadata, self._take(body_length), header_type)

    def _take(self, count: int) -> bytes:
        data = self._file.read(count) if count <= self._left else b""
        if len(data) < count:
            raise _CutShort
        self._left -= count
        return data

    def _trusted_rows(self, batches: list[Any], schema: Any, names: Sequence[str]) -> Samples:
        table = pa.Table.from_batches(batches, schema)
        start, end = _all_times(batches, schema)
        columns: dict[str, FloatArray] = {}
        infinite = 0
        for name in names:
            with np.errstate(invalid="ignore"):  # a damaged float may be a signalling NaN
                values = table.column(name).to_numpy().astype(np.float64)
            wild = np.isinf(values)
            infinite += int(wild.sum())
            values[wild] = np.nan
            columns[name] = values
        samples = Samples(start, end, columns)
        if infinite:
            self._doubts.append(say("file.infinite", name=self._name, count=f"{infinite:,}"))

        possible = (start >= 0) & (end > start)
        if not possible.all():
            self._doubts.append(
                say("file.negative_rows", name=self._name, count=f"{int((~possible).sum()):,}")
            )
            samples = samples.where(possible)
        if len(samples) and (np.diff(samples.start_ns) < 0).any():
            ordered = _longest_ordered(samples.start_ns)
            self._doubts.append(
                say("file.unordered_rows", name=self._name, count=f"{int((~ordered).sum()):,}")
            )
            samples = samples.where(ordered)
        return samples


@dataclass(frozen=True, slots=True)
class _Message:
    prefix: bytes
    metadata: bytes
    body: bytes
    header_type: int

    def framed(self) -> bytes:
        return self.prefix + self.metadata + self.body

    def check_batch(self, *, columns: int) -> int:
        """How many rows the batch has; raises if it claims more memory than rows and columns can need."""
        if self.header_type != _BATCH_HEADER:
            raise _Damaged(say("file.no_batch"))
        data = self.metadata
        table = _follow(data, _field(data, _root(data), 2))
        length_at = _field(data, table, 0)
        (rows,) = struct.unpack_from("<q", data, length_at) if length_at else (0,)
        if not 0 <= rows <= MAX_BATCH_ROWS:
            raise _Damaged(say("file.impossible_rows"))
        if not _field(data, table, 3):
            return int(rows)  # not compressed: it takes what it claims from the file itself
        buffers = _follow(data, _field(data, table, 2))
        (count,) = struct.unpack_from("<I", data, buffers)
        if count > 2 * columns:  # a validity bitmap and the values for each
            raise _Damaged(say("file.impossible_buffers"))
        for i in range(count):
            offset, length = struct.unpack_from("<qq", data, buffers + 4 + 16 * i)
            if length == 0:
                continue
            if offset < 0 or length < 8 or offset + length > len(self.body):
                raise _Damaged(say("file.buffer_outside"))
            (claim,) = struct.unpack_from("<q", self.body, offset)
            if claim > 8 * rows + _PADDING:
                raise _Damaged(say("file.buffer_large"))
        return int(rows)


# Flatbuffers, as far as needed: a table starts with the distance back to its vtable, which
# holds for each slot the distance from the table to the field, or 0 where it is absent
# (https://flatbuffers.dev/internals/). struct.error is raised for what lies outside.


def _root(data: bytes) -> int:
    (distance,) = struct.unpack_from("<I", data, 0)
    return int(distance)


def _follow(data: bytes, at: int) -> int:
    if at == 0:
        raise _Damaged(say("file.part_missing"))
    (distance,) = struct.unpack_from("<I", data, at)
    return at + int(distance)


def _field(data: bytes, table: int, slot: int) -> int:
    (back,) = struct.unpack_from("<i", data, table)
    vtable = table - back
    if vtable < 0:
        raise _Damaged(say("file.table_outside"))
    (size,) = struct.unpack_from("<H", data, vtable)
    if 4 + 2 * slot + 2 > size:
        return 0
    (distance,) = struct.unpack_from("<H", data, vtable + 4 + 2 * slot)
    return table + int(distance) if distance else 0


def _message_header(metadata: bytes) -> tuple[int, int]:
    """Type of the header and length of the body of a Message."""
    table = _root(metadata)
    kind, body = _field(metadata, table, 1), _field(metadata, table, 3)
    return (
        metadata[kind] if 0 < kind < len(metadata) else 0,
        struct.unpack_from("<q", metadata, body)[0] if body else 0,
    )


def _all_times(batches: Sequence[Any], schema: Any) -> tuple[IntArray, IntArray]:
    """Starts and ends of the rows of *batches*, negative where they cannot be told."""
    told = _absolute if tuple(schema.names[:2]) == TIMES else _walked
    times = [told(batch.column(0), batch.column(1)) for batch in batches]
    if not times:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    starts, ends = zip(*times, strict=True)
    return np.concatenate(starts), np.concatenate(ends)


def _absolute(start: Any, end: Any) -> tuple[IntArray, IntArray]:
    return _whole_numbers(start), _whole_numbers(end)


def _walked(after: Any, length: Any) -> tuple[IntArray, IntArray]:
    """After a step that is missing no time can be told; sums that are too large turn negative."""
    steps, lengths = _whole_numbers(after, missing=0), _whole_numbers(length, missing=0)
    end = np.cumsum(steps + lengths)
    start = end - lengths
    told = np.logical_and.accumulate(_present(after) & _present(length))
    return np.where(told, start, -1), np.where(told, end, -1)


def _whole_numbers(column: Any, *, missing: int = -1) -> IntArray:
    # A time that is missing makes the row impossible, which drops it.
    values = (column.fill_null(missing) if column.null_count else column).to_numpy()
    return np.asarray(values, dtype=np.int64)


def _present(column: Any) -> NDArray[np.bool_]:
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), dtype=bool)


def _longest_ordered(values: IntArray) -> NDArray[np.bool_]:
    """Which of *values* to keep so that they never fall and as few as possible go (patience sorting)."""
    tails: list[int] = []  # smallest last value of an ordered run of each length
    tail_at: list[int] = []
    before = np.full(len(values), -1, np.int64)
    for i, value in enumerate(values.tolist()):
        place = bisect.bisect_right(tails, value)
        if place:
            before[i] = tail_at[place - 1]
        tails[place : place + 1] = [value]
        tail_at[place : place + 1] = [i]
    keep = np.zeros(len(values), bool)
    at = tail_at[-1] if tail_at else -1
    while at >= 0:
        keep[at] = True
        at = int(before[at])
    return keep


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200].rstrip(".")
