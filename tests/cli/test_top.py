"""`perfzero top` at the command line."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pynvml
import pytest

from perfzero.cli import top as top_module
from perfzero.cli.main import main

RECORDING = str(Path(__file__).parents[1] / "recordings" / "resnet50_nchw")

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def asleep(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """No time passes; what was slept is told."""
    slept: list[float] = []
    monkeypatch.setattr(top_module.time, "sleep", slept.append)
    return slept


@pytest.fixture
def working(library: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    library.gpm_values = {1: 97.0, 2: 80.0, 5: 40.0, 10: 30.0}
    monkeypatch.setattr("perfzero.sources.gpm.MIN_PAIR_NS", 0)
    return library


def test_one_reading_as_text(working: Any, asleep: list[float], capsys: Captured) -> None:
    assert main(["top", "--once"]) == 0

    said = capsys.readouterr().out
    assert "Simulated H200" in said
    assert "80%" in said
    assert "38%" in said
    assert asleep == [1.0]


def test_one_reading_in_chinese_as_asked_or_as_the_locale_says(
    working: Any, asleep: list[float], capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["top", "--once", "--lang", "zh"]) == 0
    asked = capsys.readouterr().out
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert main(["top"]) == 0
    by_locale = capsys.readouterr().out
    assert main(["top", "--lang", "en"]) == 0
    english = capsys.readouterr().out

    for said in (asked, by_locale):
        assert "SM 忙碌" in said
        assert "SMs busy" not in said
    assert "SMs busy" in english
    assert "SM 忙碌" not in english


def test_ascii_is_english(working: Any, asleep: list[float], capsys: Captured) -> None:
    assert main(["top", "--once", "--lang", "zh", "--ascii"]) == 0

    said = capsys.readouterr().out
    assert said.isascii()
    assert "SMs busy" in said


def test_lines_for_programs_are_the_same_in_all_languages(asleep: list[float], capsys: Captured) -> None:
    found = []
    for language in ("en", "zh"):
        asked = ["top", "--once", "--format", "json", "--replay", RECORDING, "--lang", language]
        assert main(asked) == 0
        line = json.loads(capsys.readouterr().out)
        found.append((line["notices"], [gpu["without_gpm"] for gpu in line["gpus"]], line.keys()))

    assert found[0] == found[1]
    assert "measured on a real GPU" in found[0][0][0]


def test_where_there_is_no_terminal_one_reading_is_printed(
    working: Any, asleep: list[float], capsys: Captured
) -> None:
    assert main(["top"]) == 0

    assert "SMs busy" in capsys.readouterr().out


def test_a_line_of_json(working: Any, asleep: list[float], capsys: Captured) -> None:
    assert main(["top", "--once", "--format", "json", "--every", "500ms"]) == 0

    [line] = capsys.readouterr().out.splitlines()
    [gpu] = json.loads(line)["gpus"]
    assert gpu["sm_active"] == pytest.approx(0.8)
    assert len(asleep) == 1


def test_lines_of_json_come_until_the_reader_has_enough(
    working: Any, asleep: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Reader(io.StringIO):
        def flush(self) -> None:
            if self.getvalue().count("\n") == 3:
                raise BrokenPipeError

    reader = Reader()
    monkeypatch.setattr(sys, "stdout", reader)

    assert main(["top", "--format", "json"]) == 141

    assert [len(json.loads(line)["gpus"]) for line in reader.getvalue().splitlines()] == [1, 1, 1]


def test_ctrl_c_ends_it_and_gives_everything_back(working: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(top_module.time, "sleep", interrupted)

    assert main(["top", "--format", "json"]) == 130  # the fixture sees whether a session was left open


def test_a_recording_is_shown_where_its_program_works(asleep: list[float], capsys: Captured) -> None:
    assert main(["top", "--once", "--replay", RECORDING]) == 0

    said = capsys.readouterr().out
    assert re.search(r"SMs busy +8\d%", said), said
    assert "measured on a real GPU" in said


def test_ascii_on_demand_and_on_a_dumb_terminal(
    asleep: list[float], capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["top", "--once", "--replay", RECORDING, "--ascii"]) == 0
    assert capsys.readouterr().out.isascii()

    assert main(["top", "--once", "--replay", RECORDING]) == 0
    assert not capsys.readouterr().out.isascii()

    monkeypatch.setenv("TERM", "dumb")
    assert main(["top", "--once", "--replay", RECORDING]) == 0
    assert capsys.readouterr().out.isascii()


def test_without_a_gpu_it_ends_with_what_the_doctor_says(library: Any, capsys: Captured) -> None:
    library.fail["nvmlInitWithFlags"] = int(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    assert main(["top"]) == 3

    said = capsys.readouterr().err
    assert "No NVIDIA GPU can be read here: There is no NVIDIA driver here" in said
    assert "More: the GPU" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--every", "10ms"], "--every takes a duration"),
        (["--every", "soon"], "--every takes a duration"),
        (["--gpu", ","], "--gpu takes indices"),
        (["--gpu", "0", "--replay", RECORDING], "not both"),
        (["--gpu", "9"], "no GPU '9'"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused(
    working: Any, arguments: list[str], said: str, capsys: Captured
) -> None:
    assert main(["top", *arguments]) == 2

    assert said in capsys.readouterr().err


def test_a_command_line_that_makes_no_sense_is_refused_in_chinese(capsys: Captured) -> None:
    assert main(["top", "--lang", "zh", "--gpu", "0", "--replay", RECORDING]) == 2

    assert "不能两者都要" in capsys.readouterr().err


def test_a_recording_that_is_none_is_refused(tmp_path: Path) -> None:
    assert main(["top", "--once", "--replay", str(tmp_path)]) == 4
