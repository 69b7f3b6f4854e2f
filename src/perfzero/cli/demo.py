"""The whole pipeline on a recording of a real GPU that perfzero ships: no GPU needed."""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timezone
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfzero.cli.language import Language, lang_option, spoken
from perfzero.errors import OutputError, UsageError
from perfzero.words.said import listed, say
from perfzero.words.told import told

if TYPE_CHECKING:
    from perfzero.store.reader import Recording

DEFAULT = "input_starved_resnet50"
"""The cause met most often, and the one that nvidia-smi tells least about."""

_POLL_S = 0.02


def register(app: typer.Typer) -> None:
    """Add `perfzero demo` to *app*."""
    app.command("demo")(demo)


def demo(
    *,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Which recording to replay.")] = DEFAULT,
    list_all: Annotated[bool, typer.Option("--list", help="List the recordings there are.")] = False,
    speed: Annotated[
        float, typer.Option("--speed", metavar="X", help="How many times faster than it was; inf: at once.")
    ] = 10.0,
    output_dir: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Where the files go; by default a temporary folder."
        ),
    ] = None,
    language: Annotated[Language | None, lang_option()] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say the verdict only.")] = False,
) -> None:
    """
    Replay a recording of a real GPU through the whole pipeline: source, recording, verdict.

    The numbers were measured on the GPU named; nothing is made up, and no GPU is needed here.
    """
    shipped = shipped_recordings()
    if list_all:
        for known in shipped:
            print(known)
        return
    if not speed > 0:
        raise UsageError(say("usage.speed", speed=f"{speed:g}"))
    if name not in shipped:
        raise UsageError(
            say(
                "demo.no_recording",
                name=repr(name),
                names=listed(shipped) if shipped else say("demo.none_there"),
            )
        )

    from perfzero.report.analysis import analyze
    from perfzero.report.terminal import show
    from perfzero.store.reader import open_recording

    recording = open_recording(shipped[name])
    if not quiet:
        print(told(_introduction(name, recording, speed), spoken(language)), file=sys.stderr)
    folder = Path(tempfile.mkdtemp(prefix="perfzero-demo-")) if output_dir is None else output_dir
    rerecord(recording, folder, speed=speed, progress=None if quiet else _progress(sys.stderr.isatty()))
    report = analyze(folder, language=spoken(language))
    show(report, stream=sys.stdout, language=spoken(language))
    if report.unwritten is not None:
        raise OutputError(report.unwritten)


def shipped_recordings() -> dict[str, Path]:
    """The recordings in the package, by name."""
    root = Path(str(files("perfzero"))) / "data" / "demo"
    return {m.parent.name: m.parent for m in sorted(root.glob("*/manifest.json"))}


def rerecord(
    recording: Recording,
    folder: Path,
    *,
    speed: float = math.inf,
    progress: Callable[[float], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """
    Record *recording* once more into *folder*, each of its streams replayed as a live source.

    *progress* is called with the share of streams' samples delivered so far, 0 to 1.
    """
    from perfzero.sources.replay import Replay
    from perfzero.store.writer import RecordingWriter

    was = recording.manifest
    keys = [key for key in recording.streams if len(recording.samples(*key))]
    sources = {key: Replay(recording, *key, speed=speed, clock=clock) for key in keys}
    rows = sum(len(recording.samples(*key)) for key in keys)
    with RecordingWriter(
        folder,
        gpus=was.gpus,
        process=was.process,
        settings=was.settings,
        tiers=was.tiers,
        tier_reasons=was.tier_reasons,
    ) as writer:
        writer.update(created_ns=was.created_ns, other_pids=was.other_pids)
        for source in sources.values():
            source.open()
        delivered = 0
        while True:
            for (stream, gpu), source in sources.items():
                samples = source.read()
                if len(samples):
                    writer.append(stream, gpu, samples)
                    delivered += len(samples)
            if progress is not None:
                progress(delivered / rows if rows else 1.0)
            if all(source.exhausted for source in sources.values()):
                break
            sleep(_POLL_S)
        for window in recording.windows():
            writer.window(window)
        for gap in recording.gaps():
            writer.gap(gap)
        for note in recording.notes():
            writer.note(note)
        if was.cost is not None:
            writer.update(cost=was.cost)
        if was.ended_ns is not None:
            writer.update(ended_ns=was.ended_ns)
        writer.close(complete=recording.complete)


def _introduction(name: str, recording: Recording, speed: float) -> str:
    names = dict.fromkeys(gpu.name for gpu in recording.gpus)
    day = datetime.fromtimestamp(recording.manifest.created_ns / 1e9, timezone.utc).date()
    return say(
        "demo.introduction",
        name=name,
        gpus=listed(names) if names else say("demo.a_gpu"),
        day=day.isoformat(),
        pace=say("demo.at_once") if math.isinf(speed) else say("demo.pace", speed=f"{speed:g}"),
    )


def _progress(on_terminal: bool) -> Callable[[float], None] | None:
    """A line that counts up, on a terminal only: in a log it would be noise."""
    if not on_terminal:
        return None

    def tell(share: float) -> None:
        end = "\r" if share < 1 else "\r\033[K"
        print(f"  {share:4.0%}", end=end, file=sys.stderr, flush=True)

    return tell
