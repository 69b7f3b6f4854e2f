"""Opening a file of a recording that anyone may have put there."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from perfzero.words.said import say


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading that is neither a link out of the folder nor a device. Raises OSError."""
    # O_NONBLOCK: opening a pipe that nobody writes to would wait for ever.
    flags = (
        os.O_RDONLY
        | getattr(os, "O_NOFOLLOW", 0)
        | getattr(os, "O_NONBLOCK", 0)
        | getattr(os, "O_CLOEXEC", 0)
    )
    try:
        fd = os.open(path, flags)
    except OSError:
        if path.is_symlink():
            raise OSError(0, say("file.is_link")) from None
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(0, say("file.not_regular"))
    return os.fdopen(fd, "rb")
