"""
One stream of samples as one file that grows: an Arrow IPC stream of whole batches.

Each table becomes one record batch and one `write`, so a reader, or a killed recorder, never
leaves more than the last batch unfinished; a write that fails (a full disk) is taken back.
Nothing is kept in memory: rows that come one at a time cost about 1.5 KB each on disk, so a
slow source is better appended a second's worth at a time.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from perfzero.counters import BY_NAME
from perfzero.store.schema import FORMAT, MAX_BATCH_ROWS, STEPS, stream_name
from perfzero.values import IntArray, Samples

LIVE_LEVEL = 1  # zstd: the recorder shares the machine with the observed program
SMALL_LEVEL = 19  # zstd: for recordings that are kept or sent


class StreamFile:
    """A stream being written: a file that must not exist yet, with a fixed set of columns."""

    def __init__(
        self, path: Path, *, names: Iterable[str], stream: str, gpu: int | None, level: int = LIVE_LEVEL
    ) -> None:
        self.names = tuple(names)
        self._encoder = _Encoder(self.names, stream=stream, gpu=gpu, level=level)
        self._size = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        self._fd: int | None = os.open(path, flags, 0o666)

    def holds(self, names: Iterable[str]) -> bool:
        """Whether the file has a column for each of *names*."""
        return set(names).issubset(self.names)

    def append(self, samples: Samples) -> None:
        """Add *samples*, columns they lack as NaN. Raises OSError and leaves the file as it was."""
        self._write(b"".join(map(self._encoder.batch, _readable_batches(samples))))

    def close(self) -> None:
        """Write the end mark and give the file back; harmless when called twice. Raises OSError."""
        if self._fd is None:
            return
        try:
            self._write(self._encoder.end())
            os.fsync(self._fd)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Give the file back as it is."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _write(self, data: bytes) -> None:
        if self._fd is None:
            raise OSError("the stream is closed")
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError:
            os.ftruncate(self._fd, self._size)
            os.lseek(self._fd, self._size, os.SEEK_SET)
            raise
        self._size += len(data)


def encode_stream(samples: Samples, *, stream: str, gpu: int | None, level: int = SMALL_LEVEL) -> bytes:
    """A whole stream file with all *samples* in as few batches as the reader allows."""
    encoder = _Encoder(tuple(samples.columns), stream=stream, gpu=gpu, level=level)
    return b"".join([*map(encoder.batch, _readable_batches(samples)), encoder.end()])


class _Encoder:
    """Turns tables into the bytes to append to a stream file."""

    def __init__(self, names: Sequence[str], *, stream: str, gpu: int | None, level: int) -> None:
        unknown = [n for n in names if n not in BY_NAME]
        if unknown:
            raise ValueError(
                f"no such counter: {', '.join(unknown)} (they are declared in perfzero.counters)"
            )
        self._names = tuple(names)
        self._schema = pa.schema(
            [*((n, pa.int64()) for n in STEPS), *((n, pa.float32()) for n in self._names)],
            metadata={"perfzero.format": str(FORMAT), "perfzero.stream": stream_name(stream, gpu)},
        )
        self._sink = io.BytesIO()
        # use_threads: Arrow's thread pool would run beside the observed program.
        options = pa.ipc.IpcWriteOptions(
            compression=pa.Codec("zstd", compression_level=level), use_threads=False
        )
        self._writer = pa.ipc.new_stream(self._sink, self._schema, options=options)

    def batch(self, samples: Samples) -> bytes:
        with np.errstate(over="ignore"):  # beyond float32 is infinite, which the reader takes as missing
            values = [samples.column(n).astype(np.float32) for n in self._names]
        times = _steps(samples)
        # From buffers: pa.array would import pandas, where it is installed, to ask whether this is one.
        arrays = [
            pa.Array.from_buffers(field.type, len(samples), [None, pa.py_buffer(np.ascontiguousarray(a))])
            for field, a in zip(self._schema, (*times, *values), strict=True)
        ]
        self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))
        return self._drain()

    def end(self) -> bytes:
        self._writer.close()
        return self._drain()

    def _drain(self) -> bytes:
        data = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return data


def _readable_batches(samples: Samples) -> Iterator[Samples]:
    """*samples* in pieces that the reader does not refuse for their size; almost always one."""
    for first in range(0, len(samples), MAX_BATCH_ROWS):
        rows = slice(first, first + MAX_BATCH_ROWS)
        columns = {k: v[rows] for k, v in samples.columns.items()}
        yield Samples(samples.start_ns[rows], samples.end_ns[rows], columns)


def _steps(samples: Samples) -> tuple[IntArray, IntArray]:
    """The times of *samples* as `STEPS`."""
    start, end = (np.asarray(times, dtype=np.int64) for times in (samples.start_ns, samples.end_ns))
    before = np.concatenate([np.zeros(1, np.int64), end[:-1]])[: len(start)]
    return start - before, end - start
