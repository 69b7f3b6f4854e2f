"""
What was kept, packed into few files of limited size: for a machine from which folders do not come back.

Each file is whole at any time, so what was kept until the machine is taken away is not lost.
"""

from __future__ import annotations

import io
import tarfile
import threading
from pathlib import Path

from perfzero.report.atomic import write_whole

LIMIT_BYTES = 12_000_000
"""Of a file, before the next one is begun; a case adds less than a megabyte."""


class Archive:
    """Writes `kept-1.tar`, `kept-2.tar`, ... into the folder *out*, with paths from *root* on."""

    def __init__(self, out: Path, *, root: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self._out = out
        self._root = root
        self._limit_bytes = limit_bytes
        self._number = 1
        self._held: list[Path] = []
        self._lock = threading.Lock()

    def add(self, path: Path) -> None:
        """A file or folder that is kept now."""
        with self._lock:
            self._held.append(path)
            packed = io.BytesIO()
            with tarfile.open(fileobj=packed, mode="w") as file:
                for held in self._held:
                    file.add(held, arcname=str(held.relative_to(self._root)))
            write_whole(self._out / f"kept-{self._number}.tar", packed.getvalue())
            if len(packed.getvalue()) > self._limit_bytes:
                self._number += 1
                self._held = []
