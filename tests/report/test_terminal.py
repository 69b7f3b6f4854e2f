"""What a person reads: whole screens compared with goldens, and what must not be on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from io import StringIO

import pytest

from perfzero.diagnose.verdict import Diagnosis
from perfzero.report.model import Report
from perfzero.report.terminal import show, words
from perfzero.values import Cost

Make = Callable[..., Report]
Golden = Callable[[str, str], None]

FILES = ("report.json", "summary.csv", "timeline.csv", "timeline.png")


def test_a_starved_program_is_told_why_and_the_way_out(
    make_report: Make, starved: Diagnosis, golden: Golden
) -> None:
    report = replace(make_report(starved), folder="perfzero-runs/train-20261129T140211Z", files=FILES)
    golden("starved.txt", words(report))


def test_the_same_screen_fits_eighty_columns(make_report: Make, starved: Diagnosis, golden: Golden) -> None:
    report = replace(make_report(starved), folder="perfzero-runs/train-20261129T140211Z", files=FILES)
    found = words(report, width=80)
    golden("starved-80.txt", found)
    assert max(len(line) for line in found.splitlines()) <= 80


def test_one_gpu_takes_at_most_thirty_lines(make_report: Make, starved: Diagnosis) -> None:
    assert len(words(make_report(starved)).splitlines()) <= 30


def test_a_healthy_program_gets_a_calm_answer(make_report: Make, healthy: Diagnosis, golden: Golden) -> None:
    golden("healthy.txt", words(make_report(healthy)))


def test_a_healthy_program_is_given_nothing_to_do_or_check(make_report: Make, healthy: Diagnosis) -> None:
    found = words(make_report(healthy))
    assert "nothing: there is no cheap gain" in found
    assert "Check" not in found
    assert "expect" not in found


def test_no_verdict_comes_with_its_reason(make_report: Make, silent: Diagnosis, golden: Golden) -> None:
    golden("no-verdict.txt", words(make_report(silent)))


def test_no_verdict_offers_no_remedy(make_report: Make, silent: Diagnosis) -> None:
    found = words(make_report(silent))
    assert "Do  " not in found
    assert "sure" not in found


def test_of_several_gpus_the_worst_comes_first(
    make_report: Make, starved: Diagnosis, healthy: Diagnosis, silent: Diagnosis, golden: Golden
) -> None:
    on = [replace(starved.gpu, index=i) for i in range(3)]
    report = make_report(replace(healthy, gpu=on[0]), replace(silent, gpu=on[1]), replace(starved, gpu=on[2]))
    golden("several.txt", words(report))


@pytest.mark.parametrize(("confidence", "word"), [(0.8, "sure"), (0.5, "likely"), (0.49, "unsure")])
def test_the_headline_carries_how_sure_it_is(
    make_report: Make, starved: Diagnosis, confidence: float, word: str
) -> None:
    assert starved.verdict is not None
    less = replace(starved, verdict=replace(starved.verdict, confidence=confidence))
    assert words(make_report(less)).splitlines()[1].endswith(f" {word}")


def test_a_cost_that_was_not_measured_says_why(make_report: Make, starved: Diagnosis) -> None:
    cost = Cost(94.0, 0.5, 0.6, 0.021, 1, slowdown_note="no step was seen")
    found = " ".join(words(make_report(starved, cost=cost)).split())
    assert "Cost of watching not measured: no step was seen." in found


def test_a_cost_without_an_interval_claims_none(make_report: Make, starved: Diagnosis) -> None:
    found = words(make_report(starved, cost=Cost(94.0, 0.5, 0.6, 0.021, 1, slowdown=0.0003)))
    assert "0.03 %" in found
    assert "±" not in found


def test_a_number_nvidia_smi_did_not_give_is_not_called_zero(make_report: Make, starved: Diagnosis) -> None:
    facts = {k: v for k, v in starved.facts.items() if k != "smi_utilization"}
    found = words(make_report(replace(starved, facts=facts)))
    assert "nvidia-smi's number could not be read. The SMs worked 37 %" in found
    assert "said" not in found


def test_only_nvml_sends_the_reader_to_doctor(make_report: Make, silent: Diagnosis) -> None:
    assert "perfzero doctor" in words(make_report(replace(silent, tier="nvml")))
    assert "perfzero doctor" not in words(make_report(silent))


def test_many_doubts_are_cut_and_counted(make_report: Make, starved: Diagnosis) -> None:
    doubts = tuple(f"Doubt number {i}." for i in range(9))
    found = words(make_report(replace(starved, doubts=doubts)))
    assert "Doubt number 3." in found
    assert "Doubt number 4." not in found
    assert "5 more in report.json" in found


def test_a_recording_cut_short_says_so(make_report: Make, starved: Diagnosis) -> None:
    assert "recording cut short" in words(make_report(starved, complete=False))
    assert "recording cut short" not in words(make_report(starved))


def test_words_from_a_recording_cannot_colour_or_clear_the_screen(
    make_report: Make, starved: Diagnosis
) -> None:
    evil = replace(starved, headline="[red]fine[/red] \x1b[2J$x$", doubts=("\x1b]0;owned\x07",))
    found = words(make_report(evil))
    assert "\x1b" not in found
    assert "[red]fine[/red] [2J$x$" in found


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_colour(
    make_report: Make, starved: Diagnosis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = _Terminal()
    show(make_report(starved), stream=stream)
    assert "\x1b[32msure" in stream.getvalue()


def test_no_colour_means_none(make_report: Make, starved: Diagnosis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = _Terminal()
    show(make_report(starved), stream=stream)
    assert "sure" in stream.getvalue()
    assert "\x1b[3" not in stream.getvalue()


def test_a_recording_without_a_gpu_is_told_as_such(make_report: Make) -> None:
    found = words(make_report(doubts=("manifest.json names no GPU.",)))
    assert "No verdict: the recording holds no GPU." in found
    assert "manifest.json names no GPU." in found
