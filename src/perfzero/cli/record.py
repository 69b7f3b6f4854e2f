"""Record a program or a GPU, from outside. `perfzero run` is this, and the verdict."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from perfzero.cli.against import chosen_earlier, compare_with
from perfzero.cli.analyze import RUNS
from perfzero.cli.durations import seconds, show
from perfzero.cli.formats import Format
from perfzero.cli.language import Language, lang_option, spoken
from perfzero.cli.progress import Voice, own_terminal, to_stderr
from perfzero.errors import PerfzeroError, SourceError, UsageError
from perfzero.words.said import say
from perfzero.words.told import told

if TYPE_CHECKING:
    from perfzero.record.policy import Settings
    from perfzero.record.session import Recorder, Target

CANNOT_RECORD = 125
"""The exit code when perfzero itself fails before the program has started, as of `env` and `timeout`."""

SHORTEST_PERIOD_S = 25e-6
"""Samples closer than this would need more than half a gigabyte of memory: 45 KB each, a quarter second's."""

SHORTEST_ZOOM_S = 5e-6
"""The same for a zoom burst, which is short and samples fewer counters."""

LEAST_SAMPLES = 20
"""A window holds at least so many samples, or it says nothing about itself."""


UNTIL_SURE = "--until-sure"

SURE = "0.8"
"""The confidence that `--until-sure` asks for by itself: what a report calls "sure"."""

NUMBER = re.compile(r"[0-9.]+%?")
"""What nobody calls a program, and everybody a share."""

LEAST_CONFIDENCE, MOST_CONFIDENCE = 0.1, 0.95
"""No verdict has a higher confidence, and a lower one is worth no name."""


class SourceName(str, Enum):
    """Where samples come from."""

    AUTO = "auto"
    PM = "pm"
    GPM = "gpm"
    NVML = "nvml"


def register(app: typer.Typer) -> None:
    """Add `perfzero record` to *app*."""
    add(app, "record")


def add(app: typer.Typer, name: str) -> None:
    """Add the command *name* ("run" or "record") to *app*."""
    settings = {"allow_interspersed_args": False}
    app.command(name, cls=RecordingCommand, context_settings=settings)(recording_command(name))


class RecordingCommand(TyperCommand):
    """A command whose `--until-sure` may stand without its value, which typer does not offer."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As always, after `--until-sure` has got its value."""
        return super().parse_args(ctx, spelled_out(args, self.params))


