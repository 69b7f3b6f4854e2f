"""`perfzero record` from the command line: what may be asked, where it is written, how it ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pynvml
import pytest
import typer

from perfzero.cli import record as command
from perfzero.cli.main import build_app
from perfzero.record import session
from perfzero.record.launch import Invoker
from perfzero.record.session import Target
from perfzero.store.reader import open_recording

Perfzero = Callable[..., int]
Python = Callable[[str], tuple[str, str, str]]

# Plain NVML: nothing has to start or to be waited for.
NVML = ("--source", "nvml", "-o", "r")
MARK = "open('started', 'w').close()"


# --- what may be asked -----------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["run", "record"])
@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ("", "Nothing to watch"),
        ("--pid 1 -- true", "not both"),
        ("--gpu , -- true", "--gpu takes indices or UUIDs"),
        ("--gpu 0 --continuous --window 1s", "--continuous samples all the time"),
        ("--gpu 0 --continuous --every 1s", "--continuous samples all the time"),
        ("--gpu 0 --continuous --zoom 10us", "has no --zoom"),
        ("--gpu 0 --window 2s --every 1s", "longer than --every"),
        ("--gpu 0 --window 90s", "longer than --every"),
        ("--gpu 0 --window 1fortnight", "--window takes a duration"),
        ("--gpu 0 --every -5s", "--every takes a duration"),
        ("--gpu 0 --profiling-duration soon", "--profiling-duration takes a duration"),
        ("--gpu 0 --profiling-duration 0", "--profiling-duration takes a duration"),
        ("--gpu 0 --profiling-duration nan", "--profiling-duration takes a duration"),
        ("--gpu 0 --profiling-duration 1e99", "--profiling-duration takes a duration"),
        ("--gpu 0 --sample-period 1ns", "--sample-period takes a duration"),
        ("--gpu 0 --sample-period 5", "--sample-period takes a duration"),
        ("--gpu 0 --zoom fast", "--zoom takes a duration"),
        ("--gpu 0 --profiling-interval 0", "--profiling-interval takes a number of steps"),
        ("--gpu 0 --profiling-interval often", "--profiling-interval"),
        ("--gpu 0 --source magic", "--source"),
        ("--gpu 0 --sample-period 20us", "--sample-period takes a duration from 25us"),
        ("--gpu 0 --zoom 2us", "--zoom takes a duration from 5us"),
        ("--gpu 0 --sample-period 100ms", "Make it longer, --window 2s"),
        ("--gpu 0 --sample-period 1ms --window 10ms", "fewer than 20 samples"),
        ("--gpu 0 --source gpm --window 1s", "--source gpm opens no sampling session: it has no --window"),
        ("--gpu 0 --source gpm --every 60s", "it has no --every"),
        ("--gpu 0 --source nvml --continuous", "it has no --continuous"),
        ("--gpu 0 --source gpm --zoom 10us", "it has no --zoom"),
        ("--gpu 0 --source gpm --sample-period 1ms", "it has no --sample-period"),
        ("--gpu 0 --source nvml --profiling-interval 9", "it has no --profiling-interval"),
        ("--gpu 0 --until-sure=often", "--until-sure takes a confidence"),
        ("--gpu 0 --until-sure=0", "--until-sure takes a confidence from 0.1 to 0.95"),
        ("--gpu 0 --until-sure=nan", "--until-sure takes a confidence"),
        ("--gpu 0 --until-sure=1", "such as --until-sure=0.9"),
        ("--until-sure 0.9 -- true", "with an equals sign: --until-sure=0.9"),
        ("--until-sure 80% true", "with an equals sign: --until-sure=80%"),
        ("--pid self", "--pid"),
        ("--pid -5", "--pid"),
        ("--pid 0", "--pid"),
        ("--no-such-option -- true", "--no-such-option"),
    ],
)
def test_a_contradiction_is_refused_before_anything_is_done(
    verb: str, asked: str, reason: str, perfzero: Perfzero, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert perfzero(verb, *asked.split()) == 2

    told = capfd.readouterr()
    assert told.out == ""
    assert told.err.startswith("perfzero: ")
    assert reason in told.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "asked",
    [
        "--window 500ms --every 1s --sample-period 100us --zoom off",
        "--continuous --zoom off --sample-period 100ms",
        "--window 2s --sample-period 100ms",
        "--profiling-interval 100 --profiling-duration 5min",
        "--until-sure",
        "--until-sure=0.9",
    ],
)
def test_what_makes_sense_is_recorded_and_kept_as_it_was_asked(
    asked: str, perfzero: Perfzero, sampler: Any, tmp_path: Path
) -> None:
    assert perfzero("record", "-o", "r", *asked.split(), "--", "true") == 0

    settings = open_recording(tmp_path / "r").manifest.settings
    assert settings["continuous"] is ("--continuous" in asked)
    assert settings["window_s"] == (0.5 if "500ms" in asked else 2 if "--window" in asked else None)
    assert settings["every_steps"] == (100 if "--profiling-interval" in asked else None)
    assert settings["duration_s"] == (300 if "--profiling-duration" in asked else None)
    assert (settings["zoom_period_ns"] is None) == ("--zoom off" in asked)
    assert settings["adapt_period"] is ("--sample-period" not in asked)
    assert settings["sure"] == (None if "sure" not in asked else 0.9 if "0.9" in asked else 0.8)
    assert settings["chosen"] == []


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("--until-sure -- train --until-sure", "--until-sure=0.8 -- train --until-sure"),
        ("--quiet --until-sure train --until-sure", "--quiet --until-sure=0.8 train --until-sure"),
        ("-o --until-sure -- train", "-o --until-sure -- train"),
        ("--gpu 0 --until-sure", "--gpu 0 --until-sure=0.8"),
        ("--until-sure=0.9 train", "--until-sure=0.9 train"),
        ("train --until-sure", "train --until-sure"),
        ("-- --until-sure", "-- --until-sure"),
        ("--until-sure -- 0.9", "--until-sure=0.8 -- 0.9"),
        ("train --until-sure 0.9", "train --until-sure 0.9"),
    ],
)
def test_until_sure_may_stand_without_its_value_and_the_programs_own_is_left_alone(
    words: str, meant: str
) -> None:
    app = build_app(("record", "analyze"))
    parameters = typer.main.get_command(app).commands["record"].params  # type: ignore[attr-defined]
    assert command.spelled_out(words.split(), parameters) == meant.split()


@pytest.mark.parametrize("how", [["--gpu", "7"], ["--gpu", "0,GPU-ffff"]])
def test_a_gpu_that_is_not_there_is_refused_with_those_that_are(
    how: list[str],
    perfzero: Perfzero,
    python: Python,
    library: Any,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert perfzero("record", *NVML, *how, "--", *python(MARK)) == 2
    assert "0 (GPU-aaaa)" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_is_not_there_is_refused(
    perfzero: Perfzero, library: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert perfzero("record", *NVML, "--pid", 2**22 - 1) == 2
    assert "There is no process" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


# --- the program -----------------------------------------------------------------------------


@pytest.mark.parametrize("separator", [["--"], []])
def test_what_follows_the_program_reaches_it_untouched(
    separator: list[str],
    perfzero: Perfzero,
    python: Python,
    library: Any,
    capfd: pytest.CaptureFixture[str],
) -> None:
    theirs = ["-h", "--gpu", "7", "--", "--quiet", "", "two words", "*", "é", "--"]
    program = python("import json, sys; print(json.dumps(sys.argv[1:]))")

    assert perfzero("record", *NVML, "--quiet", *separator, *program, *theirs) == 0
    told = capfd.readouterr()
    assert json.loads(told.out) == theirs
    assert told.err == ""


@pytest.mark.parametrize("code", [0, 1, 2, 77, 255])
def test_the_exit_code_is_the_programs_own(
    code: int, perfzero: Perfzero, python: Python, library: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    assert perfzero("record", *NVML, "--", *python(f"raise SystemExit({code})")) == code
    told = capfd.readouterr()
    assert told.out == ""
    assert told.err == "perfzero: recorded in r\n          perfzero analyze r\n"


@pytest.mark.parametrize(
    ("options", "more"), [(("--no-agent",), set()), ((), {"PERFZERO_AGENT"})], ids=["without agent", "with"]
)
def test_the_program_has_the_environment_it_would_have_without_us_but_for_what_the_agent_needs(
    options: tuple[str, ...],
    more: set[str],
    perfzero: Perfzero,
    python: Python,
    library: Any,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    program = python("import json, os; print(json.dumps(dict(os.environ)))")

    assert perfzero("record", *NVML, *options, "--", *program) == 0
    theirs, ours = json.loads(capfd.readouterr().out), dict(os.environ)
    for environment in (theirs, ours):
        environment.pop("LC_CTYPE", None)  # Python sets it by itself where the locale is "C"
    if more:
        before = ours.pop("PYTHONPATH", "")
        assert theirs.pop("PYTHONPATH").endswith(before)
    assert {name for name in theirs if ours.get(name) != theirs[name]} == more
    assert not set(ours) - set(theirs)


@pytest.mark.parametrize(
    ("options", "agent", "by_name"),
    [((), True, False), (("--agent",), True, True), (("--no-agent",), False, False)],
    ids=["not said", "asked by name", "refused"],
)
def test_a_look_that_leaves_something_behind_has_to_be_asked_for_by_name(
    options: tuple[str, ...],
    agent: bool,
    by_name: bool,
    perfzero: Perfzero,
    python: Python,
    library: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted: list[tuple[bool, bool]] = []

    class Recorder(session.Recorder):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            wanted.append((named["agent"], named["may_stay"]))
            super().__init__(*arguments, **named)

    monkeypatch.setattr(session, "Recorder", Recorder)
    assert perfzero("record", *NVML, *options, "--", *python("pass")) == 0

    assert wanted == [(agent, by_name)]


def test_a_program_that_does_not_exist_gives_the_shells_127(
    perfzero: Perfzero, library: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    assert perfzero("record", *NVML, "--", "no-such-program") == 127
    assert capfd.readouterr().err == "perfzero: no-such-program: command not found\n"


@pytest.mark.parametrize("where", [(), ("-o", "r"), ("-o", "a/b/c")])
def test_a_program_that_cannot_be_started_leaves_no_folder(
    where: tuple[str, ...], perfzero: Perfzero, library: Any, tmp_path: Path
) -> None:
    assert perfzero("record", "--source", "nvml", *where, "--", "no-such-program") == 127
    assert list(tmp_path.iterdir()) == []


def test_nor_does_it_take_one_that_was_there(perfzero: Perfzero, library: Any, tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    assert perfzero("record", *NVML, "--", "no-such-program") == 127
    assert list((tmp_path / "r").iterdir()) == []


@pytest.mark.parametrize("kind", ["no permission", "a folder", "no program"])
def test_what_cannot_be_executed_gives_the_shells_126(
    kind: str, perfzero: Perfzero, library: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "train"
    if kind == "a folder":
        path.mkdir()
    else:
        path.write_bytes(b"\0" * 64)
        path.chmod(0o755 if kind == "no program" else 0o644)

    assert perfzero("record", *NVML, "--", path) == 126
    assert capfd.readouterr().err.startswith(f"perfzero: {path}: ")


def test_when_the_time_is_over_sampling_ends_and_the_program_does_not(
    perfzero: Perfzero, python: Python, library: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = python("import time; time.sleep(1.5); print('done'); raise SystemExit(3)")

    assert perfzero("record", *NVML, "--profiling-duration", "0.3", "--", *program) == 3
    assert capfd.readouterr().out == "done\n"
    manifest = open_recording(tmp_path / "r").manifest
    assert manifest.state == "complete"
    assert manifest.process.exit_code is None  # it ran on when the recording was closed
    assert manifest.ended_ns is not None
    assert 0.3e9 <= manifest.ended_ns - manifest.created_ns < 1.4e9


def test_a_process_that_runs_already_is_watched_to_its_end_and_no_exit_code_of_ours(
    perfzero: Perfzero, library: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1); raise SystemExit(6)"])

    assert perfzero("record", *NVML, "--pid", other.pid) == 0
    assert other.wait() == 6
    assert open_recording(tmp_path / "r").manifest.process.pid == other.pid


# --- when nothing can be measured ------------------------------------------------------------


def no_library(monkeypatch: pytest.MonkeyPatch, library: Any) -> None:
    """libnvidia-ml is not installed."""

    def absent(*_: object) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", absent)


def no_driver(monkeypatch: pytest.MonkeyPatch, library: Any) -> None:
    """It is, but no driver is loaded."""
    library.fail["nvmlInitWithFlags"] = pynvml.NVML_ERROR_DRIVER_NOT_LOADED


def no_gpu(monkeypatch: pytest.MonkeyPatch, library: Any) -> None:
    """The driver shows no GPU."""
    library.boards = []


@pytest.mark.parametrize("verb", ["run", "record"])
@pytest.mark.parametrize("missing", [no_library, no_driver, no_gpu])
@pytest.mark.parametrize(("how", "code"), [("CMD", 125), ("--gpu 0", 3), ("--pid 1", 3)])
def test_without_a_gpu_nothing_is_started_and_the_exit_code_says_whose_fault_it_is(
    verb: str,
    how: str,
    code: int,
    missing: Callable[..., None],
    perfzero: Perfzero,
    python: Python,
    library: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    missing(monkeypatch, library)
    target = ["--", *python(MARK)] if how == "CMD" else how.split()

    assert perfzero(verb, *target) == code
    told = capfd.readouterr()
    assert told.out == ""
    assert told.err.startswith("perfzero: ")
    assert "\n" in told.err.strip()  # what happened, and on a line of its own what to do
    assert list(tmp_path.iterdir()) == []


def test_averages_that_were_demanded_and_this_gpu_has_not_are_exit_code_3(
    perfzero: Perfzero, library: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    library.boards[0].gpm = False

    assert perfzero("record", "--source", "gpm", "--gpu", "0") == 3
    assert "GPM" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_but_they_do_not_end_the_program_that_was_to_be_watched(
    perfzero: Perfzero, python: Python, library: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    library.boards[0].gpm = False

    assert perfzero("record", "--source", "gpm", "--", *python("print('done'); raise SystemExit(8)")) == 8
    assert capfd.readouterr().out == "done\n"


def test_counters_that_another_tool_holds_end_a_recording_that_needs_them(
    sampler: Callable[[str], None], perfzero: Perfzero, capfd: pytest.CaptureFixture[str]
) -> None:
    sampler("device.busy = True")

    assert perfzero("record", "--source", "pm", "--gpu", "0") == 5
    told = capfd.readouterr()
    assert told.out == ""
    assert "perfzero: Another tool holds the hardware counters" in told.err
    assert "perfzero record --source gpm" in told.err  # the way out


def test_they_do_not_end_the_program_that_runs_meanwhile(
    sampler: Callable[[str], None], perfzero: Perfzero, python: Python, capfd: pytest.CaptureFixture[str]
) -> None:
    sampler("device.busy = True")
    program = python("import time; time.sleep(2); print('done'); raise SystemExit(4)")

    assert perfzero("record", "--source", "pm", "--", *program) == 4
    told = capfd.readouterr()
    assert told.out == "done\n"
    assert "perfzero: Another tool holds the hardware counters" in told.err


# --- where it is written ---------------------------------------------------------------------


def test_a_folder_that_holds_something_is_left_alone_unless_forced(
    perfzero: Perfzero, python: Python, library: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert perfzero("record", *NVML, "--", "true") == 0
    (tmp_path / "r" / "notes.txt").write_text("mine")
    first = (tmp_path / "r" / "manifest.json").read_bytes()

    assert perfzero("record", *NVML, "--", *python(MARK)) == 2
    assert "is not empty" in capfd.readouterr().err
    assert (tmp_path / "r" / "manifest.json").read_bytes() == first
    assert not (tmp_path / "started").exists()

    assert perfzero("record", *NVML, "--force", "--", *python(MARK)) == 0
    assert (tmp_path / "r" / "manifest.json").read_bytes() != first
    assert (tmp_path / "r" / "notes.txt").read_text() == "mine"


def test_runs_of_the_same_second_get_folders_of_their_own_named_after_the_script(
    perfzero: Perfzero, library: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopped(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            assert tz is timezone.utc
            return datetime(2026, 11, 29, 14, 2, 11, tzinfo=tz)

    monkeypatch.setattr(command, "datetime", Stopped)
    (tmp_path / "train.py").write_text("")

    for _ in range(3):
        assert perfzero("record", "--source", "nvml", "--", sys.executable, "train.py", "--lr", "0.1") == 0

    base = "train-2026-11-29T14-02-11"
    made = sorted(path.name for path in (tmp_path / "perfzero-runs").iterdir())
    assert made == [base, f"{base}-2", f"{base}-3"]
    assert all((tmp_path / "perfzero-runs" / name / "manifest.json").exists() for name in made)


def test_ranks_that_start_together_get_folders_of_their_own(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as ranks:
        made = list(
            ranks.map(lambda _: command.free_folder(tmp_path / "x", Target(command=("train",))), range(64))
        )
    assert len(set(made)) == 64
    assert all(path.is_dir() for path in made)


@pytest.mark.parametrize(("target", "code"), [(["--", "true"], 125), (["--gpu", "0"], 2)])
@pytest.mark.parametrize("where", [[], ["-o", "perfzero-runs/r"]])
def test_where_nothing_can_be_written_is_our_failure_before_a_program_and_else_a_wrong_choice(
    target: list[str],
    code: int,
    where: list[str],
    perfzero: Perfzero,
    library: Any,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "perfzero-runs").write_text("a file is in the way")

    assert perfzero("record", "--source", "nvml", *where, *target) == code
    assert "No recording can be written to perfzero-runs/" in capfd.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["perfzero-runs"]


@pytest.mark.skipif(os.getuid() != 0, reason="giving files away takes root")
def test_under_sudo_the_caller_gets_what_we_wrote_and_nothing_else(
    perfzero: Perfzero, library: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = Invoker("caller", uid=4711, gid=4712, home="/")
    monkeypatch.setattr("perfzero.record.launch.invoking_user", lambda: caller)
    (tmp_path / "there").mkdir()
    for name in ("notes.txt", "summary.csv"):
        (tmp_path / "there" / name).write_text("mine")

    for folder in ("there", "new/r"):
        assert (
            perfzero(
                *("record", "--source", "nvml", "--gpu", "0", "--profiling-duration", "0.3"),
                *("--force", "-o", folder),
            )
            == 0
        )

    def owner(name: str) -> int:
        return (tmp_path / name).stat().st_uid

    assert {name: owner(name) for name in ("new", "new/r", "new/r/manifest.json", "new/r/events.jsonl")} == (
        dict.fromkeys(("new", "new/r", "new/r/manifest.json", "new/r/events.jsonl"), 4711)
    )
    assert owner("there/manifest.json") == owner("there/board-gpu0.arrow") == 4711
    assert owner("there") == owner("there/notes.txt") == owner("there/summary.csv") == 0


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (Target(command=("python", "train.py")), "train"),
        (Target(command=("python", "-u", "src/models/train.py", "--data", "x.py")), "train"),
        (Target(command=("torchrun", "--nproc_per_node", "4", "train.py")), "train"),
        (Target(command=("/usr/bin/nbody", "-n", "4")), "nbody"),
        (Target(command=("python3.11", "-c", "print(1)")), "python3"),
        (Target(command=("--odd",)), "program"),
        (Target(pid=4711), "pid4711"),
        (Target(command=("python", "-m", "pkg.train", "--lr", "1")), "pkg.train"),
        (Target(command=("python3", "-u", "-m", "torch.distributed.run", "train.py")), "train"),
        (Target(command=("make", "-m", "x")), "make"),
        (Target(gpus=("0", "1")), "gpu0-1"),
        (Target(gpus=("MIG-GPU-8a/1/0",)), "gpuMIG-GPU-8a_1_0"),
    ],
)
def test_a_folder_is_named_after_what_is_watched(target: Target, name: str) -> None:
    assert command.program_name(target) == name


@pytest.mark.parametrize("odd", ["../../x", "a b;c", "日本語", "x" * 300, "\n", "/"])
def test_a_name_is_always_one_short_part_of_a_path(odd: str) -> None:
    for words in ((odd,), ("python", f"{odd}.py")):
        name = command.program_name(Target(command=words))
        assert re.fullmatch(r"[A-Za-z0-9_.-]{1,40}", name), name
