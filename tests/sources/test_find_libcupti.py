"""Which libcupti is loaded, and which root does not load."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perfzero.errors import NoLibrary
from perfzero.sources import _find_libcupti
from perfzero.sources._find_libcupti import find_libraries, load_library
from perfzero.sources._libcupti import INSUFFICIENT_PRIVILEGES, NOT_SUPPORTED, CuptiError


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    """We are root, called through sudo by whoever runs the tests; nothing is named in the environment."""
    monkeypatch.setenv("SUDO_UID", str(os.getuid()))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    for name in ("PERFZERO_CUPTI", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)


def library_in(folder: Path, name: str = "libcupti.so.13") -> Path:
    """An empty libcupti where a wheel puts it below *folder*."""
    place = folder / "nvidia" / ("cu13" if name.endswith("13") else "cuda_cupti") / "lib"
    place.mkdir(parents=True)
    (place / name).write_bytes(b"")
    return place / name


def found(*hints: Path) -> list[Path]:
    return [library.path for library in find_libraries([str(h) for h in hints])]


def test_a_library_that_only_root_and_the_caller_of_sudo_can_change_is_loaded(tmp_path):
    path = library_in(tmp_path)
    (path.parent / "libnvperf_host.so").write_bytes(b"")
    assert path in found(tmp_path)


def test_a_link_is_followed_once_so_that_it_cannot_lead_elsewhere_later(tmp_path):
    real = library_in(tmp_path / "toolkit")
    place = tmp_path / "theirs" / "nvidia" / "cu13" / "lib"
    place.mkdir(parents=True)
    (place / "libcupti.so.13").symlink_to(real)
    (place / "libnvperf_target.so").write_bytes(b"theirs")  # would be loaded beside the link

    assert [p for p in found(tmp_path / "theirs") if p.is_relative_to(tmp_path)] == [real]


@pytest.mark.parametrize("which", ["libcupti.so.13", "libnvperf_target.so", "libnvperf_host.so", "."])
def test_what_others_can_write_is_not_loaded_nor_what_lies_beside_it(which, tmp_path):
    path = library_in(tmp_path)
    for name in ("libnvperf_target.so", "libnvperf_host.so"):
        (path.parent / name).write_bytes(b"")
    (path.parent / which).chmod(0o777)
    assert path not in found(tmp_path)


def test_a_folder_far_above_it_that_others_can_write_is_enough_to_refuse(tmp_path):
    path = library_in(tmp_path / "open" / "below")
    (tmp_path / "open").chmod(0o777)
    assert path not in found(tmp_path / "open" / "below")


def test_but_not_where_only_owners_can_replace_files_as_in_tmp(tmp_path):
    path = library_in(tmp_path / "open" / "below")
    (tmp_path / "open").chmod(0o1777)
    assert path in found(tmp_path / "open" / "below")


@pytest.mark.skipif(os.getuid() != 0, reason="giving files away takes root")
@pytest.mark.parametrize(("user", "group", "loaded"), [(65534, 0, False), (0, 65534, False), (0, 0, True)])
def test_what_another_user_or_group_can_change_is_not_loaded(user, group, loaded, tmp_path):
    path = library_in(tmp_path)
    path.chmod(0o775)
    os.chown(path, user, group)
    assert (path in found(tmp_path)) is loaded


def test_a_folder_with_special_characters_is_taken_literally(tmp_path):
    path = library_in(tmp_path / "[a]*")
    library_in(tmp_path / "a")
    assert [p for p in found(tmp_path / "[a]*") if p.is_relative_to(tmp_path)] == [path]


# --- which of several ------------------------------------------------------------------------


class Library:
    """libcupti as `load_library` asks it; those of CUDA 13 cannot be used here."""

    version = 130001
    has_pm_sampling = True
    refuses = ("13",)

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def initialize(self) -> None:
        if self.path.endswith(self.refuses):
            raise CuptiError("cuptiProfilerInitialize", NOT_SUPPORTED)

    def chip_name(self, index: int) -> str:
        return f"GH{index}"


def test_a_library_that_does_not_work_gives_way_to_an_older_one_that_does(tmp_path, monkeypatch):
    monkeypatch.setattr(_find_libcupti, "Library", Library)
    library_in(tmp_path)
    older = library_in(tmp_path, "libcupti.so.12")
    assert load_library([str(tmp_path)], index=0).path == str(older)


def test_when_none_works_the_reason_of_the_best_one_is_kept(tmp_path, monkeypatch):
    class NoneWorks(Library):
        refuses = ("12", "13")

        def initialize(self) -> None:
            if self.path == str(best):
                raise CuptiError("cuptiProfilerInitialize", INSUFFICIENT_PRIVILEGES)
            super().initialize()

    monkeypatch.setattr(_find_libcupti, "Library", NoneWorks)
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    best = library_in(tmp_path)
    library_in(tmp_path, "libcupti.so.12")
    with pytest.raises(CuptiError) as caught:
        load_library(index=0)
    assert caught.value.code == INSUFFICIENT_PRIVILEGES


def test_a_library_that_is_not_trusted_is_named_with_the_reason(tmp_path, monkeypatch):
    library_in(tmp_path).chmod(0o666)
    monkeypatch.setattr("sys.path", [])
    monkeypatch.setattr(
        "glob.glob",
        lambda pattern, glob=_find_libcupti.glob.glob: (
            glob(pattern) if pattern.startswith(str(tmp_path)) else []
        ),
    )
    with pytest.raises(NoLibrary, match=r"libcupti\.so\.13: not loaded as root, since others"):
        load_library([str(tmp_path)], index=0)


def test_a_file_that_is_no_library_is_named_with_the_reason(tmp_path, monkeypatch):
    (tmp_path / "libcupti.so.13").write_bytes(b"no library")
    monkeypatch.setenv("PERFZERO_CUPTI", str(tmp_path / "libcupti.so.13"))
    with pytest.raises(NoLibrary, match=r"file too short|invalid ELF header"):
        load_library(index=0)
