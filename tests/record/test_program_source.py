"""Lines of the program's source are read as its user could read them, and no further."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from perfzero.record import program_source as module
from perfzero.record.program_source import MOST_FILES, View, lines_of, open_inside, view_of

NOBODY = 65534
WAITS = ("sleep", "30")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can take the ids of another user")


@contextmanager
def seen(**options: Any) -> Iterator[View]:
    """The view of a process that does nothing."""
    with subprocess.Popen(WAITS, **options) as process:
        view = None
        try:
            view = view_of(process.pid)
            assert view is not None
            yield view
        finally:
            process.kill()
            if view is not None:
                view.close()


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    """A folder that a process has for its root; outside of it lies `secret.py`."""
    (tmp_path / "secret.py").write_text("secret\n")
    inside = tmp_path / "root"
    (inside / "a" / "b").mkdir(parents=True)
    (inside / "a" / "b" / "train.py").write_text("one\ntwo\n")
    handle = os.open(inside, os.O_PATH)
    yield handle
    os.close(handle)


def text(root: int, path: str) -> str:
    with open(open_inside(root, root, path)) as file:
        return file.read()


def test_lines_are_told_by_their_numbers_as_python_counts_them(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"import torch\r\n\x0c\r\nx = '\xe2\x80\xa8'\n   loss.item()  \n# \xff\n")
    wanted = {str(path): {1, 4, 5, 99}, str(tmp_path / "none.py"): {1}}
    with seen(cwd=tmp_path) as view:
        found = view.read(wanted)
        relative = view.read({"train.py": {4}, "../none.py": {1}})

    assert found == {
        (str(path), 1): "import torch",
        (str(path), 4): "loss.item()",
        (str(path), 5): "# \ufffd",
    }
    assert relative == {("train.py", 4): "loss.item()"}


def test_a_view_outlives_its_process(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("one\n")
    with subprocess.Popen(WAITS, cwd=tmp_path) as process:
        view = view_of(process.pid)
        process.kill()
    assert view is not None

    assert view.read({"train.py": {1}}) == {("train.py", 1): "one"}
    view.close()
    assert view_of(process.pid) is None


def test_links_are_followed_as_far_as_the_root_and_not_out_of_it(root: int, tmp_path: Path) -> None:
    inside = tmp_path / "root"
    (inside / "near.py").symlink_to("a/b/train.py")
    (inside / "whole.py").symlink_to("/a/../a/b/train.py")
    (inside / "folder").symlink_to("/a")
    (inside / "out.py").symlink_to(tmp_path / "secret.py")
    (inside / "up.py").symlink_to("../secret.py")
    (inside / "a" / "up").symlink_to("../../..")
    (inside / "secret.py").write_text("its own\n")

    for path in ("/near.py", "near.py", "/whole.py", "/folder/b/train.py", "//a/./b/../b/train.py"):
        assert text(root, path) == "one\ntwo\n"
    for path in ("/up.py", "../secret.py", "/a/up/secret.py", "/../../secret.py"):
        assert text(root, path) == "its own\n"
    with pytest.raises(FileNotFoundError):
        text(root, "/out.py")


def test_only_regular_files_of_python_are_opened(root: int, tmp_path: Path) -> None:
    inside = tmp_path / "root"
    (inside / "passwd").write_text("secret")
    (inside / "link.py").symlink_to("passwd")
    (inside / "round.py").symlink_to("round.py")
    (inside / "folder.py").mkdir()
    os.mkfifo(inside / "pipe.py")

    for path in ("/passwd", "/link.py", "/round.py", "/folder.py", "/pipe.py", "/", "", "/near.py/x.py"):
        with pytest.raises(OSError):
            text(root, path)


def test_a_file_that_is_neither_its_users_nor_open_to_everybody_is_not_read(
    root: int, tmp_path: Path
) -> None:
    path = tmp_path / "root" / "a" / "b" / "train.py"
    path.chmod(0o640)

    assert lines_of(root, root, "/a/b/train.py", {2}, uid=os.getuid()) == {2: "two"}
    with pytest.raises(PermissionError):
        lines_of(root, root, "/a/b/train.py", {2}, uid=os.getuid() + 1)
    path.chmod(0o644)
    assert lines_of(root, root, "/a/b/train.py", {2}, uid=os.getuid() + 1) == {2: "two"}


@needs_root
def test_root_reads_nothing_that_the_programs_user_could_not() -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        private, shared = folder / "private", folder / "shared"
        for each in (private, shared):
            each.mkdir()
            (each / "train.py").write_text("text\n")
        private.chmod(0o700)
        with seen(user=NOBODY, group=NOBODY, extra_groups=[]) as view:
            found = view.read({str(each / "train.py"): {1} for each in (private, shared)})

    assert (view.uid, view.gid, view.groups) == (NOBODY, NOBODY, ())
    assert found == {(str(shared / "train.py"), 1): "text"}


@needs_root
def test_a_process_of_two_users_is_not_read_for() -> None:
    code = f"import os, time; os.seteuid({NOBODY}); print(1, flush=True); time.sleep(30)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert view_of(process.pid) is None
        process.kill()


def test_another_users_files_are_not_read_with_our_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(WAITS) as process:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert view_of(process.pid) is None
        process.kill()


def test_many_files_and_long_ones_are_cut_off(tmp_path: Path) -> None:
    names = [f"f{i}.py" for i in range(MOST_FILES + 5)]
    for name in names:
        (tmp_path / name).write_text("x\n")
    (tmp_path / "long.py").write_text("x\n" * 3_000_000)
    with seen(cwd=tmp_path) as view:
        found = view.read({name: {1} for name in names})
        of_long = view.read({"long.py": {1, 2_000_000, 2_999_999}})

    assert sorted(found) == sorted((name, 1) for name in names[:MOST_FILES])
    assert [line for _, line in of_long] == [1, 2_000_000]


def test_what_was_read_when_the_time_is_over_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x\n")
    (tmp_path / "b.py").write_text("x\n" * 2_000_000)
    wanted = {"a.py": {1}} | {"./" * i + "b.py": {2**30} for i in range(1, 100)}
    with seen(cwd=tmp_path) as view:
        begun = time.monotonic()
        found = view.read(wanted, seconds=0.2)

    assert found == {("a.py", 1): "x"}
    assert time.monotonic() - begun < 2
    assert view.read(wanted, seconds=0) == {}


def test_a_child_that_hangs_is_left_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = tmp_path / "hangs.py"
    hangs.write_text("""import time
print('[0, 1, "x"]', flush=True)
print('[0, 1', flush=True)
time.sleep(30)
""")
    monkeypatch.setattr(module, "__file__", str(hangs))
    with seen(cwd=tmp_path) as view:
        begun = time.monotonic()
        assert view.read({"a.py": {1}}, seconds=0.2) == {("a.py", 1): "x"}

    assert time.monotonic() - begun < 2
