"""
What a recording is on disk: names, limits, the manifest.

    <recording>/
    ├── manifest.json          what, where, how; replaced as a whole, so always readable
    ├── events.jsonl           windows, gaps and notes, one line each, appended as they happen
    ├── <stream>-gpu<N>.arrow  one Arrow IPC stream per source and GPU: pm, zoom, gpm, board
    ├── host.arrow             the same for what belongs to no GPU
    ├── stacks.json.gz         what the host did while the GPUs were looked at closely, see `store.stacks`
    └── look-<PID>.json.gz     what the program's own profiler saw of some steps, where it was asked

Windows, gaps and notes are not in the manifest because they come while recording: rewriting
the manifest for each would cost more and more, and a line that is appended cannot lose the
ones before it when the recorder is killed. The manifest is written at the start (state
"recording") and at the end ("complete", or "incomplete" where the recorder gave up).

A stream whose set of columns grows is continued in a further segment,
`<stream>-gpu<N>.<k>.arrow`; the reader joins them. Columns are `after_ns` and `length_ns`
(int64) and canonical counter names (float32, whose relative step of 6e-8 is finer than any
counter here is accurate). `after_ns` is the time from the end of the row before to the start of
this one, nearly always 0, and in the first row of a batch the time since the epoch: so written,
times take some thirtieth of the space of absolute ones, which were a third of all samples.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from perfzero.store.decode import decode
from perfzero.values import Cost, Gpu, Process, Tier, jsonable
from perfzero.words.said import say

# History of the format. Readers refuse what is newer than themselves, and read what is older.
# 1 - (0.1) first version, with times as TIMES
# 2 - (0.1) times as STEPS
FORMAT = 2

MANIFEST = "manifest.json"
EVENTS = "events.jsonl"
STACKS = "stacks.json.gz"

STREAMS = ("pm", "zoom", "gpm", "board", "host")
RENAMED = {("gpm", "fma_active"): "fp32_active"}
"""What early recordings called otherwise, by stream and column: GPM tells FP32 arithmetic only."""

TIMES = ("start_ns", "end_ns")
"""The first two columns of every stream of format 1."""

STEPS = ("after_ns", "length_ns")
"""Those of every later one: since the end of the row before (of none: since the epoch), and how long."""

# A recording may come from anyone. The limits are far above what perfzero writes, and low
# enough that reading cannot exhaust a machine.
MAX_MANIFEST_BYTES = 16 << 20  # Linux caps a command line at 2 MiB; JSON may escape it sixfold
MAX_EVENTS_BYTES = 256 << 20  # a window every second for a week is 120 MB
MAX_GPUS = 256  # 16 GPUs in 7 MIG slices each are 112
MAX_COLUMNS = 256  # the vocabulary has some fifty counters
MAX_METADATA_BYTES = 1 << 20  # an Arrow message describing MAX_COLUMNS columns takes 20 KB
MAX_BATCH_ROWS = 1_000_000  # a zoom burst has some 10,000 rows; longer tables are written in several
MAX_BODY_BYTES = 1 << 30  # a batch of MAX_BATCH_ROWS with the whole vocabulary in float32 takes 200 MB
MAX_LOOKS = 256  # each process is looked into once, and a node has 16 that use a GPU
MAX_CELLS = 400_000_000  # values held in memory at once: 3.2 GB as float64

State = Literal["recording", "complete", "incomplete"]

_LOOK_NAME = re.compile(r"look-[1-9]\d{0,9}\.json\.gz")
_FILE_NAME = re.compile(r"(?P<stream>[a-z]+)(-gpu(?P<gpu>\d{1,4}))?(\.(?P<segment>[1-9]\d{0,2}))?\.arrow")


@dataclass(frozen=True, slots=True)
class Manifest:
    """
    What was recorded, where and how.

    `created_ns`, `ended_ns`: Unix ns; `ended_ns` is None while recording and after a kill.
    `tiers`, `tier_reasons`, `other_pids` are keyed by GPU index. `settings` is what the recorder
    was asked to do and `host` where it ran, both free JSON. `lost` names streams that could not be
    written to the end, with the reason. `trimmed` says what `perfzero trim` took away, if it did.
    """

    format: int
    perfzero: str
    state: State
    created_ns: int
    gpus: tuple[Gpu, ...]
    ended_ns: int | None = None
    process: Process = field(default_factory=Process)
    tiers: Mapping[int, Tier] = field(default_factory=dict)
    tier_reasons: Mapping[int, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    host: Mapping[str, Any] = field(default_factory=dict)
    cost: Cost | None = None
    other_pids: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    lost: Mapping[str, str] = field(default_factory=dict)
    trimmed: Mapping[str, Any] | None = None


def as_json(value: Any) -> dict[str, Any]:
    """A frozen value (`Manifest`, `Window`, ...) as a mapping ready for strict JSON, nested values too."""
    return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}


def manifest_from_json(value: object) -> Manifest:
    """The manifest that *value* (parsed JSON) describes; raises ValueError that names the field at fault."""
    manifest = decode(Manifest, value, where="manifest")
    indices = [gpu.index for gpu in manifest.gpus]
    if len(indices) > MAX_GPUS:
        raise ValueError(say("file.many_gpus", count=len(indices), most=MAX_GPUS))
    if len(set(indices)) != len(indices):
        raise ValueError(say("file.same_index"))
    return manifest


def manifest_bytes(manifest: Manifest) -> bytes:
    """What stands in the manifest's file."""
    return (json.dumps(as_json(manifest), indent=1, allow_nan=False) + "\n").encode()


def event_line(event: str, value: Any) -> bytes:
    """The line of the events' file for a `Window`, `Gap`, `Look` or `Note`; *event* is its name there."""
    return (json.dumps({"event": event, **as_json(value)}, allow_nan=False) + "\n").encode()


def stream_name(stream: str, gpu: int | None) -> str:
    """The name of a stream without segment and suffix, e.g. "pm-gpu0" or "host"."""
    return stream if gpu is None else f"{stream}-gpu{gpu}"


def file_name(stream: str, gpu: int | None, *, segment: int = 0) -> str:
    """The name of the file that holds one segment of a stream, e.g. "pm-gpu0.1.arrow"."""
    part = f".{segment}" if segment else ""
    return f"{stream_name(stream, gpu)}{part}.arrow"


def look_name(pid: int) -> str:
    """The name of the file that holds a look inside the process *pid*."""
    return f"look-{pid}.json.gz"


def is_ours(name: str) -> bool:
    """Whether a file called *name* belongs to a recording."""
    if name in (MANIFEST, EVENTS, STACKS) or _LOOK_NAME.fullmatch(name):
        return True
    return parse_file_name(name) is not None


def parse_file_name(name: str) -> tuple[str, int | None, int] | None:
    """Stream, GPU and segment of a file called *name*; None if no stream is ever called so."""
    found = _FILE_NAME.fullmatch(name)
    if found is None or found["stream"] not in STREAMS:
        return None
    gpu = None if found["gpu"] is None else int(found["gpu"])
    segment = int(found["segment"] or 0)
    # One stream has one name: "pm-gpu007.arrow" must not pass for "pm-gpu7.arrow".
    if file_name(found["stream"], gpu, segment=segment) != name:
        return None
    return found["stream"], gpu, segment


def _plain(value: Any) -> Any:
    if hasattr(value, "__dataclass_fields__"):
        return as_json(value)
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    return jsonable(value)
