"""`perfzero compare`: what is named on the command line, and how it ends."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from perfzero.cli.compare import runs_of
from perfzero.cli.main import main
from perfzero.errors import NoRecording

RECORDINGS = Path(__file__).parents[1] / "recordings"
BEFORE, AFTER = str(RECORDINGS / "resnet50_nchw"), str(RECORDINGS / "resnet50_channels_last")


def test_two_recordings_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", BEFORE, AFTER]) == 0
    assert "B is 1.93× as fast as A" in capsys.readouterr().out


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--quiet", BEFORE, AFTER]) == 0
    assert capsys.readouterr().out == ""


def test_one_recording_is_no_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", BEFORE]) == 2
    assert "two recordings or more" in capsys.readouterr().err


def test_a_folder_that_is_no_recording_is_unreadable_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", BEFORE, str(tmp_path)]) == 4
    assert "holds no recording" in capsys.readouterr().err


def test_unlike_machines_have_their_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    shutil.copytree(AFTER, other)
    manifest = json.loads((other / "manifest.json").read_text())
    manifest["gpus"][0]["power_limit_w"] = 350.0
    (other / "manifest.json").write_text(json.dumps(manifest))

    assert main(["compare", BEFORE, str(other)]) == 11
    assert "power limit: 700 W (A), 350 W (B)" in capsys.readouterr().err
    assert main(["compare", "--force", "--quiet", BEFORE, str(other)]) == 0


def test_several_runs_are_named_with_commas_or_by_their_folder(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "manifest.json").write_text("{}")
    one, two = (tmp_path / "runs" / name for name in ("one", "two"))

    assert runs_of(str(tmp_path / "runs")) == ("runs", [one, two])
    assert runs_of(f"{one},{two}") == ("one", [one, two])
    assert runs_of(str(one)) == ("one", [one])


def test_a_folder_whose_name_has_a_comma_is_one_recording(tmp_path: Path) -> None:
    odd = tmp_path / "a,b"
    odd.mkdir()
    (odd / "manifest.json").write_text("{}")

    assert runs_of(str(odd)) == ("a,b", [odd])


def test_an_empty_folder_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(NoRecording, match="perfzero run"):
        runs_of(str(tmp_path))


def test_files_are_written_by_their_endings_and_not_over_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, page = tmp_path / "t.csv", tmp_path / "p.html"
    command = ["compare", "--quiet", BEFORE, AFTER, "-o", str(table), "-o", str(page)]

    assert main(command) == 0
    assert table.read_text().startswith("group,metric,")
    assert page.read_text().startswith("<!doctype html>")
    assert main(command) == 2
    assert "exists already" in capsys.readouterr().err
    assert main([*command, "--force"]) == 0


def test_an_ending_that_says_nothing_is_refused_before_any_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "nowhere", "nothing", "-o", "table.pdf"]) == 2
    assert ".xlsx" in capsys.readouterr().err


def test_a_condition_that_holds_ends_with_10_and_one_that_does_not_with_0(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["compare", "--quiet", AFTER, BEFORE, "--fail-if", "throughput < -2%"]) == 10
    assert "holds. step_rate of B against A: -48 %" in capsys.readouterr().err
    assert main(["compare", "--quiet", BEFORE, AFTER, "--fail-if", "throughput < -2%"]) == 0


def test_an_unknown_metric_is_a_usage_error_before_any_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "nowhere", "nothing", "--fail-if", "speeed < 1%"]) == 2
    assert "There are: throughput" in capsys.readouterr().err


def test_json_goes_to_stdout_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--format", "json", BEFORE, AFTER]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == 1
