"""
How verdicts fare when the data is worse, or the world another one: each perturbation on each recording.

    PYTHONPATH=tests python -m recordings.robustness    writes the table into docs/robustness.md

*held*: the same first cause. *unsure*: another one, or none, that nobody would take for sure, or that is told
as a close call with the one of before in the second place, or where the one of before was unsure itself.
*moved*: another one, told as likely or sure.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from perfzero.diagnose.judge import judge
from perfzero.diagnose.verdict import Diagnosis
from perfzero.store.reader import open_recording
from perfzero.text import confidence_word
from perfzero.values import Observation
from perfzero.words.said import say
from recordings.perturb import dropped, noisy, other_peaks, scaled, stretched

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "robustness.md"
ZOO = HERE.parent / "zoo" / "kept"
CASES = tuple(json.loads((HERE / "expected.json").read_text())["cases"])

Perturbation = Callable[[Observation], Observation]

STRETCHES = {f"time x{factor:g}": factor for factor in (0.5, 0.8, 1.25, 2.0)}

PERTURBATIONS: Mapping[str, Perturbation] = {
    "a fifth dropped": lambda seen: dropped(seen, share=0.2, run=1, seed=1),
    "a fifth dropped in runs": lambda seen: dropped(seen, share=0.2, run=20, seed=2),
    "noise of 5 %": lambda seen: noisy(seen, spread=0.05, seed=3),
    **{name: functools.partial(stretched, factor=factor) for name, factor in STRETCHES.items()},
    "data and peaks x0.5": lambda seen: scaled(seen, factor=0.5),
    "data and peaks x2": lambda seen: scaled(seen, factor=2.0),
    "peaks x0.8": lambda seen: other_peaks(seen, factor=0.8),
    "peaks x1.25": lambda seen: other_peaks(seen, factor=1.25),
}

Outcome = Literal["held", "unsure", "moved"]


def recordings() -> tuple[str, ...]:
    """All of them."""
    return (*recordings_here(), *recordings_of_the_zoo())


def recordings_here() -> tuple[str, ...]:
    """The cases whose recordings lie here."""
    return tuple(name for name in CASES if (folder_of(name) / "manifest.json").is_file())


def recordings_of_the_zoo() -> tuple[str, ...]:
    """Those of the zoo, as `zoo/k04`."""
    return tuple(f"zoo/{path.parents[1].name}" for path in sorted(ZOO.glob("*/base/manifest.json")))


def folder_of(name: str) -> Path:
    """Where the recording of a case lies."""
    of_the_zoo = name.removeprefix("zoo/")
    return HERE / name if of_the_zoo == name else ZOO / of_the_zoo / "base"


@functools.cache
def seen_of(name: str) -> Observation:
    """What was seen of the one GPU of a recording."""
    recording = open_recording(folder_of(name))
    [gpu] = recording.gpus
    return recording.observation(gpu.index)


@functools.cache
def judged(name: str, perturbation: str | None) -> Diagnosis:
    """The diagnosis of a recording, perturbed or as it is."""
    seen = seen_of(name)
    return judge(seen if perturbation is None else PERTURBATIONS[perturbation](seen))


def first_cause(diagnosis: Diagnosis) -> str | None:
    """The verdict's id."""
    return None if diagnosis.verdict is None else diagnosis.verdict.rule


def outcome(name: str, perturbation: str) -> Outcome:
    """What became of the verdict."""
    whole, worse = judged(name, None), judged(name, perturbation)
    if first_cause(whole) == first_cause(worse):
        return "held"
    sure = all(d.verdict is None or confidence_word(d.verdict.confidence) != "unsure" for d in (whole, worse))
    sure = sure and worse.verdict is not None
    second = [finding.rule for finding in worse.findings[1:2]]
    close = say("doubt.close_call") in worse.doubts and second == [first_cause(whole)]
    return "moved" if sure and not close else "unsure"


def cell(name: str, perturbation: str) -> str:
    """The outcome, and where to if not held."""
    found = outcome(name, perturbation)
    return found if found == "held" else f"{found}: {first_cause(judged(name, perturbation)) or 'no verdict'}"


def table() -> str:
    """Perturbations down, with how many of the recordings held, and what became of the others."""
    names = recordings()
    lines = [
        f"| perturbation ({len(names)} recordings) | held | unsure | moved | which |",
        "|---|---|---|---|---|",
    ]
    for perturbation in PERTURBATIONS:
        found = {name: outcome(name, perturbation) for name in names}
        counts = [sum(one == kind for one in found.values()) for kind in ("held", "unsure", "moved")]
        others = ", ".join(
            f"`{name}` {cell(name, perturbation)}" for name, one in found.items() if one != "held"
        )
        lines.append(f"| {perturbation} | {' | '.join(map(str, counts))} | {others} |")
    return "\n".join(lines)


def main() -> None:
    """Put the table of this run into the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition("<!-- table -->\n")
    _, _, after = rest.partition("<!-- end of table -->\n")
    PAGE.write_text(f"{before}<!-- table -->\n{table()}\n<!-- end of table -->\n{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