def spelled_out(arguments: Sequence[str], parameters: Iterable[Any]) -> list[str]:
    """
    *arguments* with the value that a bare `--until-sure` stands for; the program's own are left alone.

    Raises `UsageError` where a number follows, which would be taken for the program.
    """
    with_value = {name for p in parameters if not getattr(p, "is_flag", False) for name in p.opts}
    found = list(arguments)
    place = 0
    while place < len(found) and found[place].startswith("-") and found[place] != "--":
        if found[place] == UNTIL_SURE:
            number = next(iter(found[place + 1 :]), "")
            if NUMBER.fullmatch(number):
                raise UsageError(
                    say(
                        "usage.until_sure", option=UNTIL_SURE, again=UNTIL_SURE, number=number, program=number
                    )
                )
            found[place] = f"{UNTIL_SURE}={SURE}"
        elif found[place] in with_value:
            place += 1
        place += 1
    return found


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
            typer.Option("--pid", metavar="P", min=1, help="Attach to a running process and its children."),
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
        until_sure: Annotated[
            str | None,
            typer.Option(
                UNTIL_SURE,
                metavar="[=SHARE]",
                help="Stop sampling when the verdict has been sure for long enough [confidence: 0.8].",
            ),
        ] = None,
        window: Annotated[
            str | None, typer.Option("--window", metavar="T", help="Length of a sampling window [chosen].")
        ] = None,
        every: Annotated[
            str | None, typer.Option("--every", metavar="T", help="From one window to the next, e.g. 10s.")
        ] = None,
        sample_period: Annotated[
            str | None,
            typer.Option("--sample-period", metavar="T", help="Between two samples [chosen; 2ms at first]."),
        ] = None,
        continuous: Annotated[
            bool, typer.Option("--continuous", help="Sample all the time instead of in windows.")
        ] = False,
        zoom: Annotated[
            str | None,
            typer.Option("--zoom", metavar="T", help="Period of the zoom burst, or 'off' [20us]."),
        ] = None,
        source: Annotated[
            SourceName, typer.Option("--source", help="Force a source instead of the best there is.")
        ] = SourceName.AUTO,
        agent: Annotated[
            bool | None,
            typer.Option(
                "--agent/--no-agent",
                help="Name the program's layers, by one look inside at a few of its steps "
                "[where that leaves nothing behind].",
            ),
        ] = None,
        stacks: Annotated[
            bool,
            typer.Option(
                "--stacks/--no-stacks",
                help="Name the lines that an idle GPU waits for: py-spy reads Python's stacks for 10 s.",
            ),
        ] = True,
        against: Annotated[
            str | None,
            typer.Option(
                "--against", metavar="last|DIR", help="Say how it compares with an earlier recording."
            ),
        ] = None,
        output_format: Annotated[
            Format, typer.Option("--format", help="Text for people, or report.json.")
        ] = Format.TEXT,
        language: Annotated[Language | None, lang_option()] = None,
        quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.")] = False,
    ) -> None:
        open_closed_streams()
        load_numpy()
        target = chosen_target(program or (), pid=pid, gpu=gpu)
        settings = chosen_settings(
            window=window,
            every=every,
            sample_period=sample_period,
            continuous=continuous,
            zoom=zoom,
            interval=profiling_interval,
            source=source,
        )
        duration_s = None
        if profiling_duration is not None:
            duration_s = seconds(profiling_duration, option="--profiling-duration", low=0.1, high=30 * 86400)
        sure = None if until_sure is None else confidence(until_sure)

        report = name == "run"
        earlier = None if against is None else chosen_earlier(against, report=report, command=target.command)
        as_json = report and output_format is Format.JSON

        silent = quiet or as_json
        terminal = own_terminal(program=bool(target.command))
        voice = Voice(silent=silent, terminal=terminal, language=spoken(language))
        made = missing_folders(output or RUNS)
        try:
            from perfzero.record.session import Recorder

            if output is None:
                output = free_folder(RUNS, target)
                made = [output, *made]
            recorder = Recorder(
                target,
                output=output,
                settings=settings,
                source=source.value,
                duration_s=duration_s,
                every_steps=None if window or every or continuous else profiling_interval,
                force=force,
                say=voice.say,
                show=None if silent else voice.show,
                agent=agent is not False,
                may_stay=agent is True,
                stacks=stacks,
                **({} if sure is None else {"judge": new_judge(), "sure": sure}),
            )
            recorder.start()
        except BaseException as error:
            voice.close()
            for path in made:  # they are empty
                with contextlib.suppress(OSError):
                    path.rmdir()
            contradiction = isinstance(error, UsageError) and not isinstance(error.__cause__, OSError)
            if not target.command or contradiction or not isinstance(error, Exception):
                raise
            complain(error, voice.language)
            raise typer.Exit(max(getattr(error, "exit_code", 0), CANNOT_RECORD)) from None
        finish(recorder, report=report, as_json=as_json, quiet=quiet, voice=voice, made=made, against=earlier)

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


def new_judge() -> Any:
    """Who says whether the verdict is sure."""
    from perfzero.cli.judging import ChildJudge

    return ChildJudge()


def confidence(text: str) -> float:
    """The share in `--until-sure=SHARE`. Raises `UsageError` when it is none."""
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not LEAST_CONFIDENCE <= share <= MOST_CONFIDENCE:
        raise UsageError(
            say(
                "usage.confidence",
                option=UNTIL_SURE,
                least=LEAST_CONFIDENCE,
                most=MOST_CONFIDENCE,
                again=UNTIL_SURE,
                text=f"{text!r}",
            )
        )
    return share


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
        raise UsageError(say("usage.either"))
    if not program and pid is None and gpu is None:
        raise UsageError(say("usage.nothing"))
    gpus = tuple(part.strip() for part in gpu.split(",") if part.strip()) if gpu else ()
    if gpu is not None and not gpus:
        raise UsageError(say("usage.gpu"))
    return Target(command=tuple(program), pid=pid, gpus=gpus)


