"""
Which libcupti: the one torch brought, a toolkit's, or the optional wheel.

Loading a library runs its code, so root loads only files that nobody but root, or the user who
called sudo, can have put there or can exchange: see `trusted`.
"""

from __future__ import annotations

import glob
import os
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perfzero.errors import NoGpu, NoLibrary
from perfzero.sources._libcupti import SIBLINGS, Cuda, CudaError, CuptiError, Library
from perfzero.words.said import say

OLDEST_VERSION = 24
"""cuptiGetVersion of CUDA 12.6, the first with PM sampling."""


@dataclass(frozen=True, slots=True)
class FoundLibrary:
    """A libcupti on this machine, without symbolic links in its path, and where it comes from."""

    path: Path
    origin: str


def find_libraries(hints: Sequence[str] = ()) -> tuple[FoundLibrary, ...]:
    """
    Every libcupti that may be loaded, best first: newer CUDA major versions before older ones.

    *hints* are more folders to look in, e.g. the site-packages of the program that is watched.
    PERFZERO_CUPTI names one file and beats all. As root, only what others cannot change is considered.
    """
    return tuple(found for found in _present(hints) if _may_load(found))


def _present(hints: Sequence[str]) -> tuple[FoundLibrary, ...]:
    """Every libcupti on this machine, trusted or not, best first."""
    named = os.environ.get("PERFZERO_CUPTI")
    if named:
        return (FoundLibrary(Path(named), "PERFZERO_CUPTI"),)
    places: list[tuple[str, str]] = []
    for folder in map(glob.escape, [*sys.path, *hints]):
        places += [
            (f"{folder}/nvidia/cu*/lib/libcupti.so.*", say("origin.package")),
            (f"{folder}/nvidia/cuda_cupti/lib/libcupti.so.*", say("origin.package")),
        ]
    for root in filter(None, (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"))):
        places.append(
            (f"{glob.escape(root)}/extras/CUPTI/lib64/libcupti.so.[1-9][0-9]", say("origin.toolkit"))
        )
    places += [
        ("/usr/local/cuda*/extras/CUPTI/lib64/libcupti.so.[1-9][0-9]", say("origin.toolkit")),
        ("/usr/local/cuda*/targets/*/lib/libcupti.so.[1-9][0-9]", say("origin.toolkit")),
        ("/usr/lib/*-linux-gnu/libcupti.so.[1-9][0-9]", say("origin.system")),
        ("/usr/lib64/libcupti.so.[1-9][0-9]", say("origin.system")),
    ]
    found: dict[Path, tuple[int, FoundLibrary]] = {}
    for pattern, origin in places:
        for name in sorted(glob.glob(pattern)):
            # From here on only the real file counts: a link could point elsewhere a moment later.
            real = Path(os.path.realpath(name))
            found.setdefault(real, (_soname_major(name), FoundLibrary(real, origin)))
    return tuple(library for _, library in sorted(found.values(), key=lambda f: -f[0]))


def _soname_major(name: str) -> int:
    """The 13 in libcupti.so.13."""
    tail = name.rsplit(".", 1)[-1]
    return int(tail) if tail.isdigit() else 0


def trusted_users() -> frozenset[int]:
    """The users whose files root may load: root, and the one who called sudo."""
    caller = os.environ.get("SUDO_UID", "")
    return frozenset((0, int(caller))) if caller.isdigit() else frozenset((0,))


def _may_load(found: FoundLibrary) -> bool:
    """Whether this process may run the code of *found* and of the libraries that it loads from its folder."""
    if os.geteuid() != 0 or found.origin == "PERFZERO_CUPTI":
        return True
    siblings = [found.path.with_name(name) for name in SIBLINGS]
    present = [Path(os.path.realpath(s)) for s in siblings if os.path.lexists(s)]
    return all(map(trusted, (found.path, *present)))


def trusted(path: Path) -> bool:
    """
    Whether only root, or the user who called sudo, can have put the file *path* there or can exchange it.

    They own the file and every folder above it, and nobody else may write to any of these. A group
    may, where it is root's, the caller's own (of the same number, as Linux systems create it), or the one
    that the system lets write to /usr/local (Debian's "staff"): root runs programs from there anyway.
    A folder above the file's own may be open to all where only owners can replace files in it (/tmp).
    """
    users = trusted_users()
    groups = set(users)
    try:
        local = os.stat("/usr/local")
        if local.st_uid == 0 and local.st_mode & stat.S_IWGRP:
            groups.add(local.st_gid)
    except OSError:
        pass
    try:
        for place in (path, *path.parents):
            seen = os.lstat(place)
            open_to_all = seen.st_mode & stat.S_IWOTH
            if place not in (path, path.parent) and seen.st_mode & stat.S_ISVTX:
                open_to_all = 0
            open_to_group = seen.st_mode & stat.S_IWGRP and seen.st_gid not in groups
            if seen.st_uid not in users or open_to_all or open_to_group:
                return False
    except OSError:
        return False
    return True


def load_library(hints: Sequence[str] = (), *, index: int) -> Library:
    """
    The first libcupti that is new enough and works with the driver and with CUDA device *index*.

    Raises `NoLibrary` when none is found, and the `CuptiError` of the best one when all refuse to work.
    """
    tried: list[str] = []
    refusal: CuptiError | None = None
    for found in _present(hints):
        if not _may_load(found):
            tried.append(say("cupti.not_loaded", path=found.path))
            continue
        try:
            library = Library(found.path)
            if library.version < OLDEST_VERSION or not library.has_pm_sampling:
                tried.append(say("cupti.old", path=found.path, version=library.version))
                continue
        except (OSError, AttributeError, CuptiError) as error:
            tried.append(f"{found.path}: {error}")
            continue
        try:
            library.initialize()
            library.chip_name(index)
        except (OSError, CuptiError) as error:
            # Newer than the driver, or older than the chip: the next one may do.
            tried.append(f"{found.path}: {error}")
            if refusal is None and isinstance(error, CuptiError):
                refusal = error
            continue
        return library
    if refusal is not None:
        raise refusal
    detail = "".join(f"\n  {t}" for t in tried)
    raise NoLibrary(say("cupti.none", detail=detail))


def load_cuda() -> Cuda:
    """The driver. Raises `NoGpu` when there is none or it sees no device."""
    try:
        return Cuda()
    except OSError as error:
        raise NoGpu(say("driver.none", why=error)) from None
    except CudaError as error:
        raise NoGpu(say("driver.no_gpu", why=error)) from None
