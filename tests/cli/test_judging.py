"""The judge of --until-sure: real recordings, judged in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from perfzero.cli import judging
from perfzero.cli.judging import ChildJudge, judge_command, judged, main

RECORDINGS = Path(__file__).resolve().parents[1] / "recordings"

PATIENCE_S = 500.0
"""
A judge has the lowest priority: where eight others wanted two cores it took over 100 s for its two seconds.
"""

pytestmark = pytest.mark.timeout(PATIENCE_S + 100.0)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge that hangs ends itself; one that only comes to nothing on a busy machine is none."""
    monkeypatch.setattr(judging, "LIMIT_S", int(PATIENCE_S))


def answer_of(judge: ChildJudge, recording: Path) -> Any:
    """Ask and wait for the answer."""
    judge.ask(recording, [0])
    deadline = time.monotonic() + PATIENCE_S
    try:
        while (answer := judge.answer()) is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    except BaseException:
        judge.close()
        raise
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


def test_the_judge_steps_back_before_it_loads_anything_and_is_not_meant_by_ctrl_c() -> None:
    judge = ChildJudge()
    judge.ask(RECORDINGS / "tiny_kernels", [0])
    assert judge._process is not None
    pid = judge._process.pid
    assert os.getsid(pid) == pid
    priorities, schedulers = [], []
    deadline = time.monotonic() + PATIENCE_S
    while (answer := judge.answer()) is None and time.monotonic() < deadline:
        loaded = "numpy" in Path(f"/proc/{pid}/maps").read_text()
        if loaded:
            priorities.append(os.getpriority(os.PRIO_PROCESS, pid))
            schedulers.append(os.sched_getscheduler(pid))
        time.sleep(0.002)
    judge.close()

    assert answer is not None
    assert answer[0].rule == "launch_bound"
    assert set(priorities) == {19}
    assert schedulers[-1] == os.SCHED_BATCH


def test_the_priority_holds_against_programs_of_other_sessions() -> None:
    enabled = Path("/proc/sys/kernel/sched_autogroup_enabled")
    if (
        not enabled.exists()
        or enabled.read_text().strip() != "1"
        or not os.access("/proc/self/autogroup", os.W_OK)
    ):
        pytest.skip("no session is a scheduling group of its own here")
    code = "print(open('/proc/self/autogroup').read())"
    command = judge_command()
    command[-1] = command[-1].replace("from perfzero.cli.judging import main\nmain()", code)
    said = subprocess.run(command, capture_output=True, text=True, check=True, start_new_session=True).stdout
    assert said.split()[1:] == ["nice", "19"]


def test_a_judge_that_hangs_ends_by_itself_and_counts_as_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "LIMIT_S", 1)
    command = judge_command()
    command[-1] = command[-1].replace("from perfzero", "import time; time.sleep(60)\nfrom perfzero")
    assert answer_of(ChildJudge(command), RECORDINGS) == {}


def test_a_judge_that_cannot_be_killed_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "PARTING_S", 0.1)
    judge = saying("import time; time.sleep(60)")
    judge.ask(RECORDINGS, [0])
    process = judge._process
    assert process is not None
    with monkeypatch.context() as disk:
        disk.setattr(process, "kill", lambda: None)  # it waits for a disk
        judge.close()
    process.kill()
    process.wait()


def test_what_a_judge_did_that_was_stopped_is_counted() -> None:
    judge = saying("while True: pass")
    judge.ask(RECORDINGS, [0])
    time.sleep(0.5)
    judge.close()
    assert 0.05 < judge.cpu_s < 5.0
