"""Folders for programs of others: where they lie, and what becomes of those whose recorder was killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perfzero.record import folder as folder_module
from perfzero.record.folder import MARK, Folder, parent_of, remove_left
from perfzero.record.launch import Invoker

LEFT = "perfzero-abc_d3fg"

HOLDS = """
import fcntl, os, sys, time
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
print("holds", flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def old(monkeypatch: pytest.MonkeyPatch) -> None:
    """All folders have been there for a while."""
    monkeypatch.setattr(folder_module, "YOUNG_S", -1.0)


def left(parent: Path, name: str = LEFT, *, mark: str = MARK) -> Path:
    made = parent / name
    made.mkdir(mode=0o700)
    (made / mark).touch()
    return made


def test_for_another_users_program_no_folder_is_looked_for_in_which_that_user_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There the user could exchange ours for a link, and root would fill and give away where it leads."""
    tried: list[str] = []

    def lstat(self: Path) -> os.stat_result:
        tried.append(str(self))
        return os.lstat(self)

    monkeypatch.setattr(Path, "lstat", lstat)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(folder_module, "SHARED", (str(tmp_path / "none"), str(tmp_path / "neither")))
    monkeypatch.setenv("HOME", str(tmp_path))
    for user in (Invoker("user", 54321, 54321, str(tmp_path)), None):
        with pytest.raises(OSError, match="only root can write"):
            parent_of(user)

    assert set(tried) == {str(tmp_path / "none"), str(tmp_path / "neither")}


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777, 0o700])
def test_a_folder_in_which_others_can_write_or_which_they_cannot_pass_is_none_for_root(
    mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(mode)
    monkeypatch.setattr(folder_module, "SHARED", (str(place),))

    with pytest.raises(OSError, match="only root can write"):
        parent_of(Invoker("user", 54321, 54321, "/nonexistent"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders for others")
def test_root_makes_it_where_only_root_can_write() -> None:
    made = Folder(Invoker("user", 54321, 54321, "/nonexistent"))
    above, seen = made.path.parent.stat(), made.path.stat()
    made.remove()

    assert (above.st_uid, above.st_mode & 0o022) == (0, 0)
    assert (seen.st_uid, seen.st_mode & 0o777) == (0, 0o700)
    assert not made.path.exists()
    made.remove()


def test_without_a_folder_of_ones_own_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o777)
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    monkeypatch.setattr("os.access", lambda path, _: home in (path, Path(path).parent))
    monkeypatch.setenv("HOME", str(home))

    with pytest.raises(OSError, match="no folder in which only its user can write"):
        parent_of(None)


def test_the_folder_of_a_recorder_that_was_killed_is_removed_and_not_before(tmp_path: Path) -> None:
    path = left(tmp_path)
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(path)], stdout=subprocess.PIPE) as recorder:
        assert recorder.stdout is not None
        assert recorder.stdout.readline() == b"holds\n"
        remove_left(tmp_path)
        held = path.exists()
        recorder.send_signal(signal.SIGKILL)
    remove_left(tmp_path)

    assert (held, path.exists()) == (True, False)


def test_our_own_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "parent_of", lambda _: tmp_path)
    made = Folder(None)
    (made.path / MARK).touch()
    remove_left(tmp_path)
    assert made.path.exists()
    made.leave()
    remove_left(tmp_path)

    assert not made.path.exists()


def test_root_removes_what_is_left_and_nobody_else_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_module, "parent_of", lambda _: tmp_path)
    path = left(tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    Folder(None).remove()
    assert path.exists()
    monkeypatch.setattr("os.geteuid", lambda: 0)
    Folder(None).remove()

    assert not path.exists()


@pytest.mark.parametrize("what", ["young", "another name", "no agent", "a link", "a file"])
def test_what_may_be_anothers_stays(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if what == "young":
        monkeypatch.setattr(folder_module, "YOUNG_S", 60.0)
        path = left(tmp_path)
    elif what == "another name":
        path = left(tmp_path, "perfzero-recordings")
    elif what == "no agent":
        path = left(tmp_path, mark="report.json")
    elif what == "a link":
        path = tmp_path / LEFT
        path.symlink_to(left(tmp_path, "elsewhere"))
    else:
        path = tmp_path / LEFT
        path.touch()
    before = sorted(tmp_path.rglob("*"))
    with contextlib.suppress(OSError):
        remove_left(tmp_path)

    assert sorted(tmp_path.rglob("*")) == before
    assert os.path.lexists(path)
