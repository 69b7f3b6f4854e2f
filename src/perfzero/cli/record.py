"""Record a program or a GPU, from outside. `perfzero run` is this, and the verdict."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfzero.cli.durations import seconds
from perfzero.errors import PerfzeroError, SourceError, UsageError

if TYPE_CHECKING:
    from perfzero.record.policy import Settings
    from perfzero.record.session import Recorder, Target

RUNS = Path("perfzero-runs")

CANNOT_RECORD = 125
"""The exit code when perfzero itself fails before the program has started, as of `env` and `timeout`."""


class SourceName(str, Enum):
    """Where samples come from."""

    AUTO = "auto"
    PM = "pm"
    GPM = "gpm"
    NVML = "nvml"


class Format(str, Enum):
    """How the verdict is written."""

    TEXT = "text"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add `perfzero record` to *app*."""
    app.command("record", context_settings={"allow_interspersed_args": False})(recording_command("record"))


def recording_command(name: str) -> Callable[..., None]:
    """The command *name* ("run" or "record"): the same options, with or without the verdict."""

    def command(
        program: Annotated[
            list[str] | None,
            typer.Argument(metavar="-- CMD...", show_default=False, help="The program to start and watch."),
        ] = None,
        *,
        pid: Annotated[
            int | None,
            typer.Option("--pid", metavar="P", help="Attach to a running process and its children."),
        ] = None,
        gpu: Annotated[
            str | None,
            typer.Option(
                "--gpu", metavar="LIST", help="GPUs by NVML index or UUID, e.g. 0,1; else the program's."
            ),
        ] = None,
        output: Annotated[
            Path | None,
            typer.Option(
                "-o", "--output", metavar="DIR", help="Folder of the recording [./perfzero-runs/...]."
            ),
        ] = None,
        force: Annotated[bool, typer.Option("--force", help="Replace an earlier recording in DIR.")] = False,
        profiling_duration: Annotated[
            str | None,
            typer.Option(
                "--profiling-duration", metavar="S", help="Stop sampling after so long; the program goes on."
            ),
        ] = None,
        profiling_interval: Annotated[
            int | None,
            typer.Option("--profiling-interval", metavar="STEPS", help="One window every so many steps."),
        ] = None,
        window: Annotated[
            str | None, typer.Option("--window", metavar="T", help="Length of a sampling window, e.g. 1s.")
        ] = None,
        every: Annotated[
            str | None, typer.Option("--every", metavar="T", help="From one window to the next, e.g. 10s.")
        ] = None,
        sample_period: Annotated[
            str | None,
            typer.Option("--sample-period", metavar="T", help="Between two samples [2ms; continuous: 1ms]."),
        ] = None,
        continuous: Annotated[
            bool, typer.Option("--continuous", help="Sample all the time instead of in windows.")
        ] = False,
        zoom: Annotated[
            str | None,
            typer.Option("--zoom", metavar="T", help="Period of the zoom burst, or 'off' [10us]."),
        ] = None,
        source: Annotated[
            SourceName, typer.Option("--source", help="Force a source instead of the best there is.")
        ] = SourceName.AUTO,
        output_format: Annotated[
            Format, typer.Option("--format", help="Text for people, or report.json.")
        ] = Format.TEXT,
        quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.")] = False,
    ) -> None:
        load_numpy()
        target = chosen_target(program or (), pid=pid, gpu=gpu)
        settings = chosen_settings(
            window=window,
            every=every,
            sample_period=sample_period,
            continuous=continuous,
            zoom=zoom,
            interval=profiling_interval,
        )
        duration_s = None
        if profiling_duration is not None:
            duration_s = seconds(profiling_duration, option="--profiling-duration", low=0.1, high=30 * 86400)

        def say(text: str) -> None:
            if not quiet:
                print(f"perfzero: {text}", file=sys.stderr, flush=True)

        try:
            from perfzero.record.session import Recorder

            recorder = Recorder(
                target,
                output=output or free_folder(RUNS, target),
                settings=settings,
                source=source.value,
                duration_s=duration_s,
                every_steps=None if window or every or continuous else profiling_interval,
                force=force,
                say=say,
            )
            recorder.start()
        except UsageError:
            raise
        except PerfzeroError as error:
            if not target.command:
                raise
            print(f"perfzero: {error}", file=sys.stderr)
            raise typer.Exit(max(error.exit_code, CANNOT_RECORD)) from None
        report = name == "run"
        finish(recorder, report=report, as_json=output_format is Format.JSON, quiet=quiet, say=say)

    command.__name__ = name
    command.__doc__ = {
        "run": """
        Watch a program or a GPU from outside, and say what holds it back.

        \b
        perfzero run -- python train.py     start a program and watch it
        perfzero run --pid 4711             watch one that runs already
        perfzero run --gpu 0                watch a GPU, whoever uses it
        """,
        "record": "Record like `perfzero run`, without the verdict; `perfzero analyze` gives it later.",
    }[name]
    return command


