"""py-spy as a source: it is started, it ends whatever happens, and it says why it could not."""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from perfzero.errors import SourceError
from perfzero.sources import stacks as module
from perfzero.sources.stacks import Stacks, py_spy, workers_of

SPINS = """
import time
print("up", flush=True)
def inner():
    end = time.monotonic() + 0.05
    while time.monotonic() < end: pass
while True: inner()
"""

FORKS = """
import os, subprocess, time
for _ in range(2):
    if not os.fork():
        while True: time.sleep(0.01)
other = subprocess.Popen(["sleep", "30"])
print(other.pid, flush=True)
time.sleep(30)
"""

RECORDS = """
import time
from perfzero.sources.stacks import Stacks
stacks = Stacks(program=("sh", "-c", "exec sleep 60"))
stacks.begin(1, role="main", rate_hz=100)
print(stacks.sampled[0].spy.pid, flush=True)
time.sleep(60)
"""


@contextmanager
def running(code: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A Python that runs *code*, and the first line that it prints; its group is killed afterwards."""
    command = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline()
        finally:
            with suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(process.pid, signal.SIGKILL)


def until_ended(stacks: Stacks, *, seconds: int = 1) -> None:
    deadline = time.monotonic() + 10
    while not stacks.poll(seconds=seconds):
        assert time.monotonic() < deadline
        time.sleep(0.02)


MADE: list[Stacks] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while MADE:
        MADE.pop().close()


def real() -> Stacks:
    MADE.append(Stacks())
    return MADE[-1]


def fake(script: str) -> Stacks:
    MADE.append(Stacks(program=("sh", "-c", script)))
    return MADE[-1]


def test_a_python_is_sampled_and_its_stacks_lie_in_the_file() -> None:
    stacks = real()
    with running(SPINS) as (program, _):
        before_ns = time.time_ns()
        stacks.begin(program.pid, role="main", rate_hz=100, seconds=1)
        until_ended(stacks)
    [one] = stacks.sampled
    names = {event["name"] for event in json.loads(one.trace.read())}

    assert (one.failure, names) == ("", {"<module>", "inner"})
    assert before_ns < one.begun_ns < before_ns + 10**9
    assert 0 < stacks.cpu_s < 1


def test_a_process_that_runs_no_python_is_told_of() -> None:
    stacks = real()
    with running("import os; print(1, flush=True); os.execvp('sleep', ['sleep', '30'])") as (program, _):
        time.sleep(0.2)
        stacks.begin(program.pid, role="main", rate_hz=100, seconds=1)
        until_ended(stacks)

    assert stacks.sampled[0].failure


def test_a_user_who_may_not_read_the_program_is_told_so() -> None:
    stacks = fake('echo "Permission Denied: Try running again with sudo" >&2; exit 1')
    stacks.begin(1, role="main", rate_hz=100)
    until_ended(stacks)

    assert stacks.sampled[0].failure == "this user may not read the program's memory"


def test_any_other_reason_is_told_in_the_words_of_py_spy() -> None:
    stacks = fake("printf 'Error: Failed\\nReason: No such process\\n' >&2; exit 1")
    stacks.begin(1, role="main", rate_hz=100)
    until_ended(stacks)

    assert stacks.sampled[0].failure == "No such process"


def test_one_that_does_not_end_in_time_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LATEST_S", -1.0)
    stacks = fake("exec sleep 60")
    stacks.begin(1, role="main", rate_hz=100, seconds=1)
    until_ended(stacks, seconds=0)

    assert stacks.sampled[0].failure == "it did not end in time"


def test_one_that_does_not_finish_when_asked_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FINISHES_S", 0.1)
    stacks = fake("trap '' INT; exec sleep 60")
    stacks.begin(1, role="main", rate_hz=100)
    time.sleep(0.2)
    stacks.finish()

    assert stacks.sampled[0].failure == "it did not end in time"


def ended_by_itself() -> Stacks:
    """One that has computed and ended, which nobody has seen yet."""
    stacks = fake("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
    stacks.begin(1, role="main", rate_hz=100)
    os.waitid(os.P_PID, stacks.sampled[0].spy.pid, os.WEXITED | os.WNOWAIT)
    return stacks


def test_the_cpu_time_of_one_that_ended_before_it_was_asked_to_is_known() -> None:
    asked, closed = ended_by_itself(), ended_by_itself()
    asked.finish()
    closed.close()

    assert asked.cpu_s > 0.01
    assert closed.cpu_s > 0.01
    assert asked.sampled[0].failure == ""


def test_one_that_has_ended_is_not_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LATEST_S", -1.0)
    stacks = ended_by_itself()

    assert stacks.poll(seconds=0)
    assert stacks.sampled[0].failure == ""


def test_a_process_that_is_not_our_child_gets_no_signal() -> None:
    """The kernel gives a number anew once somebody has taken up the one that had it."""
    stacks = fake("exec sleep 60")
    stacks.begin(1, role="main", rate_hz=100)
    [one] = stacks.sampled
    came = []
    before = signal.signal(signal.SIGUSR1, lambda *_: came.append(1))
    try:
        ours, one.spy.pid = one.spy.pid, os.getpid()
        module._signal(one, signal.SIGUSR1)
    finally:
        one.spy.pid = ours
        signal.signal(signal.SIGUSR1, before)

    assert came == []


def test_closing_ends_what_runs_and_does_nothing_twice() -> None:
    stacks = fake("exec sleep 60")
    stacks.begin(1, role="main", rate_hz=100)
    stacks.close()
    stacks.close()

    assert stacks.sampled[0].spy.returncode == -signal.SIGKILL


def test_it_ends_with_the_recorder_even_when_that_is_killed() -> None:
    with running(RECORDS) as (recorder, said):
        spy = psutil.Process(int(said))
        recorder.kill()
        recorder.wait()

        gone, _ = psutil.wait_procs([spy], timeout=5)
        assert gone


def test_the_kernel_may_keep_one_that_was_killed_and_nobody_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "ENDS_S", 0.1)
    stacks = fake("exec sleep 60")
    stacks.begin(1, role="main", rate_hz=100)
    with monkeypatch.context() as held:  # as a process that waits for a disk, or has a tracer
        held.setattr(os, "wait4", lambda pid, options: (0, 0, None) if options else os.waitpid(pid, 0))
        begun = time.monotonic()
        stacks.close()
        assert time.monotonic() - begun < 1
    [one] = stacks.sampled

    assert (one.ended, one.failure) == (True, "it did not end in time")
    one.spy.wait()


def test_one_that_is_late_and_cannot_be_ended_is_waited_for_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LATEST_S", -1.0)
    monkeypatch.setattr(module, "ENDS_S", 0.1)
    stacks = fake("exec sleep 60")
    stacks.begin(1, role="main", rate_hz=100)
    with monkeypatch.context() as held:
        held.setattr(os, "wait4", lambda pid, options: (0, 0, None) if options else os.waitpid(pid, 0))
        until_ended(stacks, seconds=0)
    stacks.close()

    assert stacks.sampled[0].failure == "it did not end in time"
    stacks.sampled[0].spy.wait()


def test_stacks_that_are_too_large_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FILE_BYTES", 1 << 20)
    stacks = fake('exec head -c 2000000 /dev/zero > "${10}"')
    stacks.begin(1, role="main", rate_hz=100)
    until_ended(stacks)

    assert stacks.sampled[0].failure == "its stacks take more than 1 MiB"


def test_nothing_is_left_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    stacks = real()
    with running(SPINS) as (program, _):
        stacks.begin(program.pid, role="main", rate_hz=100)
        assert list(tmp_path.iterdir()) == []
        stacks.close()

    with pytest.raises(ValueError, match="closed"):
        stacks.sampled[0].trace.read()


def test_a_program_that_cannot_be_started_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be started"):
        Stacks(program=(str(tmp_path / "none"),)).begin(1, role="main", rate_hz=100)


def test_only_the_py_spy_that_was_installed_with_us_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "py-spy"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Path(py_spy()) != other

    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    with pytest.raises(SourceError, match="py-spy is not installed"):
        py_spy()


def test_workers_are_the_children_that_run_the_same_program() -> None:
    with running(FORKS) as (program, said):
        found = workers_of(program.pid)

        assert len(found) == 2
        assert int(said) not in found
        assert len(workers_of(program.pid, most=1)) == 1


def test_a_process_that_is_gone_has_no_workers() -> None:
    with running("print(1)") as (program, _):
        program.wait()
        assert workers_of(program.pid) == ()
