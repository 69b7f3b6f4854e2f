"""What the panel says fits its width, in characters that take one column and in those that take two."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from perfzero.live.panel import help_lines, wrapped
from perfzero.report.voice import Voice

CHINESE = (
    "    在它结束之前，其他工具都不能采样：Nsight、DCGM 的 profiling 字段，或另一个 perfzero。约 10 ms。"
)


@pytest.mark.parametrize("width", range(20, 120, 7))
def test_chinese_is_broken_by_columns_and_nothing_of_it_is_lost(width: int) -> None:
    lines = wrapped([CHINESE], width)

    assert max(map(cell_len, lines)) <= width
    assert all(line.startswith("    ") for line in lines)
    assert "".join("".join(lines).split()) == "".join(CHINESE.split())


def test_a_line_of_chinese_is_as_full_as_it_can_be_and_begins_with_no_closing_mark() -> None:
    lines = wrapped([CHINESE], 40)

    assert all(cell_len(line) > 40 - 13 for line in lines[:-1])  # "profiling" and a mark behind it
    assert not any(line.strip().startswith(("，", "。", "：", "、")) for line in lines)


def test_a_number_stays_with_its_unit() -> None:
    assert not any(line.endswith("10") for width in range(20, 120) for line in wrapped([CHINESE], width))


def test_a_word_wider_than_the_panel_is_cut_into_pieces() -> None:
    assert wrapped(["录制：" + "x" * 25], 10) == ["录制：", "x" * 10, "x" * 10, "xxxxx"]


ODD = {
    "accents of their own": "录制e\u0301e\u0301e\u0301：" + "e\u0301" * 30,
    "as many accents as wide characters": "录e\u0301制e\u0301视e\u0301频e\u0301" * 8,
    "emoji by a selector": "录制：" + "\u2764\ufe0f" * 30,
    "only emoji by a selector": "\u2764\ufe0f" * 30,
    "emoji that are joined": "录制：" + "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 12,
    "joiners alone": "录\u200d\u200d" * 12 + " \u200d \u200d\u200d" * 3,
    "nothing to see": "\u200d\u0301\ufe0f" * 5,
    "accents without end": "录制：e" + "\u0301" * 5000,
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("width", [2, 4, 5, 20])
def test_odd_characters_are_measured_as_they_are_drawn_and_none_is_lost(odd: str, width: int) -> None:
    for line in (ODD[odd], f"  {ODD[odd]}", f"{ODD[odd]} {ODD[odd]}"):
        lines = wrapped([line], width)

        assert max(map(cell_len, lines)) <= width
        assert "".join("".join(lines).split()) == "".join(line.split())


def test_what_is_seen_as_one_character_is_not_torn_apart() -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    assert wrapped([family * 4], 4) == [family * 2, family * 2]
    assert wrapped(["e\u0301" * 4 + "录"], 4) == ["e\u0301" * 4, "录"]


def test_what_fits_is_left_as_it_is_with_its_spaces() -> None:
    assert wrapped(["  步   3.2 ms   92 %", "", "a  b"], 40) == ["  步   3.2 ms   92 %", "", "a  b"]


def test_english_is_broken_at_spaces() -> None:
    assert wrapped(["  one two three"], 10) == ["  one two", "  three"]


def test_what_keys_do_stands_in_columns_in_either_language() -> None:
    found = []
    for language in ("en", "zh"):
        rows = help_lines(Voice(language))[:4]
        keys = ("c  ", "p  ", "w  ", "q  ")
        found.append([cell_len(row.rpartition(key)[0]) for row, key in zip(rows, keys, strict=True)])

    assert found == [[34] * 4, [34] * 4]
