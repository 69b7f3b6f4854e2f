"""
Makes a large recording out of real ones: five minutes, a sample each millisecond, eight GPUs.

    python benchmarks/report/large.py OUT [--minutes 5] [--gpus 8]

No machine is needed, and the same is written each time. Every GPU gets another recording of
`tests/recordings` over and over, in windows that are all but continuous:

- **PM samples of 2 ms play at twice their speed**: times and totals are halved, levels and so all rates stay
  what was measured. Steps last half as long. No sample is made up, and none is there twice in a row.
- **GPM, board and host** keep their pace.
- **Bursts** of a GPU come once a minute, as they were taken; meanwhile there are no other PM samples.
- **A look** and what was sampled beside it come once, at a third of the time, on the first GPU.
- **Stacks of the host** are laid over the windows that they were taken in, the first time these are played.
- **A gap** of two seconds, on the last GPU, at two thirds of the time.

What a report takes to make and how large it gets is measured with this.
"""

from __future__ import annotations

import argparse
import gzip
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))

from perfzero.counters import BY_NAME  # noqa: E402 (needs the path above)
from perfzero.errors import NoRecording, PerfzeroError  # noqa: E402
from perfzero.stacks import GilUse, HostStacks, ProcessStacks  # noqa: E402
from perfzero.store.reader import Recording, disturbed_by, open_recording  # noqa: E402
from perfzero.store.stacks import read_stacks, write_stacks  # noqa: E402
from perfzero.store.writer import RecordingWriter  # noqa: E402
from perfzero.values import Cost, Gap, Gpu, IntArray, Look, Samples, Window  # noqa: E402

RECORDINGS = ROOT / "tests" / "recordings"

SOURCES = (
    "_looks/adversaries",  # the first GPU: the look, the stacks and the host are this one's
    "input_starved_resnet50",
    "resnet50_nchw",
    "fp64_accident",
    "launch_blocking",
    "tiny_kernels",
    "cpu_quota",
    "transformer_healthy",
)
"""One for each GPU, over and over where there are more."""

PERIOD_NS = 1_000_000
FIRST_NS = 2_000_000_000
"""When PM sampling begins, as it does under `perfzero run`."""

BATCH_ROWS = 1_000
"""A second: the recorder writes as often."""

ZOOM_EVERY_NS = 60_000_000_000
GAP_NS = 2_000_000_000
ROOM_NS = 50_000_000
"""Between PM samples and a burst: the session is closed and opened."""

TURN = 617
"""
Each time a recording is played it begins so many samples later than the time before, and what was left out
follows at its end: else the longest and surest rhythm of all would be that of being played again.
"""

UUID = "GPU-00000000-0000-0000-0000-{index:012d}"


@dataclass(frozen=True, slots=True)
class Played:
    """
    PM samples of a recording, one after the other without a pause, from 0 on.

    Row i of `windows`: the times in the recording [start, end), and when that begins here, in ns; `factor` is
    how much shorter all is. `lost`: samples that should have come and did not.
    """

    samples: Samples
    windows: tuple[tuple[int, int, int], ...]
    factor: float
    lost: int

    @property
    def length_ns(self) -> int:
        return int(self.samples.end_ns[-1])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="a new folder")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--force", action="store_true", help="replace a recording that is in OUT")
    args = parser.parse_args(arguments)
    if not 0.5 <= args.minutes <= 60 or not 1 <= args.gpus <= 64:
        parser.error("half a minute to an hour, and 1 to 64 GPUs")
    began = time.monotonic()
    try:
        rows = make(args.out, minutes=args.minutes, gpus=args.gpus, force=args.force)
    except PerfzeroError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    size = sum(file.stat().st_size for file in args.out.iterdir())
    print(
        f"{args.out}: {args.gpus} GPUs, {args.minutes:g} minutes, {rows:,} samples, "
        f"{size / 1e6:.1f} MB, made in {time.monotonic() - began:.1f} s"
    )
    return 0


