"""`perfzero analyze` from the command line: what it prints, where, and how it ends."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from perfzero.cli import analyze as command
from perfzero.cli import main as main_module
from perfzero.errors import NoRecording
from perfzero.store.writer import RecordingWriter
from perfzero.values import Gpu, Process, Samples

Run = Callable[..., int]

START = 1_796_000_000_000_000_000


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """A function that runs `perfzero analyze ARGS` to its exit code, without loading other commands."""
    monkeypatch.setattr(main_module, "COMMANDS", ("analyze",))
    return lambda *arguments: main_module.main(["analyze", *map(str, arguments)])


@pytest.fixture
def record() -> Callable[[Path], Path]:
    """A function that writes a small recording of one GPU, 40 s of NVML readings."""

    def write(folder: Path) -> Path:
        edges = START + np.arange(41, dtype=np.int64) * 1_000_000_000
        busy = Samples(edges[:-1], edges[1:], {"smi_utilization": np.full(40, 0.97)})
        gpu = Gpu(0, "GPU-0", "NVIDIA T4", compute_capability=(7, 5))
        with RecordingWriter(
            folder,
            gpus=[gpu],
            process=Process(1, ("python", "train.py")),
            settings={},
            tiers={0: "nvml"},
            tier_reasons={0: "no permission"},
        ) as writer:
            writer.append("board", 0, busy)
        return folder

    return write


def test_a_recording_is_judged_and_its_files_are_named(
    tmp_path: Path, record: Callable[[Path], Path], run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = record(tmp_path / "run")
    assert run(folder) == 0
    told = capsys.readouterr()
    assert "no verdict" in told.out
    assert "report.json  summary.csv  report.html  timeline.csv  timeline.png" in "  ".join(told.out.split())
    assert "Why: no permission." in " ".join(told.out.split())
    assert told.err == ""
    assert (folder / "report.json").exists()


def test_json_is_the_only_thing_on_stdout(
    tmp_path: Path, record: Callable[[Path], Path], run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = record(tmp_path / "run")
    assert run("--input-dir", folder, "--format", "json", "--quiet") == 0
    assert json.loads(capsys.readouterr().out) == json.loads((folder / "report.json").read_bytes())


def test_quiet_writes_the_files_and_says_nothing(
    tmp_path: Path, record: Callable[[Path], Path], run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(record(tmp_path / "run"), "--output-dir", tmp_path / "out", "--quiet") == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / "out" / "summary.csv").exists()


def test_a_recording_named_twice_is_a_usage_error(
    tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "--input-dir", tmp_path) == 2
    assert "named twice" in capsys.readouterr().err


def test_without_a_name_the_newest_recording_is_taken(
    tmp_path: Path,
    record: Callable[[Path], Path],
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / "perfzero-runs"
    for name, age in (("b-old", 100), ("a-new", 10)):
        manifest = record(runs / name) / "manifest.json"
        os.utime(manifest, (manifest.stat().st_mtime - age,) * 2)
    assert run() == 0
    assert (runs / "a-new" / "report.json").exists()
    assert not (runs / "b-old" / "report.json").exists()


def test_without_any_recording_it_says_how_to_make_one(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run() == 4
    assert "perfzero run -- python train.py" in capsys.readouterr().err


def test_a_folder_that_is_no_recording_is_not_the_newest(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    with pytest.raises(NoRecording, match="no recording"):
        command.newest_recording(tmp_path)


@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"format": 999}'])
def test_what_is_no_recording_ends_with_one_clear_message(
    tmp_path: Path, content: str | None, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    if content is not None:
        folder.mkdir()
        if content:
            (folder / "manifest.json").write_text(content)
    assert run(folder) == 4
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("perfzero: ")
    assert str(folder) in told.err
    assert "Traceback" not in told.err


def test_a_full_disk_prints_the_verdict_and_then_fails(
    tmp_path: Path,
    record: Callable[[Path], Path],
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = record(tmp_path / "run")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert run(folder) == 1
    told = capsys.readouterr()
    assert "no verdict" in told.out
    assert "could not be written (No space left on device)" in told.err
