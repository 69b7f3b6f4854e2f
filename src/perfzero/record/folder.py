"""
A folder of ours for a program of another user: nobody but root, or who we are, can put another in its place.

As root it lies where only root can write. In a folder of the program's user (`/run/user/UID`, the home) that
user could exchange it for a link to `/etc` while root still fills it, and root would write there, and give
away what is there already. Below a folder that only root can write the name stays ours for as long as we
live, so what is done by name is done to it; what lies in it is its user's once that has been handed over.

A recorder that is killed leaves its folders. Each is locked (`flock`) for as long as its recorder lives, by
the kernel, so whoever makes the next one as root removes those that nobody holds any more.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import stat
import tempfile
import time
from pathlib import Path

from perfzero.record.launch import Invoker
from perfzero.words.said import say

SHARED = ("/run", "/var/lib")
"""Where only root can write, and others can pass; the first is empty again after a start of the machine."""

MARK = "_perfzero_agent.py"
"""What lies in each of our folders, and in none that somebody else keeps there under such a name."""

YOUNG_S = 60.0
"""A folder of less than this may have a recorder that has not come to lock it yet."""

_NAME = re.compile(r"perfzero-[a-z0-9_]{8}")


class Folder:
    """
    A new folder for a program of *user* (None: of ours), its name and the lock on it. Raises OSError.

    It is ours alone until it is handed over.
    """

    def __init__(self, user: Invoker | None) -> None:
        parent = parent_of(user)
        if os.geteuid() == 0:
            remove_left(parent)
        self.path = Path(tempfile.mkdtemp(prefix="perfzero-", dir=parent))
        self._handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # a home on a network may know no locks
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def remove(self) -> None:
        """Remove it, with all that is in it. Harmless when called twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.leave()

    def leave(self) -> None:
        """Let go of it, and leave it where it is."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


def parent_of(user: Invoker | None) -> Path:
    """
    A folder in which nobody but we can make another one. Raises OSError without one.

    In /tmp everybody can: a program that outlives us would take its `sitecustomize` from whoever makes a
    folder of the old name. A program of another *user* is root's affair.
    """
    uid = os.geteuid()
    if uid == 0 or user is not None:
        for place in map(Path, SHARED):
            with contextlib.suppress(OSError):
                seen = place.lstat()
                is_roots = stat.S_ISDIR(seen.st_mode) and seen.st_uid == 0 and seen.st_mode & 0o023 == 0o001
                if is_roots and os.access(place, os.W_OK | os.X_OK):
                    return place
        raise OSError(errno.EACCES, say("folder.roots"))
    places = [Path(f"/run/user/{uid}")]
    home = Path(os.path.expanduser("~"))
    if _is_private(home):  # else others could exchange what lies in it
        cache = home / ".cache"
        with contextlib.suppress(OSError):
            cache.mkdir(mode=0o700)
        places += [cache, home]
    for place in places:
        if _is_private(place) and os.access(place, os.W_OK | os.X_OK) and os.pathsep not in str(place):
            return place
    raise OSError(errno.EACCES, say("folder.own"))


def _is_private(place: Path) -> bool:
    """Whether nobody but we and root can write in the folder *place*."""
    try:
        seen = place.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(seen.st_mode) and not seen.st_mode & 0o022 and seen.st_uid in (0, os.geteuid())


def remove_left(parent: Path) -> None:
    """Remove from *parent*, in which only root can write, the folders of recorders that were killed."""
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if _NAME.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    _remove_if_left(parent / entry.name)


def _remove_if_left(path: Path) -> None:
    """Remove one of them, if nobody holds it. Raises OSError where somebody does."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if time.time() - os.fstat(handle).st_ctime < YOUNG_S:
            return
        os.stat(MARK, dir_fd=handle, follow_symlinks=False)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(handle)