def make(out: Path, *, minutes: float = 5.0, gpus: int = 8, force: bool = False) -> int:
    """Write the recording into the folder *out*; how many samples it has."""
    sources = [open_recording(RECORDINGS / SOURCES[i % len(SOURCES)]) for i in range(gpus)]
    first = sources[0]
    start_ns = first.manifest.created_ns
    end_ns = start_ns + round(minutes * 60e9)
    rows = 0
    with RecordingWriter(
        out,
        gpus=[_gpu(source, index) for index, source in enumerate(sources)],
        process=first.manifest.process,
        settings={"period_ns": PERIOD_NS, "continuous": True, "made_of": list(SOURCES[:gpus])},
        tiers=dict.fromkeys(range(gpus), "pm"),
        tier_reasons=dict.fromkeys(range(gpus), "made of other recordings"),
        force=force,
    ) as writer:
        for index, source in enumerate(sources):
            rows += _write_gpu(writer, source, index, start_ns, end_ns, last=index == gpus - 1)
        rows += _write(writer, "host", None, _over_and_over(first, "host", start_ns, end_ns))
        writer.update(
            created_ns=start_ns,
            ended_ns=end_ns,
            host=dict(first.manifest.host),
            cost=_cost(first, minutes * 60, gpus),
        )
    return rows


def _write_gpu(
    writer: RecordingWriter, source: Recording, index: int, start_ns: int, end_ns: int, *, last: bool
) -> int:
    rows = 0
    played = _played(source)
    pauses = list(_bursts(source, start_ns, end_ns))
    if index == 0:
        look = source.looks[0]
        at_ns = start_ns + (end_ns - start_ns) // 3
        pauses.append(_look(writer, source, look, at_ns))
        _stacks(writer.path, source, played, start_ns + FIRST_NS)
    for window, samples in sorted(pauses, key=lambda p: p[0].start_ns):
        writer.window(replace(window, gpu=index))
        rows += _write(writer, "zoom", index, samples)
    holes = [(w.start_ns - ROOM_NS, w.end_ns + ROOM_NS) for w, _ in pauses]
    if index == 0:
        holes.append((at_ns - ROOM_NS, at_ns + look.end_ns - look.start_ns + ROOM_NS))
    if last:
        gap_ns = start_ns + 2 * (end_ns - start_ns) // 3
        holes.append((gap_ns, gap_ns + GAP_NS))
        writer.gap(Gap(index, "cupti", gap_ns, gap_ns + GAP_NS, "another tool holds the counters"))
    for begin_ns, stop_ns in _between(holes, start_ns + FIRST_NS, end_ns):
        samples, lost = _filled(played, begin_ns, stop_ns)
        rows += _write(writer, "pm", index, samples)
        writer.window(Window(index, "continuous", begin_ns, stop_ns, PERIOD_NS, len(samples), lost))
    for stream in ("gpm", "board"):
        rows += _write(writer, stream, index, _over_and_over(source, stream, start_ns, end_ns))
    return rows


def _played(source: Recording) -> Played:
    """The windows of *source*, with what was seen while its program was looked into left out."""
    gpu = source.gpus[0].index
    seen = source.observation(gpu)
    windows = [w for w in seen.windows if w.kind != "zoom"]
    period_ns = windows[0].period_ns
    factor = PERIOD_NS / period_ns
    parts, placed, at_ns, lost = [], [], 0, 0
    for window in windows:
        half_ns = window.period_ns // 2  # windows may touch, and a sample belongs to one
        began_ns = seen.pm.start_ns
        part = seen.pm.where((began_ns >= window.start_ns - half_ns) & (began_ns < window.end_ns - half_ns))
        if window.period_ns != period_ns or not len(part):
            continue
        begin_ns, end_ns = int(part.start_ns[0]), int(part.end_ns[-1])
        parts.append(_faster(part, begin_ns, at_ns, factor))
        placed.append((begin_ns, end_ns, at_ns))
        at_ns = int(parts[-1].end_ns[-1])
        lost += window.lost
    return Played(Samples.concat(parts), tuple(placed), factor, lost)


