"""A command speaks as --lang says, else as the locale does; errors and usage errors, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfzero.cli.language import Language, spoken
from perfzero.cli.main import COMMANDS, build_app, main
from perfzero.words.catalogue import LANGUAGES

SPEAKING = ("run", "record", "analyze", "demo", "doctor", "calibrate", "compare", "log", "trim")


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_TW"}, "zh"),
        ({"LANG": "zh-Hans.UTF-8"}, "zh"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LANG": "C.UTF-8"}, "en"),
        ({"LANG": "zh_CN.UTF-8", "LC_MESSAGES": "en_US.UTF-8"}, "en"),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_CN.UTF-8"}, "zh"),
        ({"LC_MESSAGES": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LC_ALL": "", "LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LC_CTYPE": "zh_CN.UTF-8", "LANG": "en_US.UTF-8"}, "en"),
    ],
)
def test_the_locale_of_messages_decides(environment: dict[str, str], language: str) -> None:
    assert spoken(None, environment) == language


def test_what_is_asked_for_goes_before_the_locale() -> None:
    assert spoken(Language.EN, {"LC_ALL": "zh_CN.UTF-8"}) == "en"
    assert spoken(Language.ZH, {"LC_ALL": "C"}) == "zh"


def test_every_language_can_be_asked_for() -> None:
    assert tuple(language.value for language in Language) == LANGUAGES


def test_an_error_is_told_in_the_language_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyze", str(tmp_path / "none"), "--lang", "zh"]) == 4
    assert capsys.readouterr().err == (
        f"perfzero: {tmp_path}/none 不存在。\n请做一次录制：perfzero record -o {tmp_path}/none -- COMMAND\n"
    )


def test_an_error_is_told_in_the_language_of_the_locale(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert main(["analyze", str(tmp_path)]) == 4
    assert "里没有录制" in capsys.readouterr().err
    assert main(["analyze", str(tmp_path), "--lang", "en"]) == 4
    assert "holds no recording" in capsys.readouterr().err


def test_what_the_program_is_asked_is_no_language_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", "--window", "1us", "--", "train", "--lang", "zh"]) == 2
    assert "takes a duration" in capsys.readouterr().err


def test_a_usage_error_of_another_option_is_told_in_the_language_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["record", "--window", "1us", "--lang", "zh", "--", "train"]) == 2
    assert "--window 要给出" in capsys.readouterr().err


@pytest.mark.parametrize("command", SPEAKING)
def test_an_unknown_language_is_a_usage_error_that_names_those_there_are(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--lang", "fr"]) == 2
    said = capsys.readouterr().err
    assert all(language in said for language in LANGUAGES)


def test_commands_that_talk_take_a_language() -> None:
    assert set(SPEAKING) <= set(COMMANDS)
    assert build_app(SPEAKING) is not None


def test_a_doctor_speaks_chinese_and_its_json_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--quick", "--lang", "zh"]) == 0
    told = capsys.readouterr().out
    assert main(["doctor", "--quick", "--lang", "zh", "--format", "json"]) == 0
    found = capsys.readouterr().out

    assert "计数器开放给" in told
    assert found.isascii()


def test_files_for_programs_are_english_in_any_language(tmp_path: Path) -> None:
    recording = Path(__file__).parents[1] / "recordings" / "tiny_kernels"
    for language in LANGUAGES:
        assert main(["analyze", str(recording), "--output-dir", str(tmp_path / language), "--quiet",
                     "--lang", language]) == 0  # fmt: skip
    made = sorted(path.name for path in (tmp_path / "en").iterdir())
    same = [n for n in made if (tmp_path / "en" / n).read_bytes() == (tmp_path / "zh" / n).read_bytes()]

    other = {name for name in made if name not in same} - {"timeline.png"}  # Chinese where a font has it
    assert other == {"report.html"}
