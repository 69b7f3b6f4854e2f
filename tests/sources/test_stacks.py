"""py-spy as a source: it is started, it ends whatever happens, and it says why it could not."""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import subprocess
import sys
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
import sys, time
from pathlib import Path
from perfzero.sources.stacks import Stacks
stacks = Stacks(Path(sys.argv[1]), program=("sh", "-c", "exec sleep 60"))
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


def fake(tmp_path: Path, script: str) -> Stacks:
    return Stacks(tmp_path, program=("sh", "-c", script))


def test_a_python_is_sampled_and_its_stacks_lie_in_the_file(tmp_path: Path) -> None:
    stacks = Stacks(tmp_path)
    with running(SPINS) as (program, _):
        before_ns = time.time_ns()
        stacks.begin(program.pid, role="main", rate_hz=100, seconds=1)
        until_ended(stacks)
    [one] = stacks.sampled
    names = {event["name"] for event in json.loads(one.trace.read_bytes())}

    assert (one.failure, names) == ("", {"<module>", "inner"})
    assert before_ns < one.begun_ns < before_ns + 10**9
    assert 0 < stacks.cpu_s < 1


def test_a_process_that_runs_no_python_is_told_of(tmp_path: Path) -> None:
    stacks = Stacks(tmp_path)
    with running("import os; print(1, flush=True); os.execvp('sleep', ['sleep', '30'])") as (program, _):
        time.sleep(0.2)
        stacks.begin(program.pid, role="main", rate_hz=100, seconds=1)
        until_ended(stacks)

    assert stacks.sampled[0].failure


def test_a_user_who_may_not_read_the_program_is_told_so(tmp_path: Path) -> None:
    stacks = fake(tmp_path, 'echo "Permission Denied: Try running again with sudo" >&2; exit 1')
    stacks.begin(1, role="main", rate_hz=100)
    until_ended(stacks)

    assert stacks.sampled[0].failure == "this user may not read the program's memory"


def test_any_other_reason_is_told_in_the_words_of_py_spy(tmp_path: Path) -> None:
    stacks = fake(tmp_path, "printf 'Error: Failed\\nReason: No such process\\n' >&2; exit 1")
    stacks.begin(1, role="main", rate_hz=100)
    until_ended(stacks)

    assert stacks.sampled[0].failure == "No such process"


def test_one_that_does_not_end_in_time_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LATEST_S", -1.0)
    stacks = fake(tmp_path, "exec sleep 60")
    stacks.begin(1, role="main", rate_hz=100, seconds=1)
    until_ended(stacks, seconds=0)

    assert stacks.sampled[0].failure == "it did not end in time"


def test_one_that_does_not_finish_when_asked_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FINISHES_S", 0.1)
    stacks = fake(tmp_path, "trap '' INT; exec sleep 60")
    stacks.begin(1, role="main", rate_hz=100)
    time.sleep(0.2)
    stacks.finish()

    assert stacks.sampled[0].failure == "it did not end in time"


def test_closing_ends_what_runs_and_does_nothing_twice(tmp_path: Path) -> None:
    stacks = fake(tmp_path, "exec sleep 60")
    stacks.begin(1, role="main", rate_hz=100)
    stacks.close()
    stacks.close()

    assert stacks.sampled[0].spy.returncode == -signal.SIGKILL


def test_it_ends_with_the_recorder_even_when_that_is_killed(tmp_path: Path) -> None:
    with running(RECORDS, str(tmp_path)) as (recorder, said):
        spy = psutil.Process(int(said))
        recorder.kill()
        recorder.wait()

        gone, _ = psutil.wait_procs([spy], timeout=5)
        assert gone


def test_a_program_that_cannot_be_started_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be started"):
        Stacks(tmp_path, program=(str(tmp_path / "none"),)).begin(1, role="main", rate_hz=100)


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
