"""What is said while a recording runs, and where."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from perfzero.cli import progress as module
from perfzero.cli.progress import ERASE, LINE_AFTER_S, Voice, line, own_terminal
from perfzero.record.progress import Progress

NOW = Progress("watching", 75.0, 0.171, 6231, 3, capped=True)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """A terminal that is ours: its path, and the descriptor from which what is written there is read."""
    monkeypatch.setattr(module, "in_foreground", lambda _: True)
    keyboard, screen = os.openpty()
    os.set_blocking(keyboard, False)
    yield os.ttyname(screen), keyboard
    os.close(keyboard)
    os.close(screen)


def seen(keyboard: int) -> str:
    """All that was written: a terminal hands it over in pieces, and a busy machine late."""
    found = b""
    quiet_at = time.monotonic() + 0.2
    while time.monotonic() < quiet_at:
        try:
            found += os.read(keyboard, 65536)
            quiet_at = time.monotonic() + 0.2
        except BlockingIOError:
            time.sleep(0.01)
    return found.decode()


def test_a_line_says_what_happens_and_how_much_has_been_seen() -> None:
    assert line(NOW) == "perfzero: watching, 75 s, step 170 ms, 6,231 samples, 3 lost, at the power cap"


def test_what_is_not_known_yet_is_left_out() -> None:
    assert line(Progress("waiting for work", 2.0, None, 0, 0, capped=False)) == (
        "perfzero: waiting for work, 2 s"
    )


def test_on_a_terminal_of_our_own_the_line_is_rewritten_and_taken_away(
    terminal: tuple[str, int], capfd: pytest.CaptureFixture[str]
) -> None:
    path, keyboard = terminal
    voice = Voice(silent=False, terminal=path)
    voice.show(NOW)
    voice.show(replace(NOW, elapsed_s=76.0))
    assert seen(keyboard).count(ERASE) == 2
    voice.say("something happened")
    assert seen(keyboard) == ERASE  # the sentence has a line of its own
    voice.close()
    voice.close()
    assert capfd.readouterr().err == "perfzero: something happened\n"


def test_a_narrow_terminal_gets_no_line_that_wraps(
    terminal: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "columns", lambda _: 20)
    path, keyboard = terminal
    voice = Voice(silent=False, terminal=path)
    voice.show(NOW)
    assert seen(keyboard) == f"{ERASE}{line(NOW)[:19]}"
    voice.close()


def test_a_terminal_that_was_stopped_does_not_hold_us_up(terminal: tuple[str, int]) -> None:
    voice = Voice(silent=False, terminal=terminal[0])
    for _ in range(5000):  # far more than it holds
        voice.show(NOW)
    voice.close()


def test_in_the_background_the_terminal_is_left_alone(
    terminal: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "in_foreground", lambda _: False)
    voice = Voice(silent=False, terminal=terminal[0])
    voice.show(NOW)
    voice.close()
    assert seen(terminal[1]) == ""


def test_without_a_terminal_there_is_a_line_now_and_then(capfd: pytest.CaptureFixture[str]) -> None:
    voice = Voice(silent=False, terminal=None)
    for second in range(1000):
        voice.show(replace(NOW, elapsed_s=float(second)))
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 6
    assert lines[0] == line(replace(NOW, elapsed_s=LINE_AFTER_S))


def test_a_terminal_that_is_not_there_is_none(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    voice = Voice(silent=False, terminal=str(tmp_path / "tty"))
    voice.show(replace(NOW, elapsed_s=LINE_AFTER_S))
    voice.close()
    assert capfd.readouterr().err.startswith("perfzero: watching")


def test_silence_is_kept(terminal: tuple[str, int], capfd: pytest.CaptureFixture[str]) -> None:
    voice = Voice(silent=True, terminal=terminal[0])
    voice.say("hello")
    voice.show(replace(NOW, elapsed_s=1e6))
    voice.close()
    assert seen(terminal[1]) == ""
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("program", "terminals", "ours"),
    [
        (False, {2}, True),
        (False, {1}, False),
        (True, set(), True),
        (True, {1}, False),
        (True, {2}, False),
        (True, {1, 2}, False),
    ],
)
def test_a_terminal_that_the_program_writes_to_is_not_ours(
    program: bool, terminals: set[int], ours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "is_terminal", terminals.__contains__)
    assert (own_terminal(program=program) is not None) is ours


def test_a_line_of_chinese_is_cut_by_the_columns_it_takes() -> None:
    assert module.cut("perfzero: 观察", 12) == "perfzero: 观"
    assert module.cut("perfzero: 观察", 13) == "perfzero: 观"
    assert module.cut("perfzero: 观察", 14) == "perfzero: 观察"


def test_progress_is_told_in_chinese() -> None:
    assert line(NOW, "zh").startswith("perfzero: 观察，")
