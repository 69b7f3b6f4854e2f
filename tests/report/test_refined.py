"""What is seen beside the counters refines a verdict, and no mistake of ours in it costs the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfzero.diagnose.judge import judge
from perfzero.diagnose.verdict import Diagnosis
from perfzero.report import refined as module
from perfzero.report.analysis import judged_report, with_host
from perfzero.report.build import Judged
from perfzero.report.refined import STEPS, Evidence, refined
from perfzero.store.reader import open_recording

READS_EVERY_LAYER = Path(__file__).parents[1] / "zoo" / "kept" / "c03" / "base"

Found = tuple[Diagnosis, Evidence]


def fails(*_: object) -> Diagnosis:
    raise ZeroDivisionError


@pytest.fixture(scope="module")
def found() -> Found:
    """By counters alone, and what was seen beside them; nothing of looks."""
    recording = open_recording(READS_EVERY_LAYER)
    [gpu] = recording.gpus
    seen = recording.observation(gpu.index)
    [judged], _ = with_host(recording, [Judged(seen, judge(seen))])
    return judged.diagnosis, Evidence(seen, judged.host, {}, recording.looks, [gpu.index], "pytorch")


def first(diagnosis: Diagnosis) -> str | None:
    return diagnosis.verdict and diagnosis.verdict.rule


@pytest.mark.parametrize("name", STEPS)
def test_a_step_that_fails_is_a_doubt_and_the_others_are_as_if_it_were_not_there(
    found: Found, name: str
) -> None:
    told, [doubt] = refined(*found, {**STEPS, name: fails})

    assert f"({name}: ZeroDivisionError), which is a mistake in perfzero" in doubt
    assert told == refined(*found, {other: step for other, step in STEPS.items() if other != name})[0]


def test_what_was_seen_beside_the_counters_can_name_another_cause(found: Found) -> None:
    told, doubts = refined(*found)

    assert (first(found[0]), first(told)) == ("launch_bound", "sync_bound")
    assert doubts == ()


def test_without_any_step_the_verdict_is_that_of_the_counters(found: Found) -> None:
    assert refined(*found, {}) == (found[0], ())


def test_who_interrupts_a_step_is_heard(found: Found) -> None:
    def interrupted(*_: object) -> Diagnosis:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        refined(*found, {"looks": interrupted})


def test_a_report_stands_where_a_step_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEPS", {**STEPS, "looks": fails})
    report = judged_report(READS_EVERY_LAYER)

    assert first(report.gpus[0].diagnosis) == "sync_bound"
    assert len([doubt for doubt in report.doubts if "mistake in perfzero" in doubt]) == 1
