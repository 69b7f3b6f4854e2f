"""Words for numbers: each with a known answer, and what must not be said."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfzero import text


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.58, "58 %"),
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.035, "3.5 %"),
        (0.05, "5 %"),
        (0.0003, "0.03 %"),
        (-0.0003, "−0.03 %"),
        (0.997, "99.7 %"),
        (1.04, "104 %"),
    ],
)
def test_a_share_is_said_in_percent_with_digits_that_matter(share: float, words: str) -> None:
    assert words == text.percent(share)


def test_a_share_closer_to_all_than_counters_are_true_is_called_all() -> None:
    assert text.percent(0.99996) == "100 %"
    assert text.percent(0.9994) == "99.9 %"


def test_almost_nothing_is_not_called_nothing() -> None:
    assert text.percent(3e-6) == "< 0.01 %"
    assert text.percent(0.0) == "0 %"


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (594, "590"),
        (6_791, "6,800"),
        (535_100, "540,000"),
        (99.6, "100"),
        (3.2, "3.2"),
        (0, "0"),
        (math.nan, "–"),
    ],
)
def test_a_count_keeps_two_digits(number: float, words: str) -> None:
    assert text.count(number) == words


def test_the_distance_from_a_threshold_is_told_in_points() -> None:
    assert text.margin_points("≥ 0.9", -0.77, "ratio") == "69"
    assert text.margin_points("≤ 0.6", 0.5, "ratio") == "30"


def test_what_is_no_ratio_has_no_points() -> None:
    assert text.margin_points("≥ 2e-05", -0.5, "seconds") is None
    assert text.margin_points("≥ 0.9", math.nan, "ratio") is None


@pytest.mark.parametrize("said", ["2.3 TB/s", "46 ms", "54 %", "61 °C", "≥ 60 %", "2 min 10 s", "1.9 GHz"])
def test_no_line_breaks_between_a_number_and_its_unit(said: str) -> None:
    assert " " not in text.glued(said).replace("min 10", "")
    assert text.unglued(text.glued(said)) == said


def test_words_after_a_number_stay_free_to_break() -> None:
    assert text.glued("4 loader processes, 3 gaps") == "4 loader processes, 3 gaps"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.081, "81 ms"),
        (94.2, "94 s"),
        (130, "2 min 10 s"),
        (120, "2 min"),
        (3900, "1 h 5 min"),
        (7200, "2 h"),
        (12.4e-6, "12 µs"),
        (350e-9, "350 ns"),
        (0.9996, "1 s"),
        (0, "0 s"),
        (-0.02, "−20 ms"),
    ],
)
def test_a_duration_is_said_in_the_unit_a_person_would_choose(seconds: float, words: str) -> None:
    assert words == text.duration(seconds)


def test_a_step_time_keeps_the_digits_asked_for() -> None:
    assert text.duration(0.08123, digits=3) == "81.2 ms"


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (1.9e12, "bytes/s", "1.9 TB/s"),
        (52e9, "bytes/s", "52 GB/s"),
        (940e6, "bytes/s", "940 MB/s"),
        (999.7e9, "bytes/s", "1 TB/s"),
        (653e12, "flop/s", "653 TFLOP/s"),
        (1.33e9, "hertz", "1.3 GHz"),
        (39_000, "count/s", "39 k/s"),
        (843, "count/s", "843/s"),
        (665, "watts", "665 W"),
        (0.42, "ratio", "42 %"),
        (61, "celsius", "61 °C"),
        (16, "lanes", "16 lanes"),
        (0, "bytes/s", "0 B/s"),
    ],
)
def test_a_quantity_is_said_with_its_unit(value: float, unit: str, words: str) -> None:
    assert words == text.quantity(value, unit)


@pytest.mark.parametrize("say", [text.percent, text.duration, lambda v: text.quantity(v, "bytes/s")])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_missing_value_is_a_dash_and_never_a_zero(say: object, value: float) -> None:
    assert say(value) == "–"  # type: ignore[operator]


def test_a_gain_is_an_interval_and_one_number_where_both_ends_agree() -> None:
    assert text.times(1.9, 2.3) == "1.9–2.3×"
    assert text.times(1.5, 1.5) == "1.5×"
    assert text.times(1.17, 1.98) == "1.2–2.0×"


def test_a_small_gain_is_not_rounded_up_to_a_big_one() -> None:
    assert text.times(1.02, 1.06) == "1.02–1.06×"


@pytest.mark.parametrize(
    ("confidence", "word"),
    [(1.0, "sure"), (0.8, "sure"), (0.79, "likely"), (0.5, "likely"), (0.49, "unsure"), (math.nan, "unsure")],
)
def test_confidence_has_three_words(confidence: float, word: str) -> None:
    assert word == text.confidence_word(confidence)


def test_a_threshold_of_a_ratio_is_said_in_percent() -> None:
    assert text.threshold_words("≥ 0.9", "ratio") == "≥ 90 %"
    assert text.threshold_words("<= 0.05", "ratio") == "≤ 5 %"


def test_a_threshold_in_words_is_left_alone() -> None:
    assert text.threshold_words("≥ 0.9 of the roof", "ratio") == "≥ 0.9 of the roof"
    assert text.threshold_words("≥ 0.9", "seconds") == "≥ 0.9"


def test_words_from_a_recording_cannot_steer_the_terminal() -> None:
    assert text.printable("a\x1b[31m\x07b\r\nc\u202ed") == "a[31mb cd"


def test_words_that_are_fine_stay_as_they_are() -> None:
    assert text.printable("python train.py --größe 3 ≥ 2") == "python train.py --größe 3 ≥ 2"


def test_a_chinese_character_takes_two_columns() -> None:
    assert text.width("GPU 空闲") == 8
    assert text.width("u\u0308") == 1  # the dots stand above the u


def test_text_is_cut_to_the_columns_it_may_take() -> None:
    assert text.fitting("空闲时间", 8) == "空闲时间"
    assert text.fitting("空闲时间", 7) == "空闲时…"
    assert text.fitting("空闲时间", 6) == "空闲…"
    assert text.fitting("idle", 3) == "id…"


def test_chinese_may_be_broken_between_characters_but_not_before_a_comma() -> None:
    assert text.glued("显存，带宽").split(text.BREAK) == ["显", "存，", "带", "宽"]
    assert text.glued("（显存）。SM").split(text.BREAK) == ["（显", "存）。", "SM"]


def test_what_is_broken_is_whole_again_afterwards() -> None:
    said = "GPU 有 58 % 的时间，空闲（等待数据）。"
    assert text.unglued(text.glued(said)) == said


def test_english_has_no_break_but_its_spaces() -> None:
    assert text.BREAK not in text.glued("The GPU waits for data 83 % of the time.")


@given(st.floats(min_value=1e-9, max_value=90))
def test_a_duration_in_words_is_within_its_rounding_of_the_truth(seconds: float) -> None:
    number, unit = text.duration(seconds, digits=3).split()
    value = float(number) * {"s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}[unit]
    assert value == pytest.approx(seconds, rel=0.006)


@given(st.floats(min_value=1e-4, max_value=1e18))
def test_a_quantity_in_words_is_within_its_rounding_of_the_truth(value: float) -> None:
    number, unit = text.quantity(value, "bytes/s").split()
    scale = {"TB/s": 1e12, "GB/s": 1e9, "MB/s": 1e6, "kB/s": 1e3, "B/s": 1}[unit]
    assert float(number) * scale == pytest.approx(value, rel=0.06)
