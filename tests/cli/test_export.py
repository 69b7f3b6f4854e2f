"""`perfzero export` from the command line: where it writes, what it refuses, and how it ends."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import resource
import shutil
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from perfzero.cli import export as command
from perfzero.cli import main as main_module
from perfzero.cli.ending import ENDING, ended_by_signals
from perfzero.report import analysis, perfetto, tables

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


OWN = ("manifest.json", "events.jsonl", "pm-gpu0.arrow", "gpm-gpu0.arrow", "stacks.json.gz", "look-7.json.gz")
"""Files of recordings, of which `gpm_only` has some."""


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("by_link", [False, True])
def test_files_of_a_recording_are_never_written_whatever_the_format_and_the_way_there(
    kind: str, by_link: bool, recording: Path, other: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own and those of another one, those that are there and those that would be taken for its own."""
    before = {folder: contents(folder) for folder in (recording, other)}
    for folder in before:
        way = folder
        if by_link:
            way = folder.parent / f"link-to-{folder.name}"
            way.symlink_to(folder)
        for name in OWN:
            assert run(recording, "--format", kind, "-o", way / name, "--force") == 2
            assert "file of the recording in" in capsys.readouterr().err
        assert run(recording, "--format", kind, "-o", way, "--force") == 2
    assert {folder: contents(folder) for folder in before} == before


def test_names_of_a_recording_s_files_are_free_where_there_is_no_recording(
    recording: Path, tmp_path: Path, run: Run
) -> None:
    assert run(recording, "--format", "json", "-o", tmp_path / "manifest.json", "--quiet") == 0
    assert run(recording, "--format", "json", "-o", recording / "mine.json", "--quiet") == 0


def contents(folder: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in folder.iterdir()}


