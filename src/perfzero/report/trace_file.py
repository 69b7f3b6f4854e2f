"""
A file of Perfetto, packet by packet: tracks, slices, counters, arrows.

    TracePacket { clock_snapshot }             Unix time is the trace's own clock, so that SQL and UI show it
    TracePacket { track_descriptor }           before anything on the track
    TracePacket { track_event }                a slice begins or ends, a counter has a value from now on

Nothing is kept but the texts that were said once and are told by a number since. All texts are limited and
without control characters, for names of kernels, files and processes come from strangers.

Most packets differ in nothing but a time and a value. Of these protobuf writes one as a pattern, and the
bytes of time and value are set for thousands of them at a time: 0.2 µs a packet instead of some 5. For that a
time always has nine bytes, which a varint may have whatever its value.

That a counter has no value is said by NaN: SQL has NULL for it, which no mean counts, and the UI draws 0.

Format: protos/perfetto/trace of the `perfetto` package.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from perfzero.errors import UsageError
from perfzero.text import printable
from perfzero.values import FloatArray, IntArray

MAX_NAME = 256
"""Characters of a name that is drawn: templated kernels have thousands, and no screen shows more."""

MAX_TEXT = 1024
"""Characters of a text beside a slice."""

MAX_TEXTS = 200_000
"""Different texts told by number; others are written out, so that memory stays bounded."""

MOST_SLICES = 4_000_000
"""More are not written of what the host and the looks tell: a file may be made to have any number."""

CHUNK = 1 << 16
"""Packets made at a time: some megabytes."""

BOOTTIME, REALTIME = 6, 1
"""Numbers of clocks: that of the trace as it is read, and Unix time."""

SEQUENCE = 1
"""All packets come from one writer."""

STATE_CLEARED, NEEDS_STATE = 1, 2

MISSING_PACKAGE = (
    "A trace for Perfetto cannot be written: {why}.\n"
    "Install what it needs: pip install 'perfzero[perfetto]'\n"
    "Or export without it: --format csv, json or parquet"
)

_HEAD = re.compile(
    rb"\n.\x50\x01\xca\x05.\x08[\x80-\xff]*[\x00-\x7f]\x10[\x80-\xff]*[\x00-\x7f]\n.\x32", re.DOTALL
)
"""How `TraceFile` begins: its sequence, two numbers as uuid, then a snapshot of clocks. Perfetto's own traces
tell the user before the sequence."""

_TIME = 0x123456789ABCDEF
"""Stands for the time in a pattern: a varint of nine bytes that nothing else is made of."""

_VALUE = -1.2345678901234567e-300
"""Stands for the value in a pattern."""

Arg = str | int | float | bool


class TraceFile:
    """
    A trace that is written to *file*; raises `UsageError` where the `perfetto` package is missing or too old.

    *began_ns*: when it begins. *identity*: 16 bytes that are the same for what is the same.
    """

    def __init__(self, file: BinaryIO, *, began_ns: int, identity: bytes) -> None:
        self._pb = _protobuf()
        self._file = file
        self._tracks = 0
        self._flows = 0
        self._texts: dict[tuple[str, str], int] = {}
        self.slices = 0
        """Slices that were written."""
        self.values = 0
        """Values of counters that were written."""
        self._write(head(identity))
        packet = self._packet()
        packet.sequence_flags = STATE_CLEARED
        packet.clock_snapshot.primary_trace_clock = BOOTTIME
        for clock in (BOOTTIME, REALTIME):
            packet.clock_snapshot.clocks.add(clock_id=clock, timestamp=began_ns)
        self._put(packet)

    def full(self, more: int = 0) -> bool:
        """Whether there are, with so many *more*, as many slices as may be."""
        return self.slices + more > MOST_SLICES

    def track(
        self, name: str, parent: int = 0, *, about: str = "", unit: str | None = None, in_order: bool = False
    ) -> int:
        """
        A new track below *parent* (0: at the top); its number. A counter's has a *unit*.

        Tracks below one that is *in_order* stand as they were made, not by their names.
        """
        self._tracks += 1
        packet = self._packet()
        track = packet.track_descriptor
        track.uuid = self._tracks
        if parent:
            track.parent_uuid = parent
        track.name = short(name, MAX_NAME)
        if about:
            track.description = short(about, MAX_TEXT)
        track.sibling_order_rank = self._tracks
        # Two tracks of one name are two: the UI would draw them as one.
        track.sibling_merge_behavior = track.SIBLING_MERGE_BEHAVIOR_NONE
        if in_order:
            track.child_ordering = track.EXPLICIT
        if unit is not None:
            track.counter.unit_name = unit
            track.counter.y_axis_share_key = unit
        self._put(packet)
        return self._tracks

    def flow(self) -> int:
        """The number of a new arrow."""
        self._flows += 1
        return self._flows

    def begin(
        self,
        track: int,
        at_ns: int,
        name: str,
        category: str = "",
        *,
        args: Mapping[str, Arg | None] | None = None,
        flows: Sequence[int] = (),
    ) -> None:
        """A slice begins on *track*, within the one begun there last. *args* that are None are left out."""
        packet = self._packet()
        event = packet.track_event
        event.type = event.TYPE_SLICE_BEGIN
        self._describe(packet, track, at_ns, name, category, args, flows)
        self.slices += 1

    def end(self, track: int, at_ns: int) -> None:
        """The slice on *track* that began last ends."""
        packet = self._packet()
        packet.timestamp = max(0, at_ns)
        packet.track_event.type = packet.track_event.TYPE_SLICE_END
        packet.track_event.track_uuid = track
        self._put(packet)

    def slice(
        self,
        track: int,
        start_ns: int,
        end_ns: int,
        name: str,
        category: str = "",
        *,
        args: Mapping[str, Arg | None] | None = None,
        flows: Sequence[int] = (),
    ) -> None:
        """A slice with nothing in it."""
        self.begin(track, start_ns, name, category, args=args, flows=flows)
        self.end(track, max(start_ns, end_ns))

    def within_each_other(
        self,
        track: int,
        start_ns: IntArray,
        end_ns: IntArray,
        describe: Callable[[int], Mapping[str, Any]],
    ) -> None:
        """
        Slices that lie within each other, [start, end) ordered by start, of two the longer one first.

        One that ends later than what it began in ends with that. *describe* gives the rest of slice i by the
        names that `begin` has for it.
        """
        open_until: list[int] = []
        for i, (start, end) in enumerate(zip(start_ns.tolist(), end_ns.tolist(), strict=True)):
            while open_until and open_until[-1] <= start:
                self.end(track, open_until.pop())
            self.begin(track, start, **describe(i))
            open_until.append(min(max(start, end), open_until[-1]) if open_until else max(start, end))
        while open_until:
            self.end(track, open_until.pop())

    def instant(
        self,
        track: int,
        at_ns: int,
        name: str,
        category: str = "",
        *,
        args: Mapping[str, Arg | None] | None = None,
    ) -> None:
        """Something that takes no time."""
        packet = self._packet()
        packet.track_event.type = packet.track_event.TYPE_INSTANT
        self._describe(packet, track, at_ns, name, category, args, ())
        self.slices += 1

    def many_slices(
        self, track: int, start_ns: IntArray, end_ns: IntArray, name: str, category: str = ""
    ) -> None:
        """Slices of one name, [start, end) each, none of which begins before the one before it ends."""
        packet = self._packet()
        event = packet.track_event
        event.type = event.TYPE_SLICE_BEGIN
        event.track_uuid = track
        self._name(packet, name, category)
        if packet.HasField("interned_data"):  # said once, not in each of them
            self._only_texts(packet)
        packet.timestamp = _TIME
        begin = self._framed(packet)
        packet = self._packet()
        packet.timestamp = _TIME
        packet.track_event.type = event.TYPE_SLICE_END
        packet.track_event.track_uuid = track
        pattern = begin + self._framed(packet)
        places = _found(pattern, _varint(np.array([_TIME]))[0].tobytes(), 2)
        for rows in _chunks(len(start_ns)):
            block = np.tile(np.frombuffer(pattern, np.uint8), (len(start_ns[rows]), 1))
            for place, times in zip(places, (start_ns[rows], end_ns[rows]), strict=True):
                block[:, place : place + 9] = _varint(times)
            self._write(block.tobytes())
        self.slices += len(start_ns)

    def counter(self, track: int, at_ns: IntArray, values: FloatArray) -> None:
        """From each of *at_ns* (n,) on, in order, the counter on *track* has the next of *values* (n,)."""
        packet = self._packet()
        packet.timestamp = _TIME
        event = packet.track_event
        event.type = event.TYPE_COUNTER
        event.track_uuid = track
        event.double_counter_value = _VALUE
        pattern = self._framed(packet)
        (time,) = _found(pattern, _varint(np.array([_TIME]))[0].tobytes(), 1)
        (value,) = _found(pattern, np.array([_VALUE], "<f8").tobytes(), 1)
        for rows in _chunks(len(at_ns)):
            block = np.tile(np.frombuffer(pattern, np.uint8), (len(at_ns[rows]), 1))
            block[:, time : time + 9] = _varint(at_ns[rows])
            block[:, value : value + 8] = values[rows].astype("<f8").view(np.uint8).reshape(-1, 8)
            self._write(block.tobytes())
        self.values += len(at_ns)

    def _describe(
        self,
        packet: Any,
        track: int,
        at_ns: int,
        name: str,
        category: str,
        args: Mapping[str, Arg | None] | None,
        flows: Sequence[int],
    ) -> None:
        event = packet.track_event
        packet.timestamp = max(0, at_ns)  # stacks are moved by an offset, and may be anyone's
        event.track_uuid = track
        event.flow_ids.extend(flows)
        self._name(packet, name, category)
        for key, value in (args or {}).items():
            if value is None:
                continue
            note = event.debug_annotations.add()
            note.name_iid = self._number(packet, "debug_annotation_names", key)
            if isinstance(value, bool):
                note.bool_value = value
            elif isinstance(value, int):
                note.int_value = value
            elif isinstance(value, float):
                note.double_value = value
            else:
                text = short(value, MAX_TEXT)
                number = self._number(packet, "debug_annotation_string_values", text)
                if number:
                    note.string_value_iid = number
                else:
                    note.string_value = text
        self._put(packet)

    def _name(self, packet: Any, name: str, category: str) -> None:
        event = packet.track_event
        text = short(name, MAX_NAME) or "(no name)"
        number = self._number(packet, "event_names", text)
        if number:
            event.name_iid = number
        else:
            event.name = text
        if category:
            event.category_iids.append(self._number(packet, "event_categories", category))

    def _number(self, packet: Any, field: str, text: str) -> int:
        """The number of *text*, said in *packet* if it is new; 0 if there are too many texts already."""
        number = self._texts.get((field, text))
        if number is not None:
            return number
        # Categories and names of arguments are ours, and few.
        if len(self._texts) >= MAX_TEXTS and field not in ("event_categories", "debug_annotation_names"):
            return 0
        number = len(self._texts) + 1
        self._texts[field, text] = number
        said: Any = text.encode() if field == "debug_annotation_string_values" else text
        kind = "str" if field == "debug_annotation_string_values" else "name"
        getattr(packet.interned_data, field).add(iid=number, **{kind: said})
        return number

    def _only_texts(self, packet: Any) -> None:
        """Write the texts that *packet* says in one of their own, and take them out of it."""
        texts = self._packet()
        texts.interned_data.CopyFrom(packet.interned_data)
        self._put(texts)
        packet.ClearField("interned_data")

    def _packet(self) -> Any:
        return self._pb.TracePacket(trusted_packet_sequence_id=SEQUENCE, sequence_flags=NEEDS_STATE)

    def _framed(self, packet: Any) -> bytes:
        framed: bytes = self._pb.Trace(packet=[packet]).SerializeToString()
        return framed

    def _put(self, packet: Any) -> None:
        self._write(self._framed(packet))

    def _write(self, data: bytes) -> None:
        self._file.write(data)


def head(identity: bytes) -> bytes:
    """The first bytes of a trace with these 16 bytes of *identity*: by them it is known again."""
    high, low = (int.from_bytes(identity[k : k + 8], "big") >> 1 for k in (0, 8))
    pb = _protobuf()
    packet = pb.TracePacket(trusted_packet_sequence_id=SEQUENCE)
    packet.trace_uuid.msb, packet.trace_uuid.lsb = high, low
    framed: bytes = pb.Trace(packet=[packet]).SerializeToString()
    return framed


def begins_as_trace(head: bytes) -> bool:
    """Whether a file that begins with *head* is a `TraceFile` of some recording; needs no package."""
    return _HEAD.match(head) is not None


def demand_package() -> None:
    """Raise `UsageError` where the `perfetto` package is missing or too old."""
    _protobuf()


def short(text: str, most: int) -> str:
    """*text* on one line, without control characters, *most* characters long at most."""
    text = printable(text[: 4 * most])
    return text if len(text) <= most else f"{text[: most - 1]}…"


def disjoint(start_ns: IntArray, end_ns: IntArray) -> tuple[IntArray, IntArray]:
    """Intervals ordered by start, each cut so that it begins when all before it are over."""
    reached = np.append(np.int64(0), np.maximum.accumulate(np.maximum(start_ns, end_ns))[:-1])
    start_ns = np.maximum(start_ns, reached)
    return start_ns, np.maximum(start_ns, end_ns)


def _protobuf() -> Any:
    try:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2
    except ImportError as error:
        why = f"the package {error.name} is not installed" if error.name else str(error)
        raise UsageError(MISSING_PACKAGE.format(why=short(why, MAX_NAME))) from error
    except Exception as error:  # protobuf has its own exception for being too old, and no common base
        why = f"the package protobuf is too old for it ({short(str(error), 120)})"
        raise UsageError(MISSING_PACKAGE.format(why=why)) from error
    return perfetto_trace_pb2


def _varint(times: IntArray) -> NDArray[np.uint8]:
    """*times* (n,), not negative, as varints of nine bytes each: uint8 of shape (n, 9)."""
    shifts = np.arange(0, 63, 7, dtype=np.int64)
    parts = (np.maximum(times, 0)[:, None] >> shifts) & 0x7F
    parts[:, :-1] |= 0x80
    return parts.astype(np.uint8)


def _found(pattern: bytes, part: bytes, times: int) -> list[int]:
    """Where *part* lies in *pattern*, which has it so many *times*."""
    places = [i for i in range(len(pattern)) if pattern.startswith(part, i)]
    if len(places) != times:
        raise ValueError("a pattern of packets is not as it should be")
    return places


def _chunks(rows: int) -> list[slice]:
    return [slice(first, min(rows, first + CHUNK)) for first in range(0, rows, CHUNK)]
