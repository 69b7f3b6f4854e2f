"""The judge of --until-sure: real recordings, judged in a process of its own."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from perfzero.cli.judging import ChildJudge, judged, main

RECORDINGS = Path(__file__).resolve().parents[1] / "recordings"


def answer_of(judge: ChildJudge, recording: Path) -> Any:
    """Ask and wait for the answer."""
    judge.ask(recording, [0])
    deadline = time.monotonic() + 30.0
    while (answer := judge.answer()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return answer


def saying(code: str) -> ChildJudge:
    return ChildJudge([sys.executable, "-c", code])


def test_a_recording_is_judged_as_it_is_analysed_and_the_cpu_is_counted() -> None:
    judge = ChildJudge()
    found = answer_of(judge, RECORDINGS / "resnet50_nchw")

    assert found[0] == judged(RECORDINGS / "resnet50_nchw", 0)
    assert found[0].rule == "tensor_starved"
    assert 1.0 < found[0].gain_low < found[0].gain_high
    assert judge.cpu_s > 0.1


def test_nothing_is_written_into_the_recording(capsys: pytest.CaptureFixture[str]) -> None:
    folder = RECORDINGS / "tiny_kernels"
    before = sorted(folder.iterdir())
    main([str(folder), "0"])
    assert sorted(folder.iterdir()) == before
    assert json.loads(capsys.readouterr().out)["gpus"]["0"]["rule"] == "launch_bound"


@pytest.mark.parametrize(
    "code",
    ["raise SystemExit(1)", "print('nonsense')", "print('{}')", "print('[]')", "print('{\"gpus\": 1}')"],
)
def test_a_judge_that_cannot_be_understood_has_failed_and_may_be_asked_again(code: str) -> None:
    judge = saying(code)
    assert answer_of(judge, RECORDINGS) == {}
    assert answer_of(judge, RECORDINGS) == {}


def test_a_judge_that_cannot_be_started_has_failed() -> None:
    assert answer_of(ChildJudge(["/no/such/program"]), RECORDINGS) == {}


def test_asking_does_not_wait_and_closing_ends_what_still_thinks() -> None:
    judge = saying("import time; time.sleep(60)")
    began = time.monotonic()
    judge.ask(RECORDINGS, [0])
    assert judge.answer() is None
    judge.close()
    assert time.monotonic() - began < 5.0
    assert judge.answer() is None  # it was not asked
