"""Write a file, or a folder of files, whole or not at all."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

BUFFER = 1 << 20


def write_whole(path: Path, content: bytes) -> None:
    """
    Put *content* at *path* in one step: readers see the old file or the new one, never half of it.

    Raises OSError (a full disk, no permission) and then leaves what was there, and no debris.
    A link at *path* is replaced, not followed: a recording is hostile input.
    """
    with whole_file(path) as file:
        file.write(content)


@contextmanager
def folder_for(path: Path) -> Iterator[None]:
    """
    The folder that *path* goes into, made with those above it where they are missing.

    If the block ends in any other way than by its end, those that were made are gone again, if nobody else
    has put anything there.
    """
    above = path.parent
    made = list(itertools.takewhile(lambda folder: not os.path.lexists(folder), (above, *above.parents)))
    try:
        above.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """
    A file to write to, that is at *path* in one step once the block ends.

    If it ends in any other way, as by Ctrl-C or a full disk, what was there is left, and no debris.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb", buffering=BUFFER) as file:
            yield file
            file.flush()
            # Without it a full disk may only show after the old file is gone.
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """
    A folder to write files to, that is at *path* once the block ends; what was there before is removed then.

    If it ends in any other way, what was there is left, and no debris.
    """
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part"))
    try:
        yield temporary
        os.chmod(temporary, 0o777 & ~_umask())
        before = temporary.with_suffix(".old")
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, before)
        try:
            os.rename(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.rename(before, path)
            raise
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    try:
        _remove(before)
    except BaseException:  # interrupted meanwhile: what is new stands, what was before goes all the same
        _remove(before)
        raise


def _remove(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def _umask() -> int:
    """The process's umask, from /proc where there is one: asking the usual way has to change it."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("Umask:"):
                    return int(line.split()[1], 8)
    except OSError:
        pass
    return 0o077
