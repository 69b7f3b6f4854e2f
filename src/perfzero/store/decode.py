"""
JSON of unknown origin to frozen values.

The dataclasses themselves say what is allowed: `decode` walks their type hints, so a field
added to a value is read without a line here. Unknown keys are ignored (a newer perfzero may
write more), missing ones take their default, and every wrong type is a ValueError that names
the field. Texts are made safe to print: no terminal escapes, no reordering of what is shown.
"""

from __future__ import annotations

import collections.abc
import functools
import json
import math
import types
import typing
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar

from perfzero.words.said import listed, say

T = TypeVar("T")

MAX_DEPTH = 32  # manifests nest five deep
MAX_TEXT = 1 << 16  # characters; longer texts are cut, since nothing here needs more to be understood
MAX_ITEMS = 100_000  # entries of one list or mapping

_UNPRINTABLE = {
    # C0 and C1 controls can drive a terminal, bidirectional marks can show a text other than it is.
    **dict.fromkeys((*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0)), "\ufffd"),
    **dict.fromkeys((0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\ufffd"),
    # Lines may break at these two, and the last is shown by nobody.
    **dict.fromkeys((0x2028, 0x2029, 0xFEFF), "\ufffd"),
}


def parse_json(text: bytes) -> Any:
    """*text* as JSON; raises ValueError for all else, too deep nesting and NaN included."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError(say("decode.deep")) from None


def decode(kind: type[T], value: object, *, where: str) -> T:
    """*value* (parsed JSON) as the dataclass *kind*; raises ValueError that names the field in *where*."""
    if not isinstance(value, dict):
        raise ValueError(say("decode.no_object", where=where, named=_named(value)))
    hints = _hints(typing.cast(Any, kind))
    found: dict[str, Any] = {}
    for f in fields(typing.cast(Any, kind)):
        if f.name in value:
            found[f.name] = _convert(hints[f.name], value[f.name], f"{where}.{f.name}")
        elif f.default is MISSING and f.default_factory is MISSING:
            raise ValueError(say("decode.missing", where=where, name=f.name))
    return kind(**found)


def clean_text(text: str) -> str:
    """*text* without control characters (newline and tab stay), cut to `MAX_TEXT` characters."""
    short = text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"
    # Lone surrogates are valid in JSON escapes, but can be written nowhere.
    return short.translate(_UNPRINTABLE).encode("utf-8", "replace").decode()


def _convert(hint: Any, value: object, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return _free(value, where, 0)
    if origin in (typing.Union, types.UnionType):
        if value is None:
            return None
        (wanted,) = (a for a in arguments if a is not types.NoneType)
        return _convert(wanted, value, where)
    if origin is typing.Literal:
        if not isinstance(value, str) or value not in arguments:
            raise ValueError(
                say("decode.not_one_of", where=where, named=_named(value), names=listed(map(repr, arguments)))
            )
        return value
    if origin is tuple:
        return _convert_tuple(arguments, value, where)
    if origin is collections.abc.Mapping:
        return _convert_mapping(arguments, value, where)
    if is_dataclass(hint):
        return decode(typing.cast(type, hint), value, where=where)
    return _convert_scalar(hint, value, where)


def _convert_scalar(hint: Any, value: object, where: str) -> Any:
    if hint is str and isinstance(value, str):
        return clean_text(value)
    if hint is bool and isinstance(value, bool):
        return value
    if hint is int and isinstance(value, int) and not isinstance(value, bool):
        if not -(2**63) <= value < 2**63:
            raise ValueError(say("decode.not_64_bits", where=where))
        return value
    if hint is float:
        if value is None:
            return math.nan  # how `jsonable` writes a missing number
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _finite(value, where)
    names = {
        str: say("decode.a_text"),
        bool: say("decode.a_bool"),
        int: say("decode.an_int"),
        float: say("decode.a_number"),
    }
    raise ValueError(say("decode.wrong", where=where, named=_named(value), kind=names.get(hint, str(hint))))


def _convert_tuple(arguments: tuple[Any, ...], value: object, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise ValueError(say("decode.no_list", where=where, named=_named(value)))
    if len(value) > MAX_ITEMS:
        raise ValueError(say("decode.entries", where=where, count=len(value)))
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(_convert(arguments[0], v, f"{where}[{i}]") for i, v in enumerate(value))
    if len(value) != len(arguments):
        raise ValueError(say("decode.entries_not", where=where, count=len(value), wanted=len(arguments)))
    return tuple(
        _convert(a, v, f"{where}[{i}]") for i, (a, v) in enumerate(zip(arguments, value, strict=True))
    )


def _convert_mapping(arguments: tuple[Any, ...], value: object, where: str) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise ValueError(say("decode.no_object", where=where, named=_named(value)))
    if len(value) > MAX_ITEMS:
        raise ValueError(say("decode.entries", where=where, count=len(value)))
    key_type, value_type = arguments
    result: dict[Any, Any] = {}
    for key, item in value.items():
        shown = clean_text(key)[:80]
        if key_type is int:
            if not (key.isascii() and key.isdigit() and len(key) <= 9):
                raise ValueError(say("decode.no_number_key", where=where, key=f"{shown!r}"))
            result[int(key)] = _convert(value_type, item, f"{where}[{shown}]")
        else:
            result[clean_text(key)] = _convert(value_type, item, f"{where}[{shown!r}]")
    return result


def _free(value: object, where: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError(say("decode.deep_at", where=where))
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return _finite(value, where)
    if isinstance(value, list):
        return [_free(v, where, depth + 1) for v in value[:MAX_ITEMS]]
    if isinstance(value, dict):
        return {clean_text(k): _free(v, where, depth + 1) for k, v in list(value.items())[:MAX_ITEMS]}
    return value


def _finite(value: float, where: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(say("decode.infinite", where=where))
    return number


def _named(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return say("decode.the_text", text=f"{clean_text(value)[:40]!r}")
    names = {
        bool: say("decode.a_bool"),
        int: say("decode.an_int"),
        float: say("decode.a_number"),
        list: say("decode.a_list"),
        dict: say("decode.an_object"),
    }
    return names.get(type(value), type(value).__name__)


def _refuse_constant(name: str) -> None:
    raise ValueError(say("decode.no_json", name=name))


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)
