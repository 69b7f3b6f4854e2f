"""How the program begins and ends: its commands, its exit codes, what it says on stderr."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Annotated

import pytest
import typer

import perfzero
from perfzero.cli import main as program
from perfzero.cli.compare import FAILED
from perfzero.cli.ending import ENDING
from perfzero.errors import DeviceBusy, NoRecording, PerfzeroError, UsageError

Install = Callable[[Callable[..., object]], None]


@pytest.fixture
def only_command(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Make a function the program's only command, under the name `probe`."""

    def install(function: Callable[..., object]) -> None:
        module = ModuleType("perfzero.cli.probe")
        launcher = {"allow_interspersed_args": False}
        module.register = lambda app: app.command("probe", context_settings=launcher)(function)
        monkeypatch.setitem(sys.modules, "perfzero.cli.probe", module)
        monkeypatch.setattr(program, "COMMANDS", ("probe",))

    return install


def raising(error: BaseException) -> Callable[[], None]:
    """A command that ends with *error*."""

    def command() -> None:
        raise error

    return command


def test_every_command_is_there_and_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--help"]) == 0

    below = capsys.readouterr().out.split("Commands:")[1].splitlines()
    listed = [line.split(maxsplit=1) for line in below if line[2:3].strip()]  # other lines go on with a text
    assert tuple(name for name, *_ in listed) == program.COMMANDS
    assert all(meaning for _, *meaning in listed)


@pytest.mark.parametrize("command", program.COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main([command, "-h"]) == 0

    out, err = capsys.readouterr()
    assert f"Usage: perfzero {command}" in out
    assert "completion" not in out
    assert err == ""


@pytest.mark.parametrize(
    ("arguments", "built"),
    [(["doctor", "--help"], ("doctor",)), (["--help"], program.COMMANDS), (["doctr"], program.COMMANDS)],
)
def test_a_command_that_is_named_is_the_only_one_that_is_registered(
    arguments: list[str], built: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []
    build = program.build_app
    monkeypatch.setattr(program, "build_app", lambda names: (asked.append(tuple(names)), build(names))[1])
    program.main(arguments)
    assert asked == [built]


@pytest.mark.parametrize("command", ["rnu", "--verison", "ru n"])
def test_an_unknown_command_is_a_usage_error(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main([command]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("perfzero: No such ")
    assert err.endswith("See `perfzero --help`.\n")


def test_the_version_is_the_packages_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--version"]) == 0
    assert capsys.readouterr().out == f"perfzero {perfzero.__version__}\n"


def test_no_command_at_all_shows_the_help_and_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main([]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Usage: perfzero ")


@pytest.mark.parametrize(
    ("error", "code"), [(UsageError("a"), 2), (NoRecording("b"), 4), (DeviceBusy("c"), 5)]
)
def test_an_error_of_ours_is_one_message_and_its_own_exit_code(
    error: Exception, code: int, only_command: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    only_command(raising(error))

    assert program.main(["probe"]) == code
    assert capsys.readouterr().err == f"perfzero: {error}\n"


def kinds(of: type[PerfzeroError]) -> Iterator[type[PerfzeroError]]:
    yield of
    for kind in of.__subclasses__():
        yield from kinds(kind)


def test_the_table_of_exit_codes_has_all_that_the_code_can_end_with_and_no_other() -> None:
    page = (Path(__file__).parents[2] / "docs" / "README.md").read_text()
    table = page.partition("| code | means |\n")[2].partition("\n\n")[0]
    written = [int(row.split("|")[1]) for row in table.splitlines()[1:]]

    ours = {kind.exit_code for kind in kinds(PerfzeroError) if kind.__module__ == "perfzero.errors"}
    signals = {128 + number for number in ENDING}
    assert written == sorted(
        {0, 1, program.USAGE, FAILED, program.INTERRUPTED, program.PIPE_CLOSED} | ours | signals
    )


@pytest.mark.parametrize("ending", [None, 0, 3, 11])
def test_a_command_may_choose_its_exit_code_by_returning_or_by_leaving(
    ending: int | None, only_command: Install
) -> None:
    only_command(lambda: ending)
    assert program.main(["probe"]) == (ending or 0)

    only_command(raising(typer.Exit(ending or 0)))
    assert program.main(["probe"]) == (ending or 0)


def test_leaving_with_a_message_is_no_success(only_command: Install) -> None:
    only_command(raising(SystemExit("because")))

    assert program.main(["probe"]) == 1


def test_a_mistake_of_ours_asks_to_be_reported_and_keeps_the_traceback_back(
    only_command: Install, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PERFZERO_DEBUG", raising=False)
    only_command(raising(ZeroDivisionError("by naught")))

    assert program.main(["probe"]) == 1

    err = capsys.readouterr().err
    assert "ZeroDivisionError: by naught" in err
    assert "PERFZERO_DEBUG=1" in err
    assert "Traceback" not in err


def test_a_mistake_of_ours_shows_the_traceback_to_who_asks(
    only_command: Install, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFZERO_DEBUG", "1")
    only_command(raising(ZeroDivisionError("by naught")))

    assert program.main(["probe"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_ends_as_a_shell_would_say(only_command: Install, capsys: pytest.CaptureFixture[str]) -> None:
    only_command(raising(KeyboardInterrupt()))

    assert program.main(["probe"]) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "typed",
    [
        ["--", "python", "train.py", "-h", "--seed", "1", "--", "x"],
        ["python", "train.py", "-h", "--seed", "1", "--", "x"],
    ],
)
def test_what_belongs_to_the_program_reaches_it_untouched(typed: list[str], only_command: Install) -> None:
    seen: list[str] = []

    def launch(command: list[str], seed: int = 0) -> None:
        seen.extend([*command, str(seed)])

    only_command(launch)

    assert program.main(["probe", *typed]) == 0
    assert seen == ["python", "train.py", "-h", "--seed", "1", "--", "x", "0"]


def test_an_option_before_the_program_is_ours_and_has_to_make_sense(
    only_command: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    def launch(command: list[str], seed: Annotated[int, typer.Option()] = 0) -> None:
        raise AssertionError((command, seed))

    only_command(launch)

    assert program.main(["probe", "--seed", "many", "--", "python"]) == 2

    err = capsys.readouterr().err
    assert err.startswith("perfzero: Invalid value for '--seed'")
    assert err.endswith("See `perfzero probe --help`.\n")


def installed(*arguments: str) -> list[str]:
    """The command line that runs the program as its users do, in a process of its own."""
    return [sys.executable, "-m", "perfzero", *arguments]


def test_a_reader_that_leaves_early_is_no_mistake() -> None:
    read, write = os.pipe()
    os.close(read)  # the reader is gone before the first line
    with os.fdopen(write, "w") as nobody:
        done = subprocess.run(
            installed("--help"), stdout=nobody, stderr=subprocess.PIPE, text=True, check=False
        )

    assert done.returncode == 141
    assert done.stderr == ""


def test_a_reader_that_stays_gets_all() -> None:
    done = subprocess.run(installed("--version"), capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, f"perfzero {perfzero.__version__}\n", "")
