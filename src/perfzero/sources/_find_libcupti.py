"""
Which libcupti: the one torch brought, a toolkit's, or the optional wheel.

Loading a library runs its code, so as root only files are considered that nobody but root or
the user who called sudo can have put there.
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perfzero.errors import NoGpu, NoLibrary
from perfzero.sources._libcupti import Cuda, CudaError, CuptiError, Library

OLDEST_VERSION = 24
"""cuptiGetVersion of CUDA 12.6, the first with PM sampling."""


@dataclass(frozen=True, slots=True)
class FoundLibrary:
    """A libcupti on this machine, and where it comes from."""

    path: Path
    origin: str


def find_libraries(hints: Sequence[str] = ()) -> tuple[FoundLibrary, ...]:
    """
    Every libcupti on this machine, best first: newer CUDA major versions before older ones.

    *hints* are more folders to look in, e.g. the site-packages of the program that is watched.
    PERFZERO_CUPTI names one file and beats all. As root, only files that root or the invoking
    user owns are considered, since loading a library runs its code.
    """
    named = os.environ.get("PERFZERO_CUPTI")
    if named:
        return (FoundLibrary(Path(named), "PERFZERO_CUPTI"),)
    places: list[tuple[str, str]] = []
    for folder in [*sys.path, *hints]:
        places += [
            (f"{folder}/nvidia/cu*/lib/libcupti.so.*", "Python package"),
            (f"{folder}/nvidia/cuda_cupti/lib/libcupti.so.*", "Python package"),
        ]
    for root in filter(None, (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"))):
        places.append((f"{root}/extras/CUPTI/lib64/libcupti.so.[1-9][0-9]", "CUDA toolkit"))
    places += [
        ("/usr/local/cuda*/extras/CUPTI/lib64/libcupti.so.[1-9][0-9]", "CUDA toolkit"),
        ("/usr/local/cuda*/targets/*/lib/libcupti.so.[1-9][0-9]", "CUDA toolkit"),
        ("/usr/lib/*-linux-gnu/libcupti.so.[1-9][0-9]", "system package"),
        ("/usr/lib64/libcupti.so.[1-9][0-9]", "system package"),
    ]
    found: dict[Path, FoundLibrary] = {}
    for pattern, origin in places:
        for name in sorted(glob.glob(pattern)):
            real = Path(os.path.realpath(name))
            if real not in found and _trusted(real):
                found[real] = FoundLibrary(Path(name), origin)
    return tuple(sorted(found.values(), key=lambda f: -_soname_major(f.path)))


def _soname_major(path: Path) -> int:
    """The 13 in libcupti.so.13."""
    tail = path.name.rsplit(".", 1)[-1]
    return int(tail) if tail.isdigit() else 0


def _trusted(path: Path) -> bool:
    """Whether root may load *path*: it and its folder belong to root or to the user who called sudo."""
    if os.geteuid() != 0:
        return True
    owners = {0, int(os.environ.get("SUDO_UID", "0"))}
    try:
        return all(p.stat().st_uid in owners and not p.stat().st_mode & 0o002 for p in (path, path.parent))
    except OSError:
        return False


def load_library(hints: Sequence[str] = ()) -> Library:
    """
    The first usable libcupti.

    Raises `NoGpu` when there is no driver, `NoLibrary` when no libcupti of CUDA 12.6 or later is found.
    """
    tried: list[str] = []
    for found in find_libraries(hints):
        try:
            library = Library(found.path)
        except (OSError, CuptiError) as error:
            tried.append(f"{found.path}: {error}")
            continue
        if library.version >= OLDEST_VERSION and library.has_pm_sampling:
            return library
        tried.append(f"{found.path}: version {library.version} is older than CUDA 12.6")
    detail = "".join(f"\n  {t}" for t in tried)
    raise NoLibrary(
        "No libcupti of CUDA 12.6 or later can be loaded, so hardware counters cannot be sampled."
        f"{detail}\n"
        "Install one:  pip install 'perfzero[cupti]'   or name one: PERFZERO_CUPTI=/path/to/libcupti.so.13\n"
        "Or record without: perfzero record --source gpm"
    )


def load_cuda() -> Cuda:
    """The driver. Raises `NoGpu` when there is none or it sees no device."""
    try:
        return Cuda()
    except OSError as error:
        raise NoGpu(
            f"There is no NVIDIA driver here: {error}.\nWhat can be read on this machine: perfzero doctor"
        ) from None
    except CudaError as error:
        raise NoGpu(
            f"The NVIDIA driver sees no GPU: {error}.\nWhat can be read on this machine: perfzero doctor"
        ) from None
