"""
What the ladders resolve to, per chip and version of libcupti: `data/metric_sets.json`, read and checked.

The file is the result of `tools/check_metric_sets.py`, run on a machine with a driver, where
CUPTI's host API schedules metrics for every chip by name. It serves three ends: `perfzero
metrics --chip` can answer anywhere, the sampler can try a known set first, and CI fails when a
ladder is changed without a new check.

    checked    version of libcupti -> date, driver, and per chip
                   one_pass   counter -> the metric that stands for it; all of them fit one pass
                   left_out   counter -> why it is not among them
    ladders    counter -> its ladder when the check was made

A version is what cuptiGetVersion returns, e.g. 130001 for CUDA 13.0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from perfzero.errors import PerfzeroError
from perfzero.words.said import say


@dataclass(frozen=True, slots=True)
class ChipSet:
    """The metrics that one chip can sample together, by counter, and why others are left out."""

    one_pass: Mapping[str, str]
    left_out: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Check:
    """What one version of libcupti said about every chip it knows."""

    date: str
    driver: str
    chips: Mapping[str, ChipSet]


@dataclass(frozen=True, slots=True)
class MetricSets:
    """All checks, by version of libcupti, and the ladders they were made with."""

    checked: Mapping[int, Check]
    ladders: Mapping[str, tuple[str, ...]]

    def chips(self) -> tuple[str, ...]:
        """Every chip that any version was asked about, in alphabetical order."""
        return tuple(sorted({chip for check in self.checked.values() for chip in check.chips}))

    def of_chip(self, chip: str) -> dict[int, ChipSet]:
        """The sets of *chip* by version of libcupti, oldest first; empty for a chip that was not checked."""
        return {
            version: check.chips[chip]
            for version, check in sorted(self.checked.items())
            if chip in check.chips
        }

    def of_version(self, version: int) -> dict[str, Mapping[str, str]]:
        """chip -> counter -> metric as checked with exactly this *version*; empty for another one."""
        check = self.checked.get(version)
        return {} if check is None else {chip: found.one_pass for chip, found in check.chips.items()}


def load() -> MetricSets:
    """The sets that came with this installation. Raises `PerfzeroError` when they are missing or broken."""
    try:
        text = files("perfzero").joinpath("data", "metric_sets.json").read_text(encoding="utf-8")
        return parse(json.loads(text))
    except (OSError, ValueError) as error:
        raise PerfzeroError(say("sets.unusable", why=error)) from None


def parse(data: object) -> MetricSets:
    """*data*, as read from JSON, as `MetricSets`. Raises ValueError that names the place that is wrong."""
    top = _mapping(data, "the file")
    checked: dict[int, Check] = {}
    for version, check in _mapping(top.get("checked"), "checked").items():
        place = f"checked.{version}"
        if not version.isdecimal():
            raise ValueError(f"{place} is not named after a version of libcupti")
        entry = _mapping(check, place)
        checked[int(version)] = Check(
            date=_text(entry.get("date"), f"{place}.date"),
            driver=_text(entry.get("driver"), f"{place}.driver"),
            chips={
                chip: ChipSet(
                    one_pass=_texts(_mapping(found, f"{place}.{chip}").get("one_pass"), f"{place}.{chip}"),
                    left_out=_texts(_mapping(found, f"{place}.{chip}").get("left_out"), f"{place}.{chip}"),
                )
                for chip, found in _mapping(entry.get("chips"), f"{place}.chips").items()
            },
        )
    ladders: dict[str, tuple[str, ...]] = {}
    for counter, ladder in _mapping(top.get("ladders"), "ladders").items():
        if not isinstance(ladder, list):
            raise ValueError(f"ladders.{counter} is not a list")
        ladders[counter] = tuple(_text(metric, f"ladders.{counter}") for metric in ladder)
    return MetricSets(checked=checked, ladders=ladders)


def _mapping(value: object, place: str) -> dict[str, object]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"{place} is not a table")
    return value


def _texts(value: object, place: str) -> dict[str, str]:
    return {key: _text(text, f"{place}.{key}") for key, text in _mapping(value, place).items()}


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{place} is not a text")
    return value