def chosen_settings(
    *,
    source: SourceName,
    window: str | None,
    every: str | None,
    sample_period: str | None,
    continuous: bool,
    zoom: str | None,
    interval: int | None,
) -> Settings:
    """How to sample. Raises `UsageError` for contradictions."""
    from perfzero.record.policy import DEFAULTS, Settings

    if source in (SourceName.GPM, SourceName.NVML):
        options = {
            "--window": window,
            "--every": every,
            "--sample-period": sample_period,
            "--continuous": continuous,
            "--zoom": zoom and zoom != "off",
            "--profiling-interval": interval is not None,
        }
        for option in (name for name, given in options.items() if given):
            raise UsageError(say("usage.source", source=source.value, option=option))
    if continuous and (window or every):
        raise UsageError(say("usage.continuous"))
    if continuous and zoom and zoom != "off":
        raise UsageError(say("usage.continuous_zoom"))
    if interval is not None and interval < 1:
        raise UsageError(say("usage.interval"))
    window_s = seconds(window, option="--window", low=0.01, high=3600) if window else None
    every_s = seconds(every, option="--every", low=0.01, high=86400) if every else None
    if (window_s or DEFAULTS.window_s) > (every_s or DEFAULTS.every_s):
        raise UsageError(say("usage.window"))
    period_s = 1e-3 if continuous else Settings().period_ns * 1e-9
    if sample_period:
        period_s = seconds(sample_period, option="--sample-period", low=SHORTEST_PERIOD_S, high=1.0)
    length_s = window_s or DEFAULTS.window_s
    if not continuous and round(length_s / period_s) < LEAST_SAMPLES:
        raise UsageError(
            say(
                "usage.few_samples",
                window=show(length_s),
                least=LEAST_SAMPLES,
                period=show(period_s),
                longer=show(LEAST_SAMPLES * period_s),
            )
        )
    zoom_ns = Settings().zoom_period_ns
    if zoom == "off":
        zoom_ns = None
    elif zoom is not None:
        zoom_ns = round(seconds(zoom, option="--zoom", low=SHORTEST_ZOOM_S, high=1e-3) * 1e9)
    return Settings(
        period_ns=round(period_s * 1e9),
        window_s=window_s,
        every_s=every_s,
        continuous=continuous,
        zoom_period_ns=zoom_ns,
        adapt_period=sample_period is None,
        adapt_zoom=zoom is None,
    )


def missing_folders(path: Path) -> list[Path]:
    """*path* and those above it that do not exist yet, the lowest first."""
    return [p for p in (path, *path.parents) if not os.path.lexists(p)]


def free_folder(parent: Path, target: Target) -> Path:
    """
    A new folder below *parent*: program and UTC time, a number if need be.

    It is made at once, so that of several ranks that start together each gets its own. Raises
    `UsageError` where none can be made.
    """
    stamp = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H-%M-%S")
    base = parent / f"{program_name(target)}-{stamp}"
    path, number = base, 2
    while True:
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            path, number = base.with_name(f"{base.name}-{number}"), number + 1
        except OSError as error:
            raise UsageError(say("file.unwritable", path=path, why=error.strerror)) from error
        else:
            return path


def program_name(target: Target) -> str:
    """A short name for what is watched, fit for a folder: "train" for `python train.py`."""
    if target.command:
        words = [w for w in target.command if not w.startswith("-")]
        scripts = [w for w in words[1:] if w.endswith(".py")]
        name = Path(scripts[0] if scripts else words[0] if words else "program").stem
        if not scripts and name.startswith("python") and "-m" in target.command[1:-1]:
            name = target.command[target.command.index("-m", 1) + 1]
    else:
        name = f"pid{target.pid}" if target.pid is not None else "gpu" + "-".join(target.gpus)[:20]
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:40] or "program"


