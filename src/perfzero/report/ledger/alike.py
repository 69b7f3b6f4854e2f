"""
Whether two recordings come from machines that may be compared, by the facts their manifests hold.

Hard facts move the numbers without any change to the program: another GPU, another power limit, another
driver. They refuse. Soft ones may be part of what was changed on purpose (PyTorch, CUDA, the command), or
matter little: they are told. A fact that only one of the two knows is soft.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from string import ascii_uppercase

from perfzero.report.ledger.measure import Iteration, Taken
from perfzero.report.ledger.program import program_of, short
from perfzero.text import quantity

Fact = tuple[str, Callable[[Taken], object]]


def _watts(taken: Taken) -> object:
    limit = taken.gpu.gpu.power_limit_w
    return None if limit is None else f"{limit:g} W"


def _hertz(value: float | None) -> object:
    return None if value is None else quantity(value, "hertz")


def _memory(taken: Taken) -> object:
    size = taken.gpu.gpu.memory_bytes
    return None if size is None else f"{size / 2**30:.0f} GiB"


def _cuda(taken: Taken) -> object:
    return taken.manifest.process.threads_env.get("CUDA_VERSION")


HARD: tuple[Fact, ...] = (
    ("GPU", lambda t: t.gpu.gpu.name),
    ("chip", lambda t: t.gpu.gpu.chip),
    ("MIG", lambda t: "yes" if t.gpu.gpu.mig else "no"),
    ("SMs", lambda t: t.gpu.gpu.sm_count),
    ("device memory", _memory),
    ("power limit", _watts),
    ("highest SM clock", lambda t: _hertz(t.gpu.gpu.sm_clock_max_hz)),
    ("highest memory clock", lambda t: _hertz(t.gpu.gpu.memory_clock_max_hz)),
    ("driver", lambda t: t.gpu.gpu.driver),
    ("CPUs of the host", lambda t: t.manifest.host.get("cpu_count")),
    ("architecture of the host", lambda t: t.manifest.host.get("machine")),
)

SOFT: tuple[Fact, ...] = (
    ("GPU's index", lambda t: t.gpu.gpu.index),
    ("GPU's UUID", lambda t: t.gpu.gpu.uuid),
    ("host", lambda t: t.manifest.host.get("hostname")),
    ("kernel", lambda t: t.manifest.host.get("kernel")),
    ("CUDA_VERSION", _cuda),
    ("tier", lambda t: t.fingerprint.tier),
    ("counters sampled", lambda t: t.fingerprint.counters),
    ("roofs", lambda t: "calibrated" if t.gpu.gpu.calibrated else "by the table"),
    ("perfzero", lambda t: t.manifest.perfzero),
)

PROGRAM: Fact = ("program", lambda t: program_of(t.manifest.process.command))


def unlike(iterations: Sequence[Iteration], *, names: Sequence[str] = ()) -> tuple[str, ...]:
    """
    The hard facts that differ, as "driver: 580.1 (A), 570.2 (B)"; none where a comparison is fair.

    The iterations go by their letters, or by *names*.
    """
    return tuple(_differing(HARD, iterations, unknown=False, names=names))


def told(iterations: Sequence[Iteration]) -> tuple[str, ...]:
    """What else differs, likewise, and hard facts that are not known of all."""
    return (*_differing((PROGRAM, *SOFT), iterations, unknown=True), *_unknown(HARD, iterations))


def _differing(
    facts: Sequence[Fact], iterations: Sequence[Iteration], *, unknown: bool, names: Sequence[str] = ()
) -> Iterator[str]:
    for name, fact in facts:
        found = _found(fact, iterations)
        known = {value for values in found for value in values if value is not None}
        missing = any(value is None for values in found for value in values)
        if len(known) > 1 or (unknown and missing and known):
            yield _words(name, found, names)


def _found(fact: Callable[[Taken], object], iterations: Sequence[Iteration]) -> list[list[object]]:
    """The fact of each recording, of each iteration. Free JSON of a manifest may be a list."""
    return [[_one(fact(taken)) for taken in one.taken] for one in iterations]


def _one(value: object) -> object:
    try:
        hash(value)
    except TypeError:
        return str(value)
    return value


def _unknown(facts: Sequence[Fact], iterations: Sequence[Iteration]) -> Iterator[str]:
    for name, fact in facts:
        found = _found(fact, iterations)
        values = {value for values in found for value in values}
        if None in values and len(values) == 2:
            yield _words(name, found)


def _words(name: str, found: Sequence[Sequence[object]], names: Sequence[str] = ()) -> str:
    told = []
    for place, values in enumerate(found):
        shown = " or ".join(dict.fromkeys("unknown" if v is None else short(str(v)) for v in values))
        told.append(f"{shown} ({short(names[place]) if names else letter(place)})")
    return f"{name}: {', '.join(told)}"


def letter(place: int) -> str:
    """A, B ... Z, then A2, B2 ..."""
    name = ascii_uppercase[place % len(ascii_uppercase)]
    again = place // len(ascii_uppercase)
    return f"{name}{again + 1}" if again else name
