"""The numbers of a report, computed once."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable
from dataclasses import replace
from datetime import date

import pytest

from perfzero.diagnose.verdict import Diagnosis, Fact, Gain
from perfzero.report.benchmarked import BENCHMARKS, policy_kind
from perfzero.report.build import build
from perfzero.report.model import Report
from perfzero.values import Cost

Make = Callable[..., Report]


def test_losses_are_counted_over_all_windows(make_report: Make, starved: Diagnosis) -> None:
    losses = make_report(starved).gpus[0].losses
    assert (losses.samples, losses.lost, losses.gaps_s) == (1996, 4, 3.0)
    assert losses.lost_share == pytest.approx(0.002)


def test_the_truth_stands_beside_the_myth(make_report: Make, starved: Diagnosis) -> None:
    truth = make_report(starved).gpus[0].truth
    assert (truth.smi_utilization, truth.sm_active, truth.tensor_active) == (0.57, 0.37, 0.14)


def test_what_was_not_measured_is_missing_from_the_truth(make_report: Make, silent: Diagnosis) -> None:
    assert math.isnan(make_report(silent).gpus[0].truth.sm_active)


def test_gpus_are_ordered_the_worst_first_and_the_unknown_before_the_healthy(
    make_report: Make, starved: Diagnosis, healthy: Diagnosis, silent: Diagnosis
) -> None:
    assert starved.verdict is not None
    worse = replace(starved, verdict=replace(starved.verdict, gain=Gain(2.0, 3.0, "")))
    given = [healthy, silent, starved, worse]
    report = make_report(*(replace(d, gpu=replace(d.gpu, index=i)) for i, d in enumerate(given)))
    assert [g.gpu.index for g in report.gpus] == [3, 2, 1, 0]
    assert report.headline == "GPU 3 of 4: The GPU waits for data 58 % of the time."


def test_equal_gpus_stay_in_the_drivers_order(make_report: Make, starved: Diagnosis) -> None:
    report = make_report(*(replace(starved, gpu=replace(starved.gpu, index=i)) for i in (2, 0, 1)))
    assert [g.gpu.index for g in report.gpus] == [0, 1, 2]


def test_the_cost_of_watching_takes_the_wider_side_of_its_interval(
    make_report: Make, starved: Diagnosis
) -> None:
    cost = Cost(100.0, 1.0, 0.5, 0.1, 2, slowdown=0.001, slowdown_low=0.0, slowdown_high=0.004)
    watching = make_report(starved, cost=cost).watching
    assert watching is not None
    assert watching.margin == pytest.approx(0.003)
    assert watching.cpu_share == pytest.approx(0.015)


def test_an_unmeasured_cost_is_missing_and_not_zero(make_report: Make, starved: Diagnosis) -> None:
    watching = make_report(starved, cost=Cost(0.0, 0.0, 0.0, 0.0, 0, slowdown_note="too short")).watching
    assert watching is not None
    assert math.isnan(watching.slowdown)
    assert math.isnan(watching.cpu_share)
    assert watching.reason == "too short"


def test_the_line_to_type_next_is_quoted_for_a_shell(make_report: Make, starved: Diagnosis) -> None:
    process = make_report(starved).process
    spaced = replace(process, command=("python", "my script.py"))
    for recording, told in (("r", "r"), ("my runs/r", "'my runs/r'"), ("-r", "./-r"), ("last", "./last")):
        line = build([], recording=recording, process=spaced).next_command
        assert line == f"perfzero run --against {told} -- python 'my script.py'"


def test_the_line_to_type_next_checks_the_fix_against_this_very_recording(
    make_report: Make, starved: Diagnosis
) -> None:
    """As the command line takes it apart: whatever was recorded since, it is compared with this one."""
    report = make_report(starved)
    assert report.next_command is not None
    words = shlex.split(report.next_command)
    end = words.index("--")
    assert words[:end] == ["perfzero", "run", "--against", report.recording]
    assert words[end + 1 :] == list(report.process.command)


def test_a_command_that_nobody_can_type_gives_no_line(make_report: Make, starved: Diagnosis) -> None:
    process = replace(make_report(starved).process, command=("python", "a\0b"))
    assert build([], recording="r", process=process).next_command is None


def test_an_unknown_command_gives_no_line_to_type() -> None:
    assert build([], recording="r").next_command is None


def test_a_doubt_is_told_once(make_report: Make, starved: Diagnosis) -> None:
    assert make_report(starved, doubts=("cut short", "cut short")).doubts == ("cut short",)


@pytest.mark.parametrize(
    ("pm_duty", "capped", "kind"),
    [
        (0.02, False, "default"),
        (0.02, True, "default at the power cap"),
        (0.97, False, "continuous"),
        (0.97, True, "continuous"),
    ],
)
def test_a_run_is_held_against_the_benchmark_of_its_policy(pm_duty: float, capped: bool, kind: str) -> None:
    assert policy_kind(pm_duty=pm_duty, capped=capped) == kind


def test_a_board_at_its_power_limit_is_told_from_the_counters(
    make_report: Callable[..., Report], starved: Diagnosis
) -> None:
    at_limit = {**starved.facts, "capped_power": Fact("capped_power", 0.9, "ratio", "info")}
    free, held = (make_report(replace(starved, facts=f)).watching for f in (starved.facts, at_limit))
    assert free is not None
    assert held is not None
    assert (free.policy, held.policy) == ("default", "default at the power cap")


def test_every_benchmark_is_a_cost_with_its_upper_end_above_it() -> None:
    for benchmark in filter(None, BENCHMARKS.values()):
        assert benchmark.slowdown <= benchmark.upper < 0.05
        assert benchmark.hardware
        assert date.fromisoformat(benchmark.date)
