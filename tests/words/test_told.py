"""The same sentence in another language, also if it comes from a file; anything else as it is."""

from __future__ import annotations

import pytest

from perfzero.words.catalogue import LANGUAGES, catalogue
from perfzero.words.said import clause, enumeration, first_line, joined, say
from perfzero.words.told import LONGEST, fitted, recalled, told


def test_a_sentence_is_told_in_either_language() -> None:
    said = say("smi_said", smi="33 %")

    assert told(said, "en") == "nvidia-smi said 33 %."
    assert told(said, "zh") == "nvidia-smi 显示 33 %。"


def test_a_sentence_within_a_sentence_is_told_too() -> None:
    said = say("of_several", index=0, count=2, headline=say("smi_said", smi="33 %"))

    assert told(said, "zh") == "GPU 0（共 2 块）：nvidia-smi 显示 33 %。"


def test_sentences_in_a_row_are_told_one_by_one() -> None:
    said = joined("join.sentences", [say("smi_said", smi="33 %"), say("roofs_by_table")])

    assert told(said, "zh") == "nvidia-smi 显示 33 %。屋顶取自内置表。"


def test_a_clause_has_no_full_stop_in_any_language() -> None:
    assert told(clause(say("smi_said", smi="33 %")), "zh") == "nvidia-smi 显示 33 %"


def test_an_enumeration_is_told_with_its_own_and() -> None:
    assert told(enumeration(["a", "b", "c"]), "zh") == "a、b 和 c"


@pytest.mark.parametrize(
    "name", ["ampere_bf16_gemm", "train.py", "void at::native::copy<float>(int, int)", ""]
)
def test_names_are_told_as_they_are(name: str) -> None:
    assert told(name, "zh") == name


def test_a_language_without_a_catalogue_is_refused_by_name() -> None:
    with pytest.raises(KeyError, match="'fr'; there are: en, zh"):
        catalogue("fr")


@pytest.mark.parametrize("key", ["roofs_by_table", "cost_cpu", "smi_said", "no_phases"])
def test_a_sentence_from_a_file_is_recalled_with_its_values(key: str) -> None:
    said = say(key, cpu="3.1 s", share="8.2 %", smi="33 %", reason="too short")
    again = recalled(str(said))

    assert again is not None
    assert (again, again.key) == (said, key)
    assert told(str(said), "zh") == told(said, "zh")


def test_what_a_value_of_a_recalled_sentence_says_is_told_too() -> None:
    plain = str(say("no_phases", reason=say("truth_unknown")))

    assert told(plain, "zh") == "未划分阶段：" + told(say("truth_unknown"), "zh")


def test_a_sentence_that_has_lost_its_full_stop_is_recalled_without() -> None:
    assert told("nvidia-smi said 33 %", "zh") == "nvidia-smi 显示 33 %"


def test_the_first_line_of_a_message_is_recalled_alone() -> None:
    message = say("file.no_folder", folder="runs/a", new="runs/a", what=say("file.not_there"))
    first = str(first_line(message))

    assert first == "runs/a does not exist."
    assert told(first_line(message), "zh") == "runs/a 不存在。"
    assert told(first, "zh") == told(first_line(message), "zh")
    assert told(first.rstrip("."), "zh") == "runs/a 不存在"


def test_a_sentence_of_which_a_part_is_missing_is_not_recalled() -> None:
    assert recalled("perfzero itself took 3.1 s of CPU, start-up included") is None


def test_words_that_could_be_anything_are_not_recalled() -> None:
    assert recalled("expect") is None
    assert recalled("GPU 3") is None


def test_a_long_text_from_a_file_is_not_searched() -> None:
    assert recalled(str(say("smi_said", smi="9" * LONGEST))) is None


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        (["占时间的", "58 %", "。"], "占时间的 58 %。"),
        (["", "GPU", "的时间"], "GPU 的时间"),
        (["", "某块 GPU", "的时间"], "某块 GPU 的时间"),
        (["阶段：", "GEMM"], "阶段：GEMM"),
        (["正常应 ", "屋顶", ""], "正常应屋顶"),
        (["step ", "58 ms", " each"], "step 58 ms each"),
        ([], ""),
    ],
)
def test_han_and_latin_stand_a_space_apart(pieces: list[str], whole: str) -> None:
    assert fitted(pieces) == whole


def test_english_is_the_first_of_the_languages() -> None:
    assert LANGUAGES[0] == "en"
