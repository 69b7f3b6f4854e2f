"""`perfzero run --against`: the sentence after the verdict, and what happens where there is none to say."""

from __future__ import annotations

import json
import os
import shutil
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from perfzero.cli.against import chosen_earlier, compare_with
from perfzero.errors import NoRecording, UsageError

RECORDINGS = Path(__file__).parents[1] / "recordings"
GPM = ("--source", "gpm")


def said(earlier: Path, path: Path) -> str:
    stream = StringIO()
    compare_with(earlier, path, stream=stream)
    return " ".join(stream.getvalue().split())


def test_the_new_run_is_held_against_the_earlier_one_in_a_sentence() -> None:
    told = said(RECORDINGS / "resnet50_nchw", RECORDINGS / "resnet50_channels_last")

    assert told.startswith("This run is 1.93× as fast as resnet50_nchw (1.92–1.93×), as foreseen (1.1–2.3×).")
    assert "perfzero compare " in told


def test_the_line_that_compares_again_is_quoted_for_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("last", "my  run"):
        (tmp_path / name).symlink_to(RECORDINGS / "resnet50_nchw")
    stream = StringIO()
    compare_with(Path("last"), Path("my  run"), stream=stream)

    assert "\n  perfzero compare ./last 'my  run'\n" in stream.getvalue()


def test_an_earlier_recording_that_is_broken_is_a_sentence_and_no_failure(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{")

    assert said(tmp_path, RECORDINGS / "resnet50_nchw").startswith("perfzero: ")


def test_the_last_one_is_the_newest_before_the_new_one_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(RECORDINGS / "gpm_only", tmp_path / "perfzero-runs" / "one")

    assert chosen_earlier("last", report=True) == Path("perfzero-runs/one")
    with pytest.raises(UsageError, match="run --against"):
        chosen_earlier("last", report=False)


def test_what_is_no_recording_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for named in ("last", str(tmp_path)):
        with pytest.raises(NoRecording):
            chosen_earlier(named, report=True)


def test_a_run_ends_as_its_program_and_tells_the_comparison_after_the_verdict(
    perfzero: Any, library: Any, python: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    library.gpm_values = {1: 99.0, 2: 97.0, 5: 80.0, 10: 10.0, 12: 3.0}
    program = python("import time, sys; time.sleep(0.9); sys.exit(5)")
    assert perfzero("run", *GPM, "--quiet", "--", *program) == 5
    capfd.readouterr()

    assert perfzero("run", *GPM, "--against", "last", "--", *program) == 5
    told = " ".join(capfd.readouterr().err.split())
    assert "How fast this run is against python-" in told
    assert "no step time was found in python-" in told


def test_without_an_earlier_recording_the_program_is_not_started(
    perfzero: Any, library: Any, python: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = python(f"open({str(tmp_path / 'started')!r}, 'w')")

    assert perfzero("run", *GPM, "--against", "last", "--", *program) == 4
    assert not (tmp_path / "started").exists()
    assert "no recording" in capfd.readouterr().err


def test_the_last_one_is_the_newest_of_the_same_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / "perfzero-runs"
    for number, name in enumerate(("resnet50_nchw", "transformer_healthy", "resnet50_channels_last")):
        shutil.copytree(RECORDINGS / name, runs / name)
        os.utime(runs / name / "manifest.json", (number + 1, number + 1))
    (runs / "broken").mkdir()
    (runs / "broken" / "manifest.json").write_text("{")
    command = ("python3", "zoo/resnet50.py", "--seconds", "16", "--log", "elsewhere")

    assert chosen_earlier("last", report=True, command=command).name == "resnet50_nchw"
    assert chosen_earlier("last", report=True, command=("other",)).name == "resnet50_channels_last"


@pytest.mark.parametrize(("every_s", "chosen"), [(3600.0, "transformer_healthy"), (10.0, "resnet50_nchw")])
def test_the_last_one_is_no_close_look_of_top(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every_s: float, chosen: str
) -> None:
    """The newest recording watched a GPU: once, as a close look does, or in windows, as a run without end."""
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / "perfzero-runs"
    for number, name in enumerate(("transformer_healthy", "resnet50_nchw")):
        shutil.copytree(RECORDINGS / name, runs / name)
        os.utime(runs / name / "manifest.json", (number + 1, number + 1))
    newest = runs / "resnet50_nchw" / "manifest.json"
    manifest = json.loads(newest.read_text())
    manifest["process"] |= {"pid": None, "command": []}
    manifest["settings"]["every_s"] = every_s
    newest.write_text(json.dumps(manifest))
    os.utime(newest, (9, 9))

    assert chosen_earlier("last", report=True, command=("other",)).name == chosen


def test_another_program_is_said_to_be_one() -> None:
    told = said(RECORDINGS / "resnet50_nchw", RECORDINGS / "resnet50_channels_last")
    same = said(RECORDINGS / "resnet50_nchw", RECORDINGS / "resnet50_nchw")

    assert "That was another program: python3 zoo/resnet50.py --seconds 16" in told
    assert "another program" not in same