@pytest.mark.parametrize("kind", ["perfetto", "json"])
@pytest.mark.parametrize(
    "there",
    [
        b"my thesis",
        b'{"perfzero_export": 1}',
        b"\n\x19\x18\x07P\x01\xca\x05\x14",
        b"\n\x19P\x01\xca\x05\x14\x08",
    ],
    ids=["text", "half a head", "trace of others", "half a trace"],
)
def test_a_file_that_is_no_export_is_not_replaced_even_by_force(
    kind: str,
    there: bytes,
    recording: Path,
    tmp_path: Path,
    run: Run,
    capsys: pytest.CaptureFixture[str],
) -> None:
    to = tmp_path / "out"
    to.write_bytes(there)
    for force in ([], ["--force"]):
        assert run(recording, "--format", kind, "-o", to, *force) == 2
        assert "did not write it" in capsys.readouterr().err
    assert to.read_bytes() == there


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_folder_whose_files_only_have_names_of_tables_is_not_replaced_even_by_force(
    kind: str, recording: Path, tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "mine"
    to.mkdir()
    (to / f"notes.{kind}").write_text("mine")
    for about in (None, "{}", '{"identity": "mine"}', "[" * 100_000):
        if about is not None:
            (to / "recording.json").write_text(about)
        assert run(recording, "--format", kind, "-o", to, "--force") == 2
        assert "did not write it" in capsys.readouterr().err
    assert (to / f"notes.{kind}").read_text() == "mine"


def test_by_force_an_export_in_another_format_is_replaced_and_an_empty_file_is_without(
    recording: Path, other: Path, tmp_path: Path, run: Run
) -> None:
    to = tmp_path / "out"
    to.touch()
    assert run(recording, "--format", "json", "-o", to, "--quiet") == 0
    assert run(other, "--format", "perfetto", "-o", to) == 2
    assert run(other, "--format", "perfetto", "-o", to, "--force", "--quiet") == 0
    assert run(recording, "--format", "json", "-o", to, "--force", "--quiet") == 0


@pytest.mark.parametrize("kind", FORMATS)
def test_a_device_is_called_what_it_is_and_left_alone(
    kind: str, recording: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(recording, "--format", kind, "-o", "/dev/null", "--force") == 2
    told = capsys.readouterr().err
    assert ("neither a file nor a folder" if kind in ("perfetto", "json") else "is no folder") in told
    assert Path("/dev/null").is_char_device()


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


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_as_ctrl_c_does_with_its_own_exit_code(
    kind: str, number: signal.Signals, recording: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of them: what the second finds is being tidied up."""

    def ended(*_: object) -> None:
        assert any(".part" in name for name in names(recording))
        try:
            os.kill(os.getpid(), number)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    before = names(recording)
    monkeypatch.setattr(perfetto, "_host", ended)
    monkeypatch.setattr(tables, "_events", ended)
    assert run(recording, "--format", kind) == 128 + number
    assert names(recording) == before
    assert {signal.getsignal(n) for n in ENDING} == {signal.SIG_DFL}


def test_a_hangup_that_is_ignored_as_under_nohup_stays_so(
    recording: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hung_up(*_: object) -> dict[str, list[dict[str, object]]]:
        os.kill(os.getpid(), signal.SIGHUP)
        return {}

    monkeypatch.setattr(tables, "_events", hung_up)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert run(recording, "--format", "json", "--quiet") == 0
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_outside_the_main_thread_no_handler_is_set_and_the_block_runs(tmp_path: Path) -> None:
    def work() -> None:
        with ended_by_signals():
            (tmp_path / "done").touch()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert (tmp_path / "done").exists()


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


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("why", ["full", "interrupted", "a long name"])
def test_folders_that_were_made_for_an_export_that_failed_are_gone_again(
    kind: str, why: str, other: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "there").mkdir()
    to = tmp_path / "there" / "a" / "b" / ("c" * 300 if why == "a long name" else "c")
    before = names(tmp_path)
    if why == "interrupted":
        monkeypatch.setattr(perfetto, "_host", interrupted)
        monkeypatch.setattr(tables, "_events", interrupted)
    with small_disk() if why == "full" else nullcontext():
        assert run(other, "--format", kind, "-o", to) != 0
    assert names(tmp_path) == before
    assert list((tmp_path / "there").iterdir()) == []


def test_of_folders_that_were_made_for_it_those_stay_that_somebody_else_uses(
    other: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        (tmp_path / "a" / "mine.txt").write_text("mine")
        raise KeyboardInterrupt

    monkeypatch.setattr(tables, "_events", interrupted)
    assert run(other, "--format", "csv", "-o", tmp_path / "a" / "b" / "c") == 130
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["mine.txt"]


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
    assert run(other, "--format", "perfetto", "--every-sample") == 0
    assert "A value stands for" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("windows", "bursts", "said"),
    [(1, 1, ""), (3, 1, "up to 3 samples (1 in bursts)"), (1, 9, "up to 1 samples (9 in")],
)
def test_merging_is_told_where_only_bursts_are_merged_too(
    windows: int,
    bursts: int,
    said: str,
    recording: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(perfetto, "_merged", lambda *_: (windows, bursts))
    assert run(recording, "--format", "perfetto") == 0
    told = capsys.readouterr().err
    assert said in told
    assert ("A value stands for" in told) == bool(said)


def test_what_could_not_be_had_of_a_look_is_told(
    tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """And where all could be had, nothing is."""
    recording = shutil.copytree(RECORDINGS / "_looks" / "adversaries", tmp_path / "look")
    assert run(recording, "--format", "perfetto") == 0
    assert len(capsys.readouterr().err.splitlines()) == 2
    (recording / "look-3972.json.gz").write_bytes(b"no look")
    assert run(recording, "--format", "perfetto") == 0
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 3
    assert "look-3972.json.gz" in told[0]


PAGE = Path(__file__).parents[2] / "docs" / "export.md"
SHOWN = re.findall(
    r"^\$ perfzero export adversaries --format (\w+)\n(.*?)```",
    PAGE.read_text(encoding="utf-8"),
    re.DOTALL | re.M,
)


def test_the_page_shows_exports() -> None:
    assert [kind for kind, _ in SHOWN] == ["perfetto", "csv"]


@pytest.mark.parametrize(("kind", "shown"), SHOWN)
def test_what_the_page_shows_is_what_the_command_says(
    kind: str,
    shown: str,
    tmp_path: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(RECORDINGS / "_looks" / "adversaries", tmp_path / "adversaries")
    monkeypatch.chdir(tmp_path)
    assert run("adversaries", "--format", kind) == 0
    assert capsys.readouterr().err == shown


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
    recording: Path,
    tmp_path: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And Perfetto's is refused before anything is judged or made."""

    def judged(*_: object) -> None:
        raise AssertionError("judged in vain")

    monkeypatch.setitem(sys.modules, "perfetto.protos.perfetto.trace", None)
    with monkeypatch.context() as early:
        early.setattr(analysis, "judged_report", judged)
        assert run(recording, "--format", "perfetto", "-o", tmp_path / "a" / "b") == 2
    assert "pip install 'perfzero[perfetto]'" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()
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