def finish(
    recorder: Recorder,
    *,
    report: bool,
    as_json: bool,
    quiet: bool,
    voice: Voice,
    made: Sequence[Path],
    against: Path | None = None,
) -> None:
    """
    Watch to the end, report, and end as the program ended (or with our own exit code).

    A program that we started ends as it would without us: nothing that goes wrong here may come
    between it and its exit code, or make us leave before it.
    """
    command, path = recorder.owns_program, recorder.path
    trouble: Exception | None = None
    for step in (recorder.watch, recorder.end):
        try:
            step()
        except Exception as error:  # noqa: BLE001 - whatever it is, the program must be waited for
            trouble = trouble or error
    voice.close()
    if not (command and recorder.watched.running):
        recorder.watched.restore_signals()  # from here on they can only be meant for us
    try:
        if trouble is not None:
            if not command:
                raise trouble
            complain(trouble, voice.language)
        if report and not isinstance(trouble, SourceError):
            tell(path, as_json=as_json, quiet=quiet, to_stdout=not command, language=voice.language)
            if against is not None and not (quiet or as_json):
                compare_with(
                    against, path, stream=sys.stderr if command else sys.stdout, language=voice.language
                )
        elif trouble is None:
            voice.say(say("run.recorded", path=path, again=path))
    except BaseException as error:
        if not command:
            raise
        complain(error, voice.language)
        voice.say(say("run.was_recorded", path=path, again=path))
    finally:
        give_to_invoker(path, made, report=report)
    code = recorder.wait()
    if command and code is not None:
        from perfzero.record.launch import end_like

        raise typer.Exit(end_like(code))


def tell(path: Path, *, as_json: bool, quiet: bool, to_stdout: bool, language: str = "en") -> None:
    """Judge the recording and show the verdict."""
    from perfzero.report.analysis import analyze

    stream = sys.stdout if to_stdout else sys.stderr
    report = analyze(path, language=language)
    if as_json:
        from perfzero.report.json_file import to_json

        stream.write(to_json(report))
        stream.flush()
    elif not quiet:
        from perfzero.report.terminal import show as show_report

        show_report(report, stream=stream, language=language)
    if report.unwritten is not None and not as_json:
        to_stderr(f"perfzero: {told(report.unwritten, language)}")


def complain(error: BaseException, language: str = "en") -> None:
    """Say what went wrong with us; the program is not affected."""
    if isinstance(error, PerfzeroError):
        text = told(error.sentence, language)
    elif isinstance(error, KeyboardInterrupt):
        text = told(say("main.interrupted"), language)
    else:
        text = told(say("main.mistake", kind=type(error).__name__, error=error), language)
        if os.environ.get("PERFZERO_DEBUG") == "1":
            text += "\n" + "".join(traceback.format_exception(error))
    to_stderr(f"perfzero: {text}")


def open_closed_streams() -> None:
    """
    Standard output and error that we were started without lead nowhere.

    So nothing of ours lands in the other one, or in a file that happens to get the number 2. The program
    is still started without them: what Python opens is not inherited.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - open until the end


def give_to_invoker(path: Path, made: Sequence[Path], *, report: bool) -> None:
    """
    Under sudo, what was written belongs to the user who typed the command, not to root.

    That is the folders in *made*, and in *path* the files of the recording and of the report.
    """
    from perfzero.record.launch import invoking_user

    user = invoking_user()
    if user is None:
        return
    from perfzero.report.analysis import EVERY_FILE
    from perfzero.store.schema import is_ours

    ours = EVERY_FILE if report else ()
    with contextlib.suppress(OSError):
        for name in os.listdir(path):
            if name in ours or is_ours(name):
                _give_file(path / name, user.uid, user.gid)
        for folder in made:
            os.chown(folder, user.uid, user.gid, follow_symlinks=False)


def _give_file(path: Path, uid: int, gid: int) -> None:
    # A file that has another name elsewhere is not ours alone to give.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        seen = os.fstat(handle)
        if stat.S_ISREG(seen.st_mode) and seen.st_nlink == 1:
            os.fchown(handle, uid, gid)
    finally:
        os.close(handle)
