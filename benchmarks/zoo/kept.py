"""
What was measured is kept as files, so that an interrupted run goes on where it stopped.

    <kept>/a01/gains.json        the paces in turns, with the key of what they belong to
    <kept>/a01/base/, fixed/     trimmed recordings; `kept.json` in each has its keys and what was checked

Everything is put in its place at once when it is whole. What is there of an earlier program is replaced.
A recording made by another recorder is still replayed; only `run.py` measures such a case anew.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from case import Case, gains_key, recorder_key, recording_key
from first import AtFirst
from turns import Turns

from perfzero.report.atomic import whole_folder, write_whole

Version = Literal["base", "fixed"]
VERSIONS: tuple[Version, ...] = ("base", "fixed")

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "zoo" / "kept"

GAINS = "gains.json"
KEPT = "kept.json"


@dataclass(frozen=True, slots=True)
class Said:
    """A verdict and what else was found, as rule and severity; `reason` of no verdict."""

    verdict: str | None = None
    reason: str = ""
    findings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Checked:
    """
    What was made sure of when a recording was kept. `whole`: what the recording said before trimming.
    `at_first`: how the case went by the rules of then; None where that is not known, and of a fixed program.
    """

    key: str
    recorder: str
    made: str
    size: int
    whole: Said = field(default_factory=Said)
    trimmed: Said = field(default_factory=Said)
    problems: tuple[str, ...] = ()
    at_first: AtFirst | None = None


class Kept:
    """The folder in which things are kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def gains(self, case: Case) -> Turns | None:
        """The turns of *case*, None without any or if they are those of another program."""
        found = _read(self.folder / case.id / GAINS)
        if found is None or found.get("key") != gains_key(case):
            return None
        return Turns(found["word"], tuple(found["base"]), tuple(found["fixed"]))

    def keep_gains(self, case: Case, turns: Turns) -> Path:
        path = self.folder / case.id / GAINS
        path.parent.mkdir(parents=True, exist_ok=True)
        document = {"key": gains_key(case), "made": today(), **asdict(turns)}
        write_whole(path, (json.dumps(document, indent=1) + "\n").encode())
        return path

    def recording(self, case: Case, version: Version) -> Path | None:
        """That of *case*, by whichever recorder; None without one, or with that of another program."""
        path = self.folder / case.id / version
        found = _read(path / KEPT)
        return path if found is not None and found.get("key") == _key(case, version) else None

    def checked(self, case: Case, version: Version) -> Checked | None:
        """What is known of that recording."""
        path = self.recording(case, version)
        if path is None:
            return None
        found = json.loads((path / KEPT).read_text())
        said = {name: _said(found[name]) for name in ("whole", "trimmed")}
        first = found.get("at_first")
        return Checked(
            **{
                **found,
                **said,
                "problems": tuple(found["problems"]),
                "at_first": None if first is None else _at_first(first),
            }
        )

    def up_to_date(self, case: Case, version: Version) -> bool:
        """Whether there is a recording of *case*, and this recorder made it."""
        checked = self.checked(case, version)
        return checked is not None and checked.recorder == recorder_key()

    @contextmanager
    def room_for(self, case: Case, version: Version) -> Iterator[Path]:
        """A folder that becomes the recording once the block ends well."""
        place = self.folder / case.id / version
        place.parent.mkdir(parents=True, exist_ok=True)
        with whole_folder(place) as folder:
            yield folder


def check_in(
    folder: Path,
    case: Case,
    version: Version,
    *,
    whole: Said,
    trimmed: Said,
    problems: tuple[str, ...] = (),
    at_first: AtFirst | None = None,
) -> Checked:
    """Write down in *folder* what it is a recording of, what it says, and what trimming has lost."""
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    checked = Checked(_key(case, version), recorder_key(), today(), size, whole, trimmed, problems, at_first)
    (folder / KEPT).write_text(json.dumps(asdict(checked), indent=1) + "\n")
    return checked


def today() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())


def _key(case: Case, version: Version) -> str:
    return recording_key(case, fixed=version == "fixed")


def _said(found: dict[str, Any]) -> Said:
    return Said(
        found["verdict"], found["reason"], tuple((rule, severity) for rule, severity in found["findings"])
    )


def _at_first(found: dict[str, Any]) -> AtFirst:
    return AtFirst(**{**found, "acting": tuple(found["acting"]), "strays": tuple(found["strays"])})


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
