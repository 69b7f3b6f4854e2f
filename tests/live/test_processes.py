"""Command lines in a few words, without secrets."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import Any

import pytest

from perfzero.live.processes import LONGEST, Names, short_command


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["/opt/conda/bin/python3.12", "-u", "train.py", "--lr", "3e-4"], "python3.12 train.py --lr 3e-4"),
        (["python", "-m", "torch.distributed.run", "x.py"], "python -m torch.distributed.run x.py"),
        (["./a.out", "-v"], "a.out -v"),
        (["nvidia-cuda-mps-server"], "nvidia-cuda-mps-server"),
        ([], ""),
    ],
)
def test_a_command_line_in_a_few_words(command: list[str], expected: str) -> None:
    assert short_command(command) == expected


def test_secrets_are_not_shown() -> None:
    said = short_command(
        ["python", "train.py", "--hf-token", "hf_abcdefghijklmnopqrstuvwx", "--wandb-key=1" * 3]
    )

    assert "abcdef" not in said
    assert "<removed>" in said


def test_a_line_of_any_length_is_cut() -> None:
    assert len(short_command(["python", *["x" * 5000] * 1000])) <= LONGEST


def test_a_process_is_asked_once_and_forgotten_when_it_has_gone() -> None:
    code = "print('here', flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    names = Names()
    try:
        [told] = names.of(0, {child.pid: 5.0}) or ()
        assert "-c" in told.command
        assert told.user
    finally:
        child.communicate(b"\n")
    names.forget_all_but([])

    [gone] = names.of(0, {child.pid: 5.0}) or ()

    assert (gone.user, gone.command, gone.memory) == ("", "", 5.0)


def test_where_the_driver_tells_of_no_process_none_are_told() -> None:
    assert Names().of(0, None) is None
    assert Names().of(0, {}) == ()


def test_most_memory_comes_first() -> None:
    told = Names().of(0, {os.getpid(): 1.0, os.getppid(): 2.0}) or ()

    assert [process.memory for process in told] == [2.0, 1.0]


def test_a_number_that_went_to_another_process_is_asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    class Process:
        started = 1.0

        def __init__(self, pid: int) -> None: ...
        def create_time(self) -> float:
            return self.started

        def oneshot(self) -> Any:
            return contextlib.nullcontext()

        def username(self) -> str:
            return "ada"

        def cmdline(self) -> list[str]:
            return [f"job{self.started:.0f}"]

    monkeypatch.setattr("psutil.Process", Process)
    names = Names()
    [first] = names.of(0, {7: 1.0}) or ()

    Process.started = 2.0

    [second] = names.of(0, {7: 1.0}) or ()
    assert (first.command, second.command) == ("job1", "job2")
