"""
A case of the zoo: a folder with a program and `case.toml`, which says what is true of it.

    zoo/a01/train.py    as a user writes it; --seconds N is the length of its main loop, --fixed the fix
    zoo/a01/case.toml   where it comes from, the true cause, what has to be named, the fix

What was measured of a case holds as long as its program and what it is called with stay the same; what is
true of it may be corrected without measuring anew. So the hashes leave all of `case.toml` out that no
program ever sees.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
ZOO = ROOT / "zoo"
CASE = "case.toml"

LEAST_GAIN = 1.15
"""A fix that gains less is none: hosts change their pace by some percent from run to run."""

SHORTEST_S, LONGEST_S = 10.0, 60.0
"""Of the main loop under observation: the first look begins after 2 s and lasts 10, and GPU time is dear."""

LONGEST_TURN_S = 20.0

Kind = Literal["line", "operator", "layer"]

Json = Mapping[str, Any]


class BadCase(ValueError):
    """What is wrong with a case, a line each."""


@dataclass(frozen=True, slots=True)
class Truth:
    """
    `causes`: rules that name the true cause, the first of which is the best name. `also`: what is there too,
    and may be told beside it. `why`: in words.
    """

    healthy: bool
    causes: tuple[str, ...]
    also: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Named:
    """What has to be named: a line that holds `what`, or an operator or layer that matches it."""

    kind: Kind
    what: str


@dataclass(frozen=True, slots=True)
class Fix:
    """
    What `--fixed` does. `remedy` finds it among the advice ("" where none says it); of a healthy case it
    finds what must not be advised. `gain`: what was expected before it was measured.
    """

    text: str
    remedy: str
    least_gain: float | None
    gain: tuple[float, float]
    no_help: tuple[str, ...]
    arithmetic: str


@dataclass(frozen=True, slots=True)
class Case:
    """
    `turn_s`: how long a turn takes at least, where the program does not do the same in each second. `miss`:
    why something is still wrong. `first`: what was wrong when it was first measured, and is mended since.
    """

    id: str
    folder: Path
    title: str
    sources: tuple[str, ...]
    category: str
    program: str
    arguments: tuple[str, ...]
    seconds: float
    turn_s: float | None
    truth: Truth
    named: Named | None
    fix: Fix
    miss: str
    first: str

    @property
    def path(self) -> Path:
        return self.folder / self.program

    def command(self, *, python: str, seconds: float, fixed: bool) -> list[str]:
        """The program's command line, by its whole path."""
        options = [*self.arguments, "--seconds", f"{seconds:g}", *(["--fixed"] if fixed else [])]
        return [python, str(self.path), *options]

    def typed(self, *, fixed: bool) -> str:
        """What a person would type to watch it."""
        words = self.command(python="python", seconds=self.seconds, fixed=fixed)
        words[1] = f"zoo/{self.id}/{self.program}"
        return f"perfzero run -o {self.id} -- {' '.join(words)}"


# --- what was measured belongs to --------------------------------------------------------------


def gains_key(case: Case) -> str:
    """Changes with whatever the gain of *case* depends on."""
    return _key(case.path.read_bytes(), case.program, case.arguments, case.turn_s)


def recording_key(case: Case, *, fixed: bool) -> str:
    """Changes with whatever a recording of *case* depends on, but for the recorder."""
    return _key(case.path.read_bytes(), case.program, case.arguments, case.seconds, fixed)


def _key(program: bytes, *more: Any) -> str:
    return hashlib.sha256(program + b"\0" + json.dumps(more).encode()).hexdigest()[:16]


@cache
def recorder_key() -> str:
    """Changes with whatever watches a program: recorder, agent and sources of this checkout."""
    found = hashlib.sha256()
    package = ROOT / "src" / "perfzero"
    for room in ("record", "sources"):
        for path in sorted((package / room).rglob("*.py")):
            found.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


# --- which -------------------------------------------------------------------------------------


def ids(zoo: Path = ZOO) -> list[str]:
    """The cases that there are, in order."""
    return sorted(path.parent.name for path in zoo.glob(f"*/{CASE}"))


