"""What a person reads: whole screens compared with goldens, and what must not be on them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from itertools import pairwise
from pathlib import Path

import pytest

import hand_written_look
from perfzero.attribute.breakdown import Breakdown
from perfzero.attribute.tree import break_down
from perfzero.diagnose.verdict import Diagnosis, Fact, Finding, Gain, Remedy, StepMap
from perfzero.report import build
from perfzero.report.benchmarked import Benchmark
from perfzero.report.model import Report
from perfzero.report.terminal import show, words
from perfzero.values import Cost

Make = Callable[..., Report]
Golden = Callable[[str, str], None]

FILES = ("report.json", "summary.csv", "report.html", "timeline.csv", "timeline.png")


def test_a_starved_program_is_told_why_and_the_way_out(
    make_report: Make, starved: Diagnosis, golden: Golden
) -> None:
    report = replace(make_report(starved), folder="perfzero-runs/train-20261129T140211Z", files=FILES)
    golden("starved.txt", words(report))


def test_the_same_screen_fits_eighty_columns(make_report: Make, starved: Diagnosis, golden: Golden) -> None:
    report = replace(make_report(starved), folder="perfzero-runs/train-20261129T140211Z", files=FILES)
    found = words(report, width=80)
    golden("starved-80.txt", found)
    assert max(len(line) for line in found.splitlines() if "--against" not in line) <= 80


def test_one_gpu_takes_at_most_thirty_lines(make_report: Make, starved: Diagnosis) -> None:
    assert len(words(make_report(starved)).splitlines()) <= 30


def test_a_healthy_program_gets_a_calm_answer(make_report: Make, healthy: Diagnosis, golden: Golden) -> None:
    golden("healthy.txt", words(make_report(healthy)))


def test_a_healthy_program_is_given_nothing_to_do_or_check(make_report: Make, healthy: Diagnosis) -> None:
    found = words(make_report(healthy))
    assert "nothing: there is no cheap gain" in found
    assert "Check" not in found
    assert "expect" not in found


def test_where_no_remedy_is_left_there_is_nothing_to_check(make_report: Make, starved: Diagnosis) -> None:
    assert starved.verdict is not None
    without = replace(starved, verdict=replace(starved.verdict, remedies=(), next_limit=None))

    assert "Check" in words(make_report(starved))
    assert make_report(without).next_command is not None
    assert "Check" not in words(make_report(without))


@pytest.mark.parametrize(("language", "label"), [("en", "  Check   "), ("zh", "  验证    ")])
@pytest.mark.parametrize("width", [60, 100])
@pytest.mark.parametrize(
    "command",
    [
        ("python", "train.py", "--epochs", "3"),
        ("python3", "-c", 'import os\nprint("a  b")\n'),
        ("echo", "  two  spaces  ", "\x1b[2J", "a\u2028b", "\t"),
        ("python", "/data/" + "long-" * 60 + "name.py", *["录制 10 ms"] * 30),
    ],
)
def test_the_line_to_check_with_can_be_pasted_whatever_the_width(
    make_report: Make, starved: Diagnosis, command: tuple[str, ...], width: int, language: str, label: str
) -> None:
    screen = words(make_report(starved, command=command), width=width, language=language)
    [line] = [line for line in screen.splitlines() if "--against" in line]

    assert line.startswith(f"{label}perfzero run ")
    script = f'perfzero() {{ printf "%s\\0" "$@"; }}\n{line.removeprefix(label)}\n'
    found = subprocess.run(
        ["bash"], input=script.encode(), capture_output=True, check=True, timeout=20
    ).stdout
    assert tuple(found.decode().split("\0")[4:-1]) == command


def test_what_has_to_move_stands_below_the_line_or_behind_the_label(
    make_report: Make, starved: Diagnosis
) -> None:
    assert "train.py\n          gr_active rises" in words(make_report(starved))
    assert "\n  Check   gr_active rises" in words(make_report(starved, command=()))


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


UNMEASURED = Cost(94.0, 0.5, 0.6, 0.021, 1, slowdown_note="no step was seen")


def test_a_cost_that_was_not_measured_is_told_from_the_benchmark(
    make_report: Make, starved: Diagnosis, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = Benchmark(0.0002, 0.0006, "H200", "2026-11-29")
    monkeypatch.setattr(build, "BENCHMARKS", {**build.BENCHMARKS, "default": entry})
    found = " ".join(words(make_report(starved, cost=UNMEASURED)).split())
    said = "too little to compare in this run, benchmarked 0.02 % (at most 0.06 %; H200, 2026-11-29)."
    assert f"Cost of watching: {said}" in found


def test_a_policy_that_costs_nothing_is_said_to(
    make_report: Make, starved: Diagnosis, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = Benchmark(0.0, 0.0, "H200", "2026-11-29")
    monkeypatch.setattr(build, "BENCHMARKS", {**build.BENCHMARKS, "default": none})
    found = " ".join(words(make_report(starved, cost=UNMEASURED)).split())
    assert "in this run, benchmarked as none (H200, 2026-11-29)." in found
    assert "at most" not in found


def test_what_was_not_benchmarked_either_is_not_made_up(
    make_report: Make, starved: Diagnosis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "BENCHMARKS", dict.fromkeys(build.BENCHMARKS))
    found = " ".join(words(make_report(starved, cost=UNMEASURED)).split())
    assert "Cost of watching: too little to compare in this run, not benchmarked yet." in found


def test_a_recording_without_its_cost_says_so(make_report: Make, starved: Diagnosis) -> None:
    assert "Cost of watching not recorded." in words(make_report(starved, cost=None))


def test_each_answer_carries_what_it_is_held_against_and_by_how_much(
    make_report: Make, starved: Diagnosis
) -> None:
    fine = Fact("gr_active", 0.97, "ratio", "ok", "≥ 0.9", 0.97 / 0.9 - 1)
    steps = (replace(starved.steps[0], status="ok", answer="no", facts=(fine,)), *starved.steps[1:])
    assert "active 42 % of the time · healthy ≥ 90 %, off by 48" in words(make_report(starved))
    assert "active 42 % of the time · ≥ 90 %, 7 to spare" in words(make_report(replace(starved, steps=steps)))


def test_a_remedy_with_a_gain_of_its_own_names_it(make_report: Make, starved: Diagnosis) -> None:
    assert starved.verdict is not None
    first, second = starved.verdict.remedies
    verdict = replace(starved.verdict, remedies=(first, replace(second, gain=Gain(5.8, 14.6, "bf16"))))
    lines = words(make_report(replace(starved, verdict=verdict))).splitlines()
    assert [line.split()[-1] for line in lines if "expect" in line] == ["1.9–2.3×", "5.8–14.6×"]


def test_what_may_be_the_cause_instead_is_told_and_nothing_where_there_is_none(
    make_report: Make, starved: Diagnosis
) -> None:
    assert starved.verdict is not None
    doubted = replace(starved.verdict, undecided="Waiting for results may explain the same time; X decides.")

    said = words(make_report(replace(starved, verdict=doubted)))

    assert "But     Waiting for results may explain the same time; X decides." in said
    assert "But " not in words(make_report(starved))


OTHER = Finding("memory_bound", "Device memory is the limit.", "watch", 0.3, 0.7, (), Gain(1.1, 1.4, ""))
STATE = Finding("power_capped", "The board is at its power limit.", "info", 0.3, 0.9, ())


@pytest.mark.parametrize("finding", [OTHER, STATE], ids=["can be acted on", "explains"])
def test_a_second_finding_is_told_if_it_is_worth_reading(
    make_report: Make, starved: Diagnosis, finding: Finding
) -> None:
    report = make_report(replace(starved, findings=(*starved.findings, finding)))
    assert f"Also    {finding.title}" in words(report)


@pytest.mark.parametrize(
    "finding",
    [
        replace(OTHER, confidence=0.49),
        replace(OTHER, gain=Gain(1.01, 1.04, "")),
        replace(STATE, confidence=0.5),
        replace(STATE, remedies=(Remedy("Fuse it."),)),
    ],
    ids=["unsure", "no gain", "unsure state", "advice nobody needs"],
)
def test_a_second_finding_that_helps_nobody_is_left_to_the_file(
    make_report: Make, starved: Diagnosis, finding: Finding
) -> None:
    report = make_report(replace(starved, findings=(*starved.findings, finding)))
    assert "Also" not in words(report)


@pytest.mark.parametrize("width", range(60, 101, 4))
def test_no_line_ends_between_a_number_and_its_unit(
    make_report: Make, starved: Diagnosis, width: int
) -> None:
    for line in words(make_report(starved), width=width).splitlines():
        assert not line.lstrip().startswith(("%", "ms", "TB/s", "GB/s", "s,"))
        assert "\ue000" not in line


def test_a_cost_without_an_interval_claims_none(make_report: Make, starved: Diagnosis) -> None:
    found = words(make_report(starved, cost=Cost(94.0, 0.5, 0.6, 0.021, 1, slowdown=0.0003)))
    assert "Cost of watching 0.03 %. " in found


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


def test_a_step_is_told_with_its_parts_and_with_what_is_rare(make_report: Make, starved: Diagnosis) -> None:
    found = words(make_report(starved))
    assert "step    4 parts of 20.3 ms" in found
    assert "stalls 4 % of the time · 3 seen, 1.2 s each, every 31 s" in found
    assert "other work 2 % of the time · 1 seen" in found
    assert "step 81.2 ms ± 0.7 %" in found


def test_each_phase_of_the_step_has_a_line_with_its_counters_or_what_it_is_made_of(
    make_report: Make, starved: Diagnosis
) -> None:
    idle, products, update = _lines_of_the_step(words(make_report(starved)))
    assert re.fullmatch(r"0–58 %   47 ms  idle: active 2 %, tensor cores 0 %, DRAM 0 % +sure", idle)
    assert re.fullmatch(r"58–95 %   30 ms  GEMM-like 57 %, memory-bound 31 % +likely", products)
    assert re.fullmatch(r"95–100 %  3.8 ms  optimizer-like: .*writes 43 % of that +likely", update)


def test_of_a_step_of_many_phases_the_longest_are_told_in_their_order(
    make_report: Make, starved: Diagnosis
) -> None:
    phase = _map(starved).phases[0]
    edges = [0.0, 0.2, 0.26, 0.45, 0.5, 0.6, 0.65, 0.8, 0.95, 1.0]
    many = tuple(replace(phase, start=a, end=b) for a, b in pairwise(edges))
    found = words(make_report(replace(starved, step_map=replace(_map(starved), phases=many))))
    begins = [line.split("–")[0] for line in _lines_of_the_step(found)]
    assert begins == ["0", "20", "26", "50", "65", "80"]
    assert "3 shorter ones in report.json" in found


def test_the_longest_of_many_phases_are_told_wherever_they_come(
    make_report: Make, starved: Diagnosis, tmp_path: Path
) -> None:
    """As of a decoding step: the longest of many phases come late, behind six that are alike."""
    phase = _map(starved).phases[0]
    edges = [*(i / 16 for i in range(9)), 5 / 8, 6 / 8, 7 / 8, 1.0]
    kinds = ["idle", "copy", "memory"]
    many = tuple(
        replace(phase, kind=kinds[i % 3], start=a, end=b) for i, (a, b) in enumerate(pairwise(edges))
    )
    report = make_report(replace(starved, step_map=replace(_map(starved), phases=many)))
    begins = [line.split("–")[0] for line in _lines_of_the_step(words(report))]
    inside = break_down(hand_written_look.Look().trace(tmp_path))
    short = words(replace(report, breakdowns={"look-1.json.gz": inside}))

    assert begins == ["0", "6", "50", "62", "75", "88"]
    told = (
        "idle 6 % · copy 6 % · memory-bound 12 % · idle 12 % · copy 12 % · memory-bound 12 % · 6 shorter ones"
    )
    assert told in " ".join(short.split())


@pytest.mark.parametrize(("turns", "told"), [(3, True), (2, False)])
def test_phases_that_take_turns_are_told_as_one_where_there_are_too_many(
    make_report: Make, starved: Diagnosis, tmp_path: Path, turns: int, told: bool
) -> None:
    idle, products, update = _map(starved).phases
    lone = [
        replace(update, start=0.04 * i, end=0.04 * i + 0.04, kind=k) for i, k in enumerate(["fp64", "copy"])
    ]
    lone += [replace(update, start=0.88, end=0.92, kind="fp64")]
    width = 0.8 / (2 * turns)
    turned = [
        replace(part, start=0.08 + width * i, end=0.08 + width * (i + 1), seconds=0.01)
        for i, part in enumerate([idle, replace(products, kind="mixed")] * turns)
    ]
    many = replace(_map(starved), phases=(*lone[:2], *turned, lone[2], replace(idle, start=0.92, end=1.0)))
    report = make_report(replace(starved, step_map=many))
    found = words(report)
    inside = break_down(hand_written_look.Look().trace(tmp_path))
    short = words(replace(report, breakdowns={"look-1.json.gz": inside}))

    assert (re.search(r"8–88 %   60 ms  3 times idle and mixed in turn +likely", found) is not None) == told
    assert ("3 times idle and mixed in turn 80 %" in " ".join(short.split())) == told
    assert ("shorter ones" in found) != told


def test_phases_that_take_turns_are_told_one_by_one_where_they_fit(
    make_report: Make, starved: Diagnosis
) -> None:
    idle, products, _ = _map(starved).phases
    six = tuple(replace(p, start=i / 6, end=(i + 1) / 6) for i, p in enumerate([idle, products] * 3))
    found = words(make_report(replace(starved, step_map=replace(_map(starved), phases=six))))

    assert len(_lines_of_the_step(found)) == 6
    assert "in turn" not in found


def test_a_phase_that_two_kinds_share_is_told_with_both(
    make_report: Make, starved: Diagnosis, tmp_path: Path
) -> None:
    """Neither has half of it; a phase of which one has half bears its name alone."""
    _, products, update = _map(starved).phases
    shared = replace(
        products, kind="elementwise", made_of={"gemm": 0.34, "elementwise": 0.29, "memory": 0.25}
    )
    alone = replace(products, kind="elementwise", made_of={"elementwise": 0.5, "memory": 0.4})
    inside = {"look-1.json.gz": break_down(hand_written_look.Look().trace(tmp_path))}
    for phase, long, short in (
        (
            shared,
            "ms  elementwise and memory-bound: GEMM-like 34 %, elem",
            "elementwise and memory-bound 38 %",
        ),
        (alone, "ms  elementwise 50 %, memory-bound 40 %", "elementwise 38 %"),
    ):
        told = replace(starved, step_map=replace(_map(starved), phases=(phase, update)))
        assert long in words(make_report(told))
        assert f"4 parts of 20.3 ms · {short}" in words(make_report(told, breakdowns=inside))


def test_a_phase_wraps_below_its_own_words(make_report: Make, starved: Diagnosis) -> None:
    lines = words(make_report(starved), width=70).splitlines()
    at = next(i for i, line in enumerate(lines) if "optimizer-like" in line)

    assert lines[at + 1].index(lines[at + 1].strip()[0]) == lines[at].index("optimizer-like")


def test_why_there_are_no_phases_is_told_where_the_gpu_was_sampled(
    make_report: Make, starved: Diagnosis
) -> None:
    why = "Steps, or parts of them, are shorter than a few samples."
    without = replace(starved, rhythm=None, step_map=None, no_step_map=why)

    said = "  step    phases not told: steps, or parts of them, are shorter than a few samples\n"
    assert said in words(make_report(without))
    assert "not told" not in words(make_report(replace(without, tier="gpm")))
    assert "not told" not in words(make_report(replace(without, no_step_map="")))


def test_where_the_program_was_looked_into_the_phases_have_one_line(
    make_report: Make, starved: Diagnosis, tmp_path: Path
) -> None:
    inside = break_down(hand_written_look.Look().trace(tmp_path))
    found = words(make_report(starved, breakdowns={"look-1.json.gz": inside}))
    assert "4 parts of 20.3 ms · idle 58 % · GEMM-like 38 % · optimizer-like 5 %" in found
    assert _lines_of_the_step(found) == []


def a_look(folder: Path, *, steps: int, busy_us: int) -> Breakdown:
    look = hand_written_look.Look()
    for number in range(steps):
        look.step(number, 1000 * number, 1000 * number + 900)
    look.module("fc", "Linear", 10, 20)
    look.work("gemm", 100, 100 + busy_us, at=15)
    return break_down(look.trace(folder))


@pytest.mark.parametrize(
    ("steps", "how"),
    [
        (9, "at 9 steps of the program:"),
        (1, "at 1 step of the program:"),
        (0, "of 300 µs at the program, in which no step was told:"),
    ],
)
def test_a_look_is_told_with_its_steps_or_that_none_was_seen(
    make_report: Make, starved: Diagnosis, tmp_path: Path, steps: int, how: str
) -> None:
    inside = {"look-1.json.gz": a_look(tmp_path, steps=steps, busy_us=300)}
    found = words(make_report(starved, breakdowns=inside))
    assert f"  Where the GPU's time goes, by a look {how}\n" in found
    assert "overlap" not in found


@pytest.mark.parametrize(
    ("gpus", "whose", "module"),
    [
        ({"a": (0,), "b": (1,)}, "the GPU's", "Embedding"),
        ({"a": (1,), "b": (0,)}, "the GPU's", "Linear"),
        ({"a": (1,), "b": (1,)}, "GPU 1's", "Linear"),
        ({}, "some GPU's", "Linear"),
    ],
)
def test_layers_are_those_of_a_process_on_the_gpu_that_is_told_or_it_is_said_whose(
    make_report: Make,
    starved: Diagnosis,
    healthy: Diagnosis,
    tmp_path: Path,
    gpus: dict[str, tuple[int, ...]],
    whose: str,
    module: str,
) -> None:
    """The process of look b was busier, and the worse GPU is the one with index 0."""
    two = make_report(
        replace(starved, gpu=replace(starved.gpu, index=0)),
        replace(healthy, gpu=replace(starved.gpu, index=1)),
    )
    busier = a_look(tmp_path, steps=1, busy_us=300)
    [alike] = busier.alike
    other = replace(busier, busy_ns=200_000, alike=(replace(alike, class_name="Embedding"),))
    found = words(replace(two, breakdowns={"a": other, "b": busier}, looked_at=gpus))
    assert f"  Where {whose} time goes, by a look at 1 step of the program:\n  fc  {module}  100 %" in found


def test_layers_of_a_gpu_that_was_not_watched_are_said_to_be_its(
    make_report: Make, starved: Diagnosis, tmp_path: Path
) -> None:
    one = replace(make_report(starved), breakdowns={"a": a_look(tmp_path, steps=1, busy_us=300)})
    assert "Where the GPU's time goes" in words(one)
    assert "Where GPU 5's time goes" in words(replace(one, looked_at={"a": (5,)}))


def test_shares_of_streams_side_by_side_are_of_the_work_of_all(
    make_report: Make, starved: Diagnosis, tmp_path: Path
) -> None:
    look = hand_written_look.Look()
    look.work("gemm", 100, 200, at=15)
    look.work("copy", 150, 200, at=16, stream=9)
    found = words(make_report(starved, breakdowns={"a": break_down(look.trace(tmp_path))}))
    assert "  Streams overlap: shares are of the work of all of them, 150 % of the busy time.\n" in found
    assert "67 %" in found
    assert "33 %" in found


def test_a_step_of_one_phase_has_no_map(make_report: Make, starved: Diagnosis) -> None:
    one = replace(_map(starved), phases=_map(starved).phases[:1])
    found = words(make_report(replace(starved, step_map=one)))
    assert _lines_of_the_step(found) == []


def _map(diagnosis: Diagnosis) -> StepMap:
    assert diagnosis.step_map is not None
    return diagnosis.step_map


def _lines_of_the_step(found: str) -> list[str]:
    lines = (line.strip().removeprefix("step").strip() for line in found.splitlines())
    return [line for line in lines if re.match(r"[0-9]+–[0-9]+ %  ", line)]


def test_without_a_rhythm_nothing_is_said_of_steps(make_report: Make, silent: Diagnosis) -> None:
    found = words(make_report(silent))
    assert "step " not in found
    assert "rare" not in found