def load_numpy() -> None:
    """
    Import NumPy without the thread per core that its BLAS would start.

    They cost 2 s of CPU on a machine of 16 cores, for arithmetic that never comes here. The
    environment is put back: the observed program must not see a trace of this.
    """
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        import numpy  # noqa: F401 - for its side effect on all imports that follow
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def chosen_target(program: Sequence[str], *, pid: int | None, gpu: str | None) -> Target:
    """What to watch. Raises `UsageError` when that is nothing, or two things."""
    from perfzero.record.session import Target

    if program and pid is not None:
        raise UsageError("Either start a program (-- CMD) or attach to one (--pid), not both.")
    if not program and pid is None and gpu is None:
        raise UsageError(
            "Nothing to watch. Start a program:  perfzero run -- python train.py\n"
            "attach to one:  perfzero run --pid 4711   or watch a GPU:  perfzero run --gpu 0"
        )
    gpus = tuple(part.strip() for part in gpu.split(",") if part.strip()) if gpu else ()
    if gpu is not None and not gpus:
        raise UsageError("--gpu takes indices or UUIDs as nvidia-smi -L lists them, e.g. --gpu 0,1")
    return Target(command=tuple(program), pid=pid, gpus=gpus)


def chosen_settings(
    *,
    window: str | None,
    every: str | None,
    sample_period: str | None,
    continuous: bool,
    zoom: str | None,
    interval: int | None,
) -> Settings:
    """How to sample. Raises `UsageError` for contradictions."""
    from perfzero.record.policy import DEFAULTS, Settings

    if continuous and (window or every):
        raise UsageError("--continuous samples all the time: it has no --window and no --every.")
    if continuous and zoom and zoom != "off":
        raise UsageError("--continuous keeps one session open: it has no --zoom.")
    if interval is not None and interval < 1:
        raise UsageError("--profiling-interval takes a number of steps, 1 or more.")
    window_s = seconds(window, option="--window", low=0.01, high=3600) if window else None
    every_s = seconds(every, option="--every", low=0.01, high=86400) if every else None
    if (window_s or DEFAULTS.window_s) > (every_s or DEFAULTS.every_s):
        raise UsageError("--window is longer than --every; to sample all the time use --continuous.")
    period_s = 1e-3 if continuous else Settings().period_ns * 1e-9
    if sample_period:
        period_s = seconds(sample_period, option="--sample-period", low=2e-6, high=1.0)
    zoom_ns: int | None = 10_000
    if zoom == "off":
        zoom_ns = None
    elif zoom is not None:
        zoom_ns = round(seconds(zoom, option="--zoom", low=2e-6, high=1e-3) * 1e9)
    return Settings(
        period_ns=round(period_s * 1e9),
        window_s=window_s,
        every_s=every_s,
        continuous=continuous,
        zoom_period_ns=zoom_ns,
    )


def free_folder(parent: Path, target: Target) -> Path:
    """A folder below *parent* that does not exist: program and UTC time, a number if need be."""
    stamp = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H-%M-%S")
    base = parent / f"{program_name(target)}-{stamp}"
    path, number = base, 2
    while path.exists():
        path, number = base.with_name(f"{base.name}-{number}"), number + 1
    return path


def program_name(target: Target) -> str:
    """A short name for what is watched, fit for a folder: "train" for `python train.py`."""
    if not target.command:
        return f"pid{target.pid}" if target.pid is not None else "gpu" + "-".join(target.gpus)[:20]
    words = [w for w in target.command if not w.startswith("-")]
    scripts = [w for w in words[1:] if w.endswith(".py")]
    name = Path(scripts[0] if scripts else words[0] if words else "program").stem
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:40] or "program"


def finish(
    recorder: Recorder, *, report: bool, as_json: bool, quiet: bool, say: Callable[[str], None]
) -> None:
    """Watch to the end, report, and end as the program ended (or with our own exit code)."""
    command = recorder.watched.pid is not None and recorder.owns_program
    trouble: SourceError | None = None
    try:
        recorder.watch()
    except SourceError as error:
        trouble = error
    path = recorder.end()
    if trouble is not None and not command:
        recorder.wait()
        raise trouble
    if trouble is not None:
        print(f"perfzero: {trouble}", file=sys.stderr)
    elif report:
        tell(path, as_json=as_json, quiet=quiet, to_stdout=not command)
    else:
        say(f"recorded in {path}\n          perfzero analyze {path}")
    give_to_invoker(path)
    code = recorder.wait()
    if command and code is not None:
        from perfzero.record.launch import end_like

        sys.stderr.flush()
        raise typer.Exit(end_like(code))


def tell(path: Path, *, as_json: bool, quiet: bool, to_stdout: bool) -> None:
    """
    Judge the recording and show the verdict.

    Whatever goes wrong here is said, and changes nothing for the program that is watched.
    """
    stream = sys.stdout if to_stdout else sys.stderr
    try:
        from perfzero.report.analysis import analyze

        report = analyze(path)
        if as_json:
            from perfzero.report.json_file import to_json

            stream.write(to_json(report))
        elif not quiet:
            from perfzero.report.terminal import show

            show(report, stream=stream)
        if report.unwritten is not None:
            print(f"perfzero: {report.unwritten}", file=sys.stderr)
    except PerfzeroError as error:
        print(f"perfzero: {error}", file=sys.stderr)


def give_to_invoker(path: Path) -> None:
    """Under sudo, the recording belongs to the user who typed the command, not to root."""
    from perfzero.record.launch import invoking_user

    user = invoking_user()
    if user is None:
        return
    with contextlib.suppress(OSError):
        folders = [path.parent] if path.parent == RUNS else []
        for name in [*folders, path, *path.iterdir()]:
            os.chown(name, user.uid, user.gid, follow_symlinks=False)
