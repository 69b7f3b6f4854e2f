"""
What `perfzero calibrate` measured, kept from one run of perfzero to the next.

    $XDG_CONFIG_HOME/perfzero/roofs.json    or ~/.config/perfzero/roofs.json

One `Calibration` per GPU and driver: a new driver may clock, copy and multiply otherwise, so what
was measured under another one does not count. The file is read as if anyone had written it: its size
is bounded, its types are checked, links are not followed, and a roof that cannot be right is left
out with a sentence that says so. It is replaced as a whole, so that whoever reads it meanwhile sees
the old one or the new one.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from perfzero.errors import InputError, UsageError
from perfzero.hardware import plausible
from perfzero.record.launch import invoking_user
from perfzero.store.decode import decode, parse_json
from perfzero.values import Gpu
from perfzero.words.said import first_line, listed, say

FORMAT = 1
"""Of the file. What is newer is not read, and not overwritten."""

MAX_BYTES = 1 << 20
"""A calibration takes 700 bytes; a thousand of them fit."""

MAX_FIGURE = 1e18
"""A rate of 1e18 FLOP/s is that of a supercomputer; what is larger would fill the screen with digits."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """
    The practical roofs of one GPU under one driver.

    `roofs`: by the names of `perfzero.hardware.CALIBRATED`, in their units. `rates`: what they come
    from, in bytes/s and FLOP/s. `sm_clock_hz`: the SM clock while each product ran. `framework`: what ran it.
    """

    uuid: str
    driver: str
    name: str
    measured_ns: int
    perfzero: str
    framework: str
    roofs: Mapping[str, float]
    rates: Mapping[str, float] = field(default_factory=dict)
    sm_clock_hz: Mapping[str, float] = field(default_factory=dict)

    def of(self, gpu: Gpu) -> bool:
        """Whether it was measured on *gpu* under the driver it has now."""
        return (self.uuid, self.driver) == (gpu.uuid, gpu.driver or "")


@dataclass(frozen=True, slots=True)
class Kept:
    """What stands in the file."""

    format: int
    calibrations: tuple[Calibration, ...] = ()


def own_path() -> Path:
    """
    Where this user's calibrations are kept. Raises `UsageError` for a user who has no home directory.

    That is one without HOME whom the list of users does not know, as in many containers.
    """
    # The specification of XDG_CONFIG_HOME has relative paths ignored.
    config = os.environ.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(config):
        return Path(config) / "perfzero" / "roofs.json"
    try:
        home = Path.home()
    except RuntimeError:
        raise UsageError(say("roofs.no_home", user=os.geteuid())) from None
    return home / ".config" / "perfzero" / "roofs.json"


def readable_paths() -> list[Path]:
    """Where calibrations may be: the user's own, and with sudo those of the user who called it."""
    found = []
    with suppress(UsageError):  # without a home directory nothing can have been kept
        found.append(own_path())
    user = invoking_user()
    if user is not None:
        found.append(Path(user.home) / ".config" / "perfzero" / "roofs.json")
    return list(dict.fromkeys(found))


def read(path: Path) -> tuple[Calibration, ...]:
    """What is kept at *path*, nothing where no file is. Raises `InputError` for what cannot be trusted."""
    try:
        content = _bounded(path)
        if content is None:
            return ()
        kept = decode(Kept, parse_json(content), where="roofs")
        if kept.format != FORMAT:
            raise ValueError(say("roofs.format", format=kept.format, ours=FORMAT))
        for calibration in kept.calibrations:
            _refuse_impossible(calibration)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(say("roofs.unreadable", path=path, why=why)) from error
    return kept.calibrations


def possible(figure: float) -> bool:
    """Whether *figure* may stand in the file: it is there (no NaN), not negative, and not endless."""
    return 0 <= figure <= MAX_FIGURE


def _refuse_impossible(calibration: Calibration) -> None:
    """Raise ValueError for a figure that is missing (null) or far from anything a GPU does."""
    for kind in ("roofs", "rates", "sm_clock_hz"):
        for name, value in getattr(calibration, kind).items():
            if not possible(value):
                raise ValueError(say("roofs.impossible", kind=kind, name=f"{name[:80]!r}"))


def document(calibrations: Sequence[Calibration]) -> bytes:
    """What the file holds for *calibrations*."""
    content = {"format": FORMAT, "calibrations": [asdict(c) for c in calibrations]}
    return (json.dumps(content, indent=1, allow_nan=False) + "\n").encode()


def with_kept_roofs(gpus: Sequence[Gpu], *, tell: Callable[[str], None] = lambda _: None) -> list[Gpu]:
    """
    *gpus*, each with the roofs that were measured on it. Never raises for what is kept.

    What cannot be trusted is left out, and *tell* is told so.
    """
    kept: list[Calibration] = []
    for path in readable_paths():
        try:
            kept += read(path)
        except InputError as error:
            tell(first_line(error.sentence))
    return [_calibrated(gpu, kept, tell=tell) for gpu in gpus]


def _calibrated(gpu: Gpu, kept: Sequence[Calibration], *, tell: Callable[[str], None]) -> Gpu:
    # There are two where root and the user who called sudo have both calibrated it.
    found = max((c for c in kept if c.of(gpu)), key=lambda c: c.measured_ns, default=None)
    if found is None:
        return gpu
    measured = {**found.roofs, "unix_s": found.measured_ns / 1e9}
    roofs = {name: value for name, value in measured.items() if plausible(gpu, name, value)}
    refused = sorted(measured.keys() - roofs.keys())
    if refused:
        tell(say("roofs.refused", gpu=gpu.index, names=listed(refused)))
    return replace(gpu, calibrated=roofs)


def _bounded(path: Path) -> bytes | None:
    """The content of a small, plain file; None where there is none. Raises OSError or ValueError."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError(say("roofs.not_plain"))
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(say("roofs.too_large", size=f"{MAX_BYTES:,}"))
    return content