def choose(
    only: Sequence[str] | None = None, part: tuple[int, int] | None = None, *, zoo: Path = ZOO
) -> list[Case]:
    """
    All cases, those named *only*, or the first of *part* as many parts as its second says.

    Raises `BadCase` for names that do not exist, and for cases that are not right.
    """
    there = ids(zoo)
    wrong = sorted(set(only or ()) - set(there))
    if wrong:
        raise BadCase(f"no such case: {', '.join(wrong)}. There are: {', '.join(there)}")
    chosen = list(only) if only is not None else there
    if part is not None:
        number, of = part
        if not 1 <= number <= of:
            raise BadCase(f"there is no part {number} of {of}")
        chosen = chosen[number - 1 :: of]
    return [read_case(zoo / name) for name in chosen]


# --- reading -----------------------------------------------------------------------------------


def read_case(folder: Path) -> Case:
    """The case in *folder*; raises `BadCase` with all that is wrong with it."""
    try:
        document = tomllib.loads((folder / CASE).read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise BadCase(f"{folder.name}: {error}") from error
    reader = _Reader(document)
    case = _case(folder, reader)
    problems = reader.problems + reader.unknown() or list(_contradictions(case))
    if problems:
        raise BadCase("\n".join(f"{folder.name}: {problem}" for problem in problems))
    return case


class _Reader:
    """Takes fields out of a document, and notes what is missing, of the wrong type or left over."""

    def __init__(self, document: Json, where: str = "") -> None:
        self.problems: list[str] = []
        self._document = document
        self._where = where
        self._taken: set[str] = set()
        self._tables: list[_Reader] = []

    def table(self, name: str) -> _Reader:
        table = _Reader(self.take(name, dict, {}), f"{name}.")
        self._tables.append(table)
        return table

    def take(self, name: str, kind: type | tuple[type, ...], default: Any, *, needed: bool = True) -> Any:
        self._taken.add(name)
        if name not in self._document:
            if needed:
                self.problems.append(f"{self._where}{name} is missing")
            return default
        value = self._document[name]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.problems.append(f"{self._where}{name} is {value!r}")
            return default
        return value

    def text(self, name: str) -> str:
        found: str = self.take(name, str, "")
        return found

    def texts(self, name: str) -> tuple[str, ...]:
        found = self.take(name, list, [])
        if not all(isinstance(item, str) for item in found):
            self.problems.append(f"{self._where}{name} holds what is no text")
            return ()
        return tuple(found)

    def number(self, name: str, *, needed: bool = True) -> float | None:
        found = self.take(name, (int, float), None, needed=needed)
        return None if found is None else float(found)

    def unknown(self) -> list[str]:
        """The fields that nobody asked for, and the problems of the tables."""
        found = [f"{self._where}{name} is not known" for name in self._document if name not in self._taken]
        for table in self._tables:
            found += table.problems + table.unknown()
        return found


def _case(folder: Path, reader: _Reader) -> Case:
    title, sources, category = reader.text("title"), reader.texts("sources"), reader.text("category")
    program, arguments = reader.text("program"), reader.texts("arguments")
    seconds, turn_s = reader.number("seconds"), reader.number("turn_seconds", needed=False)
    miss = reader.take("miss", str, "", needed=False)
    first = reader.take("first", str, "", needed=False)
    truth = reader.table("truth")
    told = Truth(
        healthy=truth.take("healthy", bool, False),
        causes=truth.texts("causes"),
        also=truth.texts("also"),
        why=truth.text("why"),
    )
    named = None
    if reader.take("named", dict, None, needed=False) is not None:
        table = reader.table("named")
        named = Named(table.text("kind"), table.text("what"))  # type: ignore[arg-type]
    fix = reader.table("fix")
    gain = fix.take("gain", list, [0.0, 0.0])
    if len(gain) != 2 or not all(isinstance(end, int | float) for end in gain):
        fix.problems.append(f"fix.gain is {gain!r}")
        gain = [0.0, 0.0]
    return Case(
        id=folder.name,
        folder=folder,
        title=title,
        sources=sources,
        category=category,
        program=program,
        arguments=arguments,
        seconds=seconds or 0.0,
        turn_s=turn_s,
        truth=told,
        named=named,
        fix=Fix(
            text=fix.text("text"),
            remedy=fix.text("remedy"),
            least_gain=fix.number("least_gain", needed=not told.healthy),
            gain=(float(gain[0]), float(gain[1])),
            no_help=fix.texts("no_help"),
            arithmetic=fix.text("arithmetic"),
        ),
        miss=miss,
        first=first,
    )


def _contradictions(case: Case) -> Iterator[str]:
    """What a case says that cannot be, once it says everything."""
    if not case.title or not case.sources or not case.category:
        yield "title, sources and category say something"
    if not case.path.is_file() or "/" in case.program:
        yield f"there is no program {case.program!r}"
    if not SHORTEST_S <= case.seconds <= LONGEST_S:
        yield f"seconds are {case.seconds:g}, not from {SHORTEST_S:g} to {LONGEST_S:g}"
    if case.turn_s is not None and not 0 < case.turn_s <= LONGEST_TURN_S:
        yield f"turn_seconds are {case.turn_s:g}, not up to {LONGEST_TURN_S:g}"
    yield from _wrong_truth(case.truth)
    if case.named is not None:
        yield from _wrong_name(case, case.named)
    yield from _wrong_fix(case)


def _wrong_truth(truth: Truth) -> Iterator[str]:
    known = rules()
    if not truth.causes:
        yield "truth.causes is empty"
    yield from (f"there is no rule {rule!r}" for rule in (*truth.causes, *truth.also) if rule not in known)
    twice = sorted(set(truth.causes) & set(truth.also))
    if twice or len(set(truth.causes)) < len(truth.causes):
        yield f"a rule is said twice: {', '.join(twice or truth.causes)}"


def _wrong_name(case: Case, named: Named) -> Iterator[str]:
    if named.kind not in get_args(Kind):
        yield f"named.kind is {named.kind!r}, not {', '.join(get_args(Kind))}"
    elif named.kind != "line":
        yield from _wrong_pattern("named.what", named.what)
    elif case.path.is_file():
        lines = [i for i, line in enumerate(case.path.read_text().splitlines(), 1) if named.what in line]
        if len(lines) != 1 or not named.what:
            yield f"{named.what!r} is in {len(lines)} lines of {case.program}, not in one"


def _wrong_fix(case: Case) -> Iterator[str]:
    fix = case.fix
    yield from _wrong_pattern("fix.remedy", fix.remedy)
    low, high = fix.gain
    if not 0 < low <= high:
        yield f"fix.gain is from {low:g} to {high:g}"
    if case.truth.healthy and fix.least_gain is not None:
        yield "a healthy case has no least_gain"
    if fix.least_gain is not None and fix.least_gain < LEAST_GAIN:
        yield f"fix.least_gain is {fix.least_gain:g}, less than {LEAST_GAIN}"


def _wrong_pattern(name: str, pattern: str) -> Iterator[str]:
    try:
        re.compile(pattern)
    except re.error as error:
        yield f"{name} is no regular expression: {error}"


@cache
def rules() -> frozenset[str]:
    """The ids of perfzero's rules."""
    from perfzero.diagnose.rules import RULES

    return frozenset(rule.__name__ for rule in RULES)


# --- lines -------------------------------------------------------------------------------------


def lines_of(case: Case) -> range:
    """
    The lines that are as good as the one that has to be named: those of the same statement, of a loop or
    another block those of its head. Python says of a call over several lines that it is in the first or in
    the last of them, as it pleases.
    """
    assert case.named is not None
    text = case.path.read_text()
    line = next(i for i, words in enumerate(text.splitlines(), 1) if case.named.what in words)
    found = range(line, line + 1)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else (node.end_lineno or node.lineno)
            if node.lineno <= line <= last:
                found = range(node.lineno, last + 1)
    return found
