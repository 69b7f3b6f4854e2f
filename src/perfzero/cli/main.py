"""
The `perfzero` program: gathers the commands, and turns whatever ends them into an exit code.

    a command's own return     0, or the code it chose (typer.Exit, or an int it returns)
    PerfzeroError              its message on stderr, its exit code
    a misspelt command line    the message and where to read more, 2
    Ctrl-C                     130, as a shell would say
    a closed pipe              nothing, 141 (128 + SIGPIPE)
    a full disk under stdout   a sentence, 1
    anything else              our mistake: how to report it, 1; the traceback with PERFZERO_DEBUG=1

Nothing here imports a library that a command needs; each command imports its own when it runs,
so that `perfzero --help` answers at once. And where the command is known, the others are not even
registered: the recorder's own CPU time counts.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from perfzero import __version__
from perfzero.cli.language import Asked, spoken
from perfzero.errors import PerfzeroError
from perfzero.words.said import say
from perfzero.words.told import told

COMMANDS: tuple[str, ...] = (
    "run",
    "record",
    "analyze",
    "doctor",
    "metrics",
    "demo",
    "calibrate",
    "trim",
    "compare",
    "log",
    "export",
    "top",
)
"""The commands in the order of the help page; each is a module here with `register(app)`."""

USAGE = 2
INTERRUPTED = 130
PIPE_CLOSED = 141
DEBUG = "PERFZERO_DEBUG"


def build_app(commands: Sequence[str]) -> typer.Typer:
    """The typer application with *commands*, each imported and registered now."""
    app = typer.Typer(
        name="perfzero",
        add_completion=False,
        rich_markup_mode=None,  # plain help: it is read through pipes, in logs, and by tests
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(perfzero)
    for name in commands:
        importlib.import_module(f"perfzero.cli.{name}").register(app)
    return app


def show_version(asked: bool) -> None:
    """Print the version and end, when *asked*."""
    if asked:
        print(f"perfzero {__version__}")
        raise typer.Exit


def perfzero(
    context: typer.Context,
    *,
    version: Annotated[  # noqa: ARG001 - its callback has already acted on it
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """
    Say why a GPU is slow, from outside the program that runs on it.

    Start with `perfzero demo` (no GPU needed) or `perfzero run -- python train.py`.
    """
    if context.invoked_subcommand is None:
        # Not a success: a script that lost its arguments has to notice.
        print(context.get_help(), file=sys.stderr)
        raise typer.Exit(USAGE)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line *argv* (without the program's name; None: the process's own) to its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    named = tuple(name for name in COMMANDS if arguments[:1] == [name])
    asked = Asked()
    try:
        # Not standalone: exceptions come here instead of to typer's own handlers.
        result = typer.main.get_command(build_app(named or COMMANDS))(
            arguments, prog_name="perfzero", standalone_mode=False, obj=asked
        )
    except PerfzeroError as error:
        return _say(error.sentence, error.exit_code, asked)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        return PIPE_CLOSED
    except SystemExit as stop:
        # typer answers a closed pipe itself, with SystemExit(1), even when not standalone.
        return PIPE_CLOSED if isinstance(stop.__context__, BrokenPipeError) else _exit_code(stop.code)
    except OSError as error:
        return _unwritten(error, asked) if _is_full(error) else _bug(error, asked)
    except Exception as error:  # noqa: BLE001 - the last stop; nothing may leave as a bare traceback
        return _usage(error, asked) if _is_usage(error) else _bug(error, asked)
    return _exit_code(result)


def script() -> None:
    """What the installed `perfzero` calls."""
    code = main()
    try:
        if sys.stdout is not None:  # None when the program was started with stdout closed
            sys.stdout.flush()
    except BrokenPipeError:
        code = PIPE_CLOSED
        # Python flushes once more at exit and would complain about the same pipe.
        _forget_stdout()
    except OSError as error:
        if code == 0:
            code = _unwritten(error, Asked())
        _forget_stdout()
    sys.exit(code)


def _forget_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_full(error: OSError) -> bool:
    # One with a file's name is about that file, and should have been told where it arose.
    return error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def _unwritten(error: OSError, asked: Asked) -> int:
    return _say(say("main.unwritten", why=error.strerror or type(error).__name__), 1, asked)


def _exit_code(result: object) -> int:
    # As sys.exit has it: nothing is success, a number is itself, anything else is a failure.
    if result is None:
        return 0
    return result if isinstance(result, int) else 1


def _is_usage(error: Exception) -> bool:
    # Known by its shape: older typer raises the exceptions of the package click, newer typer
    # those of its own copy of click, and the two share no public base class.
    return callable(getattr(error, "format_message", None)) and isinstance(
        getattr(error, "exit_code", None), int
    )


def _usage(error: Exception, asked: Asked) -> int:
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", "perfzero")
    message = error.format_message()  # type: ignore[attr-defined]
    code: int = error.exit_code  # type: ignore[attr-defined]
    return _say(say("main.see_help", message=message, command=command), code, asked)


def _bug(error: Exception, asked: Asked) -> int:
    if os.environ.get(DEBUG) == "1":
        traceback.print_exception(error)
        hint = say("main.report")
    else:
        hint = say("main.for_traceback", variable=DEBUG)
    return _say(say("main.mistake_hint", kind=type(error).__name__, error=error, hint=hint), 1, asked)


def _say(message: str, code: int, asked: Asked) -> int:
    print(f"perfzero: {told(message, spoken(asked.language))}", file=sys.stderr)
    return code
