"""A file is there whole, or as it was."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from perfzero.report.atomic import whole_file, whole_folder, write_whole


def test_a_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(b"old")
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]


def test_a_write_that_fails_leaves_the_old_file_and_no_debris(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]


def test_a_link_is_replaced_and_what_it_points_to_is_left_alone(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"mine")
    folder = tmp_path / "recording"
    folder.mkdir()
    (folder / "report.json").symlink_to(precious)
    write_whole(folder / "report.json", b"new")
    assert precious.read_bytes() == b"mine"
    assert (folder / "report.json").read_bytes() == b"new"


def test_others_may_read_the_file_as_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_whole(tmp_path / "a", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644


def test_a_file_that_is_written_piece_by_piece_is_there_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    with whole_file(path) as file:
        file.write(b"one ")
        assert not path.exists()
        file.write(b"two")
    assert path.read_bytes() == b"one two"
    assert [p.name for p in tmp_path.iterdir()] == ["trace"]


def test_a_folder_takes_the_place_of_the_one_before_it(tmp_path: Path) -> None:
    path = tmp_path / "csv"
    path.mkdir()
    (path / "old.csv").write_bytes(b"old")
    with whole_folder(path) as folder:
        (folder / "new.csv").write_bytes(b"new")
        assert [p.name for p in path.iterdir()] == ["old.csv"]
    assert [p.name for p in path.iterdir()] == ["new.csv"]
    assert [p.name for p in tmp_path.iterdir()] == ["csv"]


def interrupted(path: Path) -> None:
    with whole_folder(path) as folder:
        (folder / "new.csv").write_bytes(b"new")
        raise KeyboardInterrupt


@pytest.mark.parametrize("there", [False, True])
def test_whoever_interrupts_finds_the_folder_as_it_was(tmp_path: Path, there: bool) -> None:
    path = tmp_path / "csv"
    if there:
        path.mkdir()
        (path / "old.csv").write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        interrupted(path)
    assert [p.name for p in tmp_path.iterdir()] == (["csv"] if there else [])
    assert not there or [p.name for p in path.iterdir()] == ["old.csv"]


def test_a_folder_that_cannot_be_moved_into_place_leaves_the_one_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "csv"
    path.mkdir()
    (path / "old.csv").write_bytes(b"old")
    real = os.rename

    def fails(source: Path, to: Path) -> None:
        if str(source).endswith(".part"):
            raise OSError(28, "No space left on device")
        real(source, to)

    monkeypatch.setattr(os, "rename", fails)
    with pytest.raises(OSError, match="No space left"), whole_folder(path) as folder:
        (folder / "new.csv").write_bytes(b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["csv"]
    assert [p.name for p in path.iterdir()] == ["old.csv"]


def test_whoever_interrupts_when_the_new_folder_is_in_place_finds_nothing_of_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "csv"
    path.mkdir()
    (path / "old.csv").write_bytes(b"old")
    real, calls = shutil.rmtree, []

    def interrupted_once(folder: Path, *, ignore_errors: bool) -> None:
        calls.append(folder)
        if len(calls) == 1:
            raise KeyboardInterrupt
        real(folder, ignore_errors=ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", interrupted_once)
    with pytest.raises(KeyboardInterrupt), whole_folder(path) as folder:
        (folder / "new.csv").write_bytes(b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["csv"]
    assert [p.name for p in path.iterdir()] == ["new.csv"]
