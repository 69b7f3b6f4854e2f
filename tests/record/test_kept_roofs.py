"""Calibrated roofs are kept per GPU and driver, and the file that holds them is not trusted."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfzero.errors import InputError, UsageError
from perfzero.record.kept_roofs import (
    MAX_BYTES,
    Calibration,
    document,
    own_path,
    read,
    readable_paths,
    with_kept_roofs,
)
from perfzero.sources.synthetic import H200
from perfzero.store.schema import Manifest, manifest_bytes, manifest_from_json

CALIBRATION = Calibration(
    uuid=H200.uuid,
    driver="580.159.04",
    name="NVIDIA H200",
    measured_ns=1_790_000_000_000_000_000,
    perfzero="0.1.0",
    framework="torch 2.11.0",
    roofs={"dram": 4.3e12, "bf16": 0.91},
    rates={"copy": 4.2e12},
    sm_clock_hz={"bf16": 1.4e9},
)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this user's roofs are kept, in a folder that exists."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("SUDO_UID", raising=False)
    own_path().parent.mkdir()
    return own_path()


def changed(path: Path, **changes: Any) -> None:
    """Write a file whose only calibration has other values."""
    content = json.loads(document([CALIBRATION]))
    content["calibrations"][0].update(changes)
    path.write_text(json.dumps(content))


def test_what_is_written_is_read(path: Path) -> None:
    path.write_bytes(document([CALIBRATION, replace(CALIBRATION, uuid="GPU-b")]))

    assert read(path) == (CALIBRATION, replace(CALIBRATION, uuid="GPU-b"))


def test_without_a_file_every_gpu_stays_as_it_is(path: Path) -> None:
    said: list[str] = []

    assert with_kept_roofs([H200], tell=said.append) == [H200]
    assert said == []


def test_a_gpu_gets_the_roofs_that_were_measured_on_it_and_the_day(path: Path) -> None:
    path.write_bytes(document([CALIBRATION]))

    (gpu,) = with_kept_roofs([H200])

    assert gpu.calibrated == {"dram": 4.3e12, "bf16": 0.91, "unix_s": 1.79e9}


@pytest.mark.parametrize("newest", [0, 1])
def test_of_two_files_the_newest_roofs_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, newest: int
) -> None:
    paths = [tmp_path / "ours.json", tmp_path / "theirs.json"]
    for path, older in zip(paths, (newest != 0, newest != 1), strict=True):
        day = replace(CALIBRATION, measured_ns=1_780_000_000_000_000_000, roofs={"dram": 4.0e12})
        path.write_bytes(document([day if older else CALIBRATION]))
    monkeypatch.setattr("perfzero.record.kept_roofs.readable_paths", lambda: paths)

    (gpu,) = with_kept_roofs([H200])

    assert gpu.calibrated == {"dram": 4.3e12, "bf16": 0.91, "unix_s": 1.79e9}


@pytest.mark.parametrize("other", [{"uuid": "GPU-other"}, {"driver": "590.1"}, {"driver": None}])
def test_roofs_of_another_gpu_or_under_another_driver_do_not_count(path: Path, other: dict[str, Any]) -> None:
    path.write_bytes(document([CALIBRATION]))

    (gpu,) = with_kept_roofs([replace(H200, **other)])

    assert gpu.calibrated == {}


def test_a_roof_that_cannot_be_right_is_left_out_and_said(path: Path) -> None:
    changed(path, roofs={"dram": 4.3e14, "bf16": 0.91, "warp": 9.0})
    said: list[str] = []

    (gpu,) = with_kept_roofs([H200], tell=said.append)

    assert gpu.calibrated == {"bf16": 0.91, "unix_s": 1.79e9}
    assert said == ["calibrated roofs of GPU 0 that cannot be right are left out: dram, warp"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{",
        b'{"format": 2}',
        b'{"format": 1, "calibrations": [{}]}',
        b"[" * 100_000,
        b'{"format": 1, "calibrations": NaN}',
        document([CALIBRATION]) + b" " * MAX_BYTES,
    ],
)
def test_a_file_that_is_none_of_ours_is_left_out_and_said(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    said: list[str] = []

    assert with_kept_roofs([H200], tell=said.append) == [H200]
    assert len(said) == 1
    assert said[0].startswith(f"The calibrated roofs in {path} cannot be read: ")


@pytest.mark.parametrize("roofs", [{"dram": "fast"}, {"dram": True}, {"dram": 1e400}, ["dram"], None])
def test_a_roof_that_is_no_number_is_refused(path: Path, roofs: Any) -> None:
    changed(path, roofs=roofs)

    with pytest.raises(InputError, match="roofs"):
        read(path)


@pytest.mark.parametrize("kind", ["roofs", "rates", "sm_clock_hz"])
@pytest.mark.parametrize("figure", [None, -1.0, 1e308])
def test_a_figure_that_no_gpu_can_have_is_refused(path: Path, kind: str, figure: float | None) -> None:
    changed(path, **{kind: {"bf16": figure}})

    with pytest.raises(InputError, match=kind):
        read(path)

    changed(path, **{kind: {"bf16": 0.0}})
    assert getattr(read(path)[0], kind) == {"bf16": 0.0}


def test_a_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(document([CALIBRATION]))
    path.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(InputError, match="cannot be read"):
        read(path)


def test_a_pipe_is_not_waited_for(path: Path) -> None:
    os.mkfifo(path)

    with pytest.raises(InputError, match="no plain file"):
        read(path)


def test_the_place_is_the_users_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")  # not allowed by the specification
    assert own_path() == tmp_path / ".config" / "perfzero" / "roofs.json"

    monkeypatch.setenv("XDG_CONFIG_HOME", "/elsewhere")
    assert own_path() == Path("/elsewhere/perfzero/roofs.json")


def test_without_a_home_directory_nothing_is_kept_and_no_recording_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As in a container whose user the list of users does not know."""

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    for name in ("HOME", "XDG_CONFIG_HOME", "SUDO_UID"):
        monkeypatch.delenv(name, raising=False)

    assert with_kept_roofs([H200]) == [H200]
    with pytest.raises(UsageError, match="XDG_CONFIG_HOME=/a/folder"):
        own_path()

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert readable_paths() == [tmp_path / "perfzero" / "roofs.json"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can have been called through sudo")
def test_with_sudo_the_roofs_of_the_user_who_called_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd

    user = next((u for u in pwd.getpwall() if u.pw_uid > 0), None)
    if user is None:
        pytest.skip("there is no other user here")
    monkeypatch.setenv("SUDO_UID", str(user.pw_uid))

    assert readable_paths()[-1] == Path(user.pw_dir) / ".config" / "perfzero" / "roofs.json"


def test_a_recording_carries_the_roofs_and_an_older_one_has_none() -> None:
    gpu = replace(H200, calibrated={"dram": 4.3e12, "unix_s": 1.79e9})
    manifest = Manifest(format=1, perfzero="0.1.0", state="complete", created_ns=1, gpus=(gpu,))
    written = json.loads(manifest_bytes(manifest))

    assert manifest_from_json(written).gpus[0].calibrated == gpu.calibrated

    del written["gpus"][0]["calibrated"]
    assert manifest_from_json(written).gpus[0].calibrated == {}