def _faster(samples: Samples, begin_ns: int, at_ns: int, factor: float) -> Samples:
    """*samples* from *at_ns* on, each so many times as long as before."""

    def placed(time_ns: IntArray) -> IntArray:
        return at_ns + np.rint((time_ns - begin_ns) * factor).astype(np.int64)

    columns = {
        name: values * factor if BY_NAME[name].kind == "total" else values
        for name, values in samples.columns.items()
    }
    return Samples(placed(samples.start_ns), placed(samples.end_ns), columns)


def _filled(played: Played, begin_ns: int, stop_ns: int) -> tuple[Samples, int]:
    """*played* over and over in [begin_ns, stop_ns), and how many samples were lost meanwhile."""
    rounds = -(-(stop_ns - begin_ns) // played.length_ns)
    parts = []
    for k in range(rounds):
        at = k * TURN % len(played.samples)
        turned_ns = int(played.samples.start_ns[at])
        base_ns = begin_ns + k * played.length_ns - turned_ns
        parts += [
            _moved(_rows(played.samples, slice(at, None)), base_ns),
            _moved(_rows(played.samples, slice(0, at)), base_ns + played.length_ns),
        ]
    return Samples.concat(parts).between(begin_ns, stop_ns), played.lost * (rounds - 1)


def _rows(samples: Samples, rows: slice) -> Samples:
    columns = {name: values[rows] for name, values in samples.columns.items()}
    return Samples(samples.start_ns[rows], samples.end_ns[rows], columns)


def _moved(samples: Samples, by_ns: int) -> Samples:
    return Samples(samples.start_ns + by_ns, samples.end_ns + by_ns, samples.columns)


def _over_and_over(source: Recording, stream: str, start_ns: int, end_ns: int) -> Samples:
    """What runs all the time, from the first to the last PM sample of *source*, over and over."""
    gpu = source.gpus[0].index
    seen = source.observation(gpu)
    table = {"gpm": seen.gpm, "board": seen.board, "host": seen.host}[stream]
    inside = table.between(int(seen.pm.start_ns[0]) - 10**9, int(seen.pm.end_ns[-1]) + 10**9)
    table = inside if len(inside) else table
    begin_ns, length_ns = int(table.start_ns[0]), int(table.end_ns[-1] - table.start_ns[0])
    rounds = -(-(end_ns - start_ns) // length_ns)
    parts = [_moved(table, start_ns - begin_ns + k * length_ns) for k in range(rounds)]
    return Samples.concat(parts).between(start_ns, end_ns)


def _bursts(source: Recording, start_ns: int, end_ns: int) -> Iterator[tuple[Window, Samples]]:
    """The first burst of *source* once a minute, from the fifteenth second on."""
    gpu = source.gpus[0].index
    seen = source.observation(gpu)
    window = next((w for w in seen.windows if w.kind == "zoom"), None)
    if window is None or not len(seen.zoom):
        return
    samples = seen.zoom.between(window.start_ns - window.period_ns, window.end_ns + window.period_ns)
    for at_ns in range(start_ns + 15 * 10**9, end_ns - 10 * 10**9, ZOOM_EVERY_NS):
        by_ns = at_ns - window.start_ns
        moved = replace(window, start_ns=at_ns, end_ns=window.end_ns + by_ns)
        yield moved, _moved(samples, by_ns)


def _look(writer: RecordingWriter, source: Recording, look: Look, at_ns: int) -> tuple[Window, Samples]:
    """Copy *look* so that it begins at *at_ns*; its window, and what was seen in that."""
    by_ns = at_ns - look.start_ns
    gpu = source.gpus[0].index
    begin_ns, stop_ns = disturbed_by(look, source.windows(gpu))
    window = next(w for w in source.windows(gpu) if w.kind == "zoom" and begin_ns <= w.start_ns < stop_ns)
    # A slim look begins with its base, from which all its times count.
    trace = gzip.decompress((source.path / look.file).read_bytes())
    moved = re.sub(
        rb'"baseTimeNanoseconds":(\d+)',
        lambda found: b'"baseTimeNanoseconds":%d' % (int(found[1]) + by_ns),
        trace,
        count=1,
    )
    (writer.path / look.file).write_bytes(gzip.compress(moved, 6, mtime=0))
    writer.look(
        replace(
            look,
            start_ns=at_ns,
            end_ns=look.end_ns + by_ns,
            steps_ns=tuple(t + by_ns for t in look.steps_ns),
            gpus=(0,),
        )
    )
    shifted = replace(window, start_ns=window.start_ns + by_ns, end_ns=window.end_ns + by_ns)
    return shifted, _moved(source.samples("zoom", gpu).between(begin_ns, stop_ns), by_ns)


def _stacks(folder: Path, source: Recording, played: Played, at_ns: int) -> None:
    """Lay what the host was seen to do over the windows of *source*, as they are played from *at_ns* on."""
    try:
        stacks = read_stacks(source.path)
    except NoRecording:
        return
    (folder / "stacks.json.gz").unlink(missing_ok=True)
    gil = stacks.gil
    write_stacks(
        folder,
        HostStacks(
            tuple(_laid(p, played, at_ns) for p in stacks.processes),
            stacks.lines,
            stacks.doubts,
            None if gil is None else _laid_gil(gil, played, at_ns),
        ),
    )


def _laid(process: ProcessStacks, played: Played, at_ns: int) -> ProcessStacks:
    rows, time_ns = _laid_times(process.time_ns, played, at_ns)
    return replace(
        process,
        start_ns=at_ns,
        end_ns=at_ns + played.length_ns,
        rate_hz=process.rate_hz / played.factor,
        slack_ns=round(process.slack_ns * played.factor),
        time_ns=time_ns,
        thread=process.thread[rows],
        stack=process.stack[rows],
    )


def _laid_gil(gil: GilUse, played: Played, at_ns: int) -> GilUse:
    rows, time_ns = _laid_times(gil.time_ns, played, at_ns)
    return GilUse(
        time_ns,
        gil.waits[rows],
        gil.rate_hz / played.factor,
        None if gil.holders is None else _laid(gil.holders, played, at_ns),
    )


def _laid_times(time_ns: IntArray, played: Played, at_ns: int) -> tuple[IntArray, IntArray]:
    """Which of *time_ns* lie in a window, and when they are here."""
    rows, times = [], []
    for begin_ns, stop_ns, place_ns in played.windows:
        inside = np.flatnonzero((time_ns >= begin_ns) & (time_ns < stop_ns))
        rows.append(inside)
        times.append(at_ns + place_ns + ((time_ns[inside] - begin_ns) * played.factor).astype(np.int64))
    return np.concatenate(rows), np.concatenate(times)


def _between(holes: Sequence[tuple[int, int]], start_ns: int, end_ns: int) -> Iterator[tuple[int, int]]:
    """What [start_ns, end_ns) has beside the *holes*."""
    at_ns = start_ns
    for begin_ns, stop_ns in sorted(holes):
        if begin_ns > at_ns:
            yield at_ns, begin_ns
        at_ns = max(at_ns, stop_ns)
    if end_ns > at_ns:
        yield at_ns, end_ns


def _write(writer: RecordingWriter, stream: str, gpu: int | None, samples: Samples) -> int:
    for first in range(0, len(samples), BATCH_ROWS):
        writer.append(stream, gpu, _rows(samples, slice(first, first + BATCH_ROWS)))
    return len(samples)


def _gpu(source: Recording, index: int) -> Gpu:
    return replace(source.gpus[0], index=index, uuid=UUID.format(index=index))


def _cost(source: Recording, wall_s: float, gpus: int) -> Cost | None:
    """What watching *source* cost, over so much time and so many GPUs."""
    cost = source.manifest.cost
    if cost is None:
        return None
    times = wall_s / cost.wall_s
    return Cost(
        wall_s=wall_s,
        recorder_cpu_s=cost.recorder_cpu_s * times,
        sampler_cpu_s=cost.sampler_cpu_s * times * gpus,
        pm_duty=1.0,
        sessions=gpus,
        slowdown_note="the recording is made of others",
    )


if __name__ == "__main__":
    sys.exit(main())
