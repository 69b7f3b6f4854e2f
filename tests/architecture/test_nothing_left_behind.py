"""The check that every test ends with can fail: it sees what is left, and only that."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_a_thread_left_running_is_seen(take_survey: Callable[[], Any]) -> None:
    before = take_survey()
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="straggler")
    thread.start()
    try:
        left = before.left_for_good(patience_s=0)
    finally:
        stop.set()
        thread.join()

    assert left == ["thread straggler"]


def test_a_child_left_running_is_seen(take_survey: Callable[[], Any]) -> None:
    before = take_survey()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        left = before.left_for_good(patience_s=0)
    finally:
        child.communicate(b"\n")

    assert any(f"child process {child.pid}" in text for text in left)


def test_a_file_left_open_is_seen(take_survey: Callable[[], Any], tmp_path: Path) -> None:
    before = take_survey()
    with (tmp_path / "open").open("w"):
        left = before.left_for_good(patience_s=0)

    assert len(left) == 1
    assert left[0].endswith(f"({tmp_path / 'open'})")


def test_what_was_put_away_is_not_reported(take_survey: Callable[[], Any], tmp_path: Path) -> None:
    before = take_survey()
    (tmp_path / "closed").write_text("")
    subprocess.run([sys.executable, "-c", ""], check=True)
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()

    assert before.left_for_good(patience_s=0) == []
