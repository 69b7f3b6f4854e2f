"""Watching a process that somebody else started: whether it runs, and what of it root may load."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import namedtuple

import psutil
import pytest

from perfzero.errors import UsageError
from perfzero.record.attach import Bystander
from perfzero.record.session import library_hints


def test_a_process_that_vanishes_between_two_looks_has_ended(monkeypatch):
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    watched = Bystander(other.pid)
    assert watched.running

    def running_then_gone(process: psutil.Process) -> bool:
        other.communicate()
        return True

    monkeypatch.setattr(psutil.Process, "is_running", running_then_gone)
    assert not watched.running
    watched.restore_signals()


@pytest.mark.parametrize("pid", [-5, 2**22 - 1, 2**70])
def test_what_is_no_process_cannot_be_attached_to(pid):
    with pytest.raises(UsageError, match=f"no process {pid}"):
        Bystander(pid)


@pytest.mark.parametrize(
    ("us", "caller", "theirs", "trusted"),
    [
        (0, "", 0, True),
        (0, "", 1234, False),
        (0, "1234", 1234, True),
        (0, "1234", 999, False),
        (7, "", 9, True),
    ],
)
def test_root_looks_for_libraries_only_where_a_program_of_its_own_or_its_callers_says(
    us, caller, theirs, trusted, tmp_path, monkeypatch
):
    packages = tmp_path / "lib" / "python3.12" / "site-packages"
    packages.mkdir(parents=True)
    monkeypatch.setenv("SUDO_UID", caller)
    monkeypatch.setattr("os.geteuid", lambda: us)
    monkeypatch.setattr(psutil.Process, "environ", lambda _: {"VIRTUAL_ENV": str(tmp_path)})
    users = namedtuple("users", "real effective saved")(theirs, theirs, theirs)
    monkeypatch.setattr(psutil.Process, "uids", lambda _: users)

    assert library_hints((), os.getpid()) == ([str(packages)] if trusted else [])
