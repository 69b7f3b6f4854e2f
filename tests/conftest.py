"""Every test leaves the process as it found it: no thread, no child process, no open file."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

PATIENCE_S = 2.0
"""How long what a test has just ended may take to be gone: a thread that was told to stop, not joined."""


@dataclass(frozen=True)
class Survey:
    """What this process holds: threads by identity, children by pid, open files by number and target."""

    threads: frozenset[threading.Thread]
    children: frozenset[tuple[int, str]]
    files: frozenset[tuple[int, str]]

    @staticmethod
    def take() -> Survey:
        """What is held now."""
        return Survey(frozenset(threading.enumerate()), _children(), _open_files())

    def left_over(self) -> list[str]:
        """What is held now and was not when this survey was taken, in words."""
        now = Survey.take()
        return [
            *(f"thread {t.name}" for t in now.threads - self.threads if t.is_alive()),
            *(f"child process {pid} ({name})" for pid, name in now.children - self.children),
            *(f"file descriptor {fd} ({target})" for fd, target in now.files - self.files),
        ]

    def left_for_good(self, *, patience_s: float = PATIENCE_S) -> list[str]:
        """What is still left over after *patience_s* seconds, and after the garbage is collected."""
        left = self.left_over()
        if not left:
            return []
        gc.collect()
        deadline = time.monotonic() + patience_s
        while (left := self.left_over()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return left


REPLAYS = ("tests/zoo/", "tests/recordings/")
"""What replays recordings takes longest, and has a test for each of dozens of them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """
    One worker has all tests of a file, or of a recording where a file has many.

    What takes long to make and is kept is then made in one process only. The longest begin, or the last of
    them would run alone while other workers have nothing to do.
    """
    items.sort(key=lambda item: not item.nodeid.startswith(REPLAYS))
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))


def _group(item: pytest.Item) -> str:
    file = item.nodeid.partition("::")[0]
    arguments = item.callspec.params if hasattr(item, "callspec") else {}
    return f"{file}:{arguments['name']}" if file.startswith(REPLAYS) and "name" in arguments else file


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Fail a test that leaves something behind."""
    before = Survey.take()
    yield
    left = before.left_for_good()
    assert not left, "the test left behind: " + ", ".join(left)


@pytest.fixture(autouse=True)
def speak_english(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Whatever the language of whoever runs the tests.

    Fixtures of a file are set up by name: this one after the check above, which must find nothing patched.
    """
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


@pytest.fixture
def take_survey() -> Callable[[], Survey]:
    """The survey that the check above uses, so that a test can show that it sees things."""
    return Survey.take


def _children() -> frozenset[tuple[int, str]]:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # there is none, as a rule: psutil asks for all processes of the machine
        return frozenset()
    found = set()
    for child in psutil.Process().children(recursive=True):
        try:
            found.add((child.pid, child.name()))
        except psutil.NoSuchProcess:
            continue
    return frozenset(found)


def _open_files() -> frozenset[tuple[int, str]]:
    folder = Path("/proc/self/fd")
    found = set()
    for name in os.listdir(folder) if folder.is_dir() else []:
        try:
            target = os.readlink(folder / name)
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
        # matplotlib keeps the fonts it has used open for the life of the process, at most 64.
        if not target.endswith((".ttf", ".ttc", ".otf")):
            found.add((int(name), target))
    return frozenset(found)
