"""`perfzero export` from the command line: where it writes, what it refuses, and how it ends."""

from __future__ import annotations

import fcntl
import os
import pty
import resource
import shutil
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perfzero.cli import export as command
from perfzero.cli import main as main_module
from perfzero.report import perfetto, tables

Run = Callable[..., int]

RECORDINGS = Path(__file__).parents[1] / "recordings"
FORMATS = {"perfetto": "trace.pftrace", "csv": "csv", "json": "samples.json", "parquet": "parquet"}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """A function that runs `perfzero export ARGS` to its exit code, without loading other commands."""
    monkeypatch.setattr(main_module, "COMMANDS", ("export",))
    return lambda *arguments: main_module.main(["export", *map(str, arguments)])


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RECORDINGS / "gpm_only", tmp_path / "run"))


@pytest.fixture
def other(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RECORDINGS / "busy_window", tmp_path / "other"))


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


@pytest.mark.parametrize("kind", FORMATS)
def test_it_goes_into_the_recording_s_folder_and_a_second_time_replaces_it(
    kind: str, recording: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    before = names(recording)
    assert run(recording, "--format", kind) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert f"{recording / FORMATS[kind]}: " in told.err
    assert names(recording) - before == {FORMATS[kind]}
    assert run(recording, "--format", kind, "--quiet") == 0
    assert capsys.readouterr() == ("", "")
    assert names(recording) - before == {FORMATS[kind]}


@pytest.mark.parametrize("kind", FORMATS)
def test_an_export_of_another_recording_is_replaced_only_if_that_is_said(
    kind: str, recording: Path, other: Path, tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "out"
    assert run(other, "--format", kind, "-o", to) == 0
    before = to.stat().st_mtime_ns
    assert run(recording, "--format", kind, "-o", to) == 2
    assert "not of this recording" in capsys.readouterr().err
    assert to.stat().st_mtime_ns == before
    assert run(recording, "--format", kind, "-o", to, "--force") == 0
    assert run(recording, "--format", kind, "-o", to) == 0


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("force", [False, True])
def test_a_folder_that_holds_something_else_is_never_removed(
    kind: str, force: bool, recording: Path, tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "home"
    to.mkdir()
    (to / "thesis.tex").write_text("mine")
    (to / "recording.json").write_text("{}")
    assert run(recording, "--format", kind, "-o", to, *(["--force"] if force else [])) == 2
    assert "'thesis.tex'" in capsys.readouterr().err
    assert (to / "thesis.tex").read_text() == "mine"


@pytest.mark.parametrize("kind", FORMATS)
def test_a_link_is_not_followed(
    kind: str, recording: Path, tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """A recording may come from anyone, with a link where the export would go."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (recording / FORMATS[kind]).symlink_to(precious)
    assert run(recording, "--format", kind, "--force") == 2
    assert "is a link" in capsys.readouterr().err
    assert names(precious) == set()


@pytest.mark.parametrize(("kind", "there"), [("perfetto", "folder"), ("json", "folder"), ("csv", "file")])
def test_a_folder_is_no_file_and_a_file_no_folder(
    kind: str, there: str, recording: Path, tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "out"
    if there == "folder":
        to.mkdir()
    else:
        to.write_text("mine")
    assert run(recording, "--format", kind, "-o", to, "--force") == 2
    assert "-o" in capsys.readouterr().err
    assert to.is_dir() or to.read_text() == "mine"


@pytest.mark.parametrize("kind", FORMATS)
def test_ctrl_c_leaves_nothing_half_done(
    kind: str, recording: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    before = names(recording)
    monkeypatch.setattr(perfetto, "_host", interrupted)
    monkeypatch.setattr(tables, "_events", interrupted)
    assert run(recording, "--format", kind) == 130
    assert names(recording) == before


@contextmanager
def small_disk() -> Iterator[None]:
    """No file may become larger than 20 kB: the kernel refuses as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_full_disk_is_told_with_what_to_type_and_leaves_nothing(
    kind: str, other: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    before = names(other)
    with small_disk():
        assert run(other, "--format", kind) == 1
    told = capsys.readouterr().err
    assert "could not be written: File too large" in told
    assert f"perfzero export {other} --format {kind} -o OUT" in told
    assert names(other) == before


def test_a_folder_that_is_not_there_yet_is_made(recording: Path, tmp_path: Path, run: Run) -> None:
    assert run(recording, "--format", "perfetto", "-o", tmp_path / "a" / "b" / "c.pftrace", "--quiet") == 0
    assert (tmp_path / "a" / "b" / "c.pftrace").stat().st_size > 1_000


def test_of_no_recording_nothing_is_exported(tmp_path: Path, run: Run) -> None:
    assert run(tmp_path, "--format", "csv") == 4
    assert names(tmp_path) == set()


def test_a_format_is_to_be_named(recording: Path, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(recording) == 2
    assert "--format" in capsys.readouterr().err
    assert run(recording, "--format", "xlsx") == 2
    assert "parquet" in capsys.readouterr().err


def test_every_sample_is_for_perfetto_alone(
    recording: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(recording, "--format", "perfetto", "--every-sample", "--quiet") == 0
    assert run(recording, "--format", "csv", "--every-sample") == 2
    assert "every sample anyway" in capsys.readouterr().err


def test_merged_samples_and_doubts_are_told(
    other: Path, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(perfetto, "MOST_VALUES", 10_000)
    assert run(other, "--format", "perfetto") == 0
    assert "up to 4 samples" in capsys.readouterr().err


def test_the_newest_recording_is_taken_where_none_is_named(
    recording: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = recording.parent / "perfzero-runs"
    runs.mkdir()
    recording.rename(runs / "newest")
    monkeypatch.chdir(runs.parent)
    assert run("--format", "json", "--quiet") == 0
    assert (runs / "newest" / "samples.json").is_file()


def test_without_the_perfetto_package_the_other_formats_work(
    recording: Path, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "perfetto.protos.perfetto.trace", None)
    assert run(recording, "--format", "perfetto") == 2
    assert "pip install 'perfzero[perfetto]'" in capsys.readouterr().err
    assert not (recording / "trace.pftrace").exists()
    assert run(recording, "--format", "csv", "--quiet") == 0


def test_on_a_terminal_it_tells_what_it_does_on_one_line_and_takes_that_away(recording: Path) -> None:
    ours, theirs = pty.openpty()
    program = subprocess.Popen(
        [sys.executable, "-m", "perfzero", "export", str(recording), "--format", "perfetto"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # the terminal becomes its own
    )
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 65536):
            seen += chunk
    except OSError:  # the other end was closed
        pass
    os.close(ours)
    assert program.wait(timeout=60) == 0
    assert b"\r\x1b[Kperfzero: exporting, judging" in seen
    assert b"exporting, GPU 0" in seen
    assert (
        seen.rpartition(b"exporting")[2].partition(b"\x1b[K")[2].lstrip().startswith(str(recording).encode())
    )


def test_the_formats_are_told_in_the_help(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    told = capsys.readouterr().out
    assert all(kind in told for kind in FORMATS)
    assert {kind.value for kind in command.PLACES} == set(FORMATS)
