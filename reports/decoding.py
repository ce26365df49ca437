"""JSON values → dataclasses, by their type hints; errors name the field."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def decode(kind: Any, value: Any, path: str = "") -> Any:
    """``value`` as ``kind``: a dataclass, a tuple, a literal, an optional or a plain type.

    Unknown keys are ignored, missing ones take the dataclass's default.

    Raises:
        ValueError: one line that names the field and what it should be.
    """
    if kind is Any:
        return value
    if is_dataclass(kind):
        return _record(kind, value, path)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        inner = next(a for a in arguments if a is not types.NoneType)
        return None if value is None else decode(inner, value, path)
    if origin is tuple:
        return _sequence(arguments, value, path)
    if origin is Literal:
        if value not in arguments:
            raise ValueError(f"{path} is {value!r:.60}: it must be one of {', '.join(map(str, arguments))}")
        return value
    return _plain(origin or kind, value, path)


def _record(kind: Any, value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{path or 'the line'} is {value!r:.60}: it must be an object")
    hints, given = _hints(kind), {}
    for entry in fields(kind):
        where = f"{path}.{entry.name}" if path else entry.name
        if entry.name in value:
            given[entry.name] = decode(hints[entry.name], value[entry.name], where)
        elif entry.default is MISSING and entry.default_factory is MISSING:
            raise ValueError(f"{where} is missing")
    return kind(**given)


@lru_cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _sequence(arguments: tuple[Any, ...], value: Any, path: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{path} is {value!r:.60}: it must be a list")
    if arguments[-1] is Ellipsis:
        return tuple(decode(arguments[0], item, f"{path}[{k}]") for k, item in enumerate(value))
    if len(value) != len(arguments):
        raise ValueError(f"{path} has {len(value)} entries: it must have {len(arguments)}")
    return tuple(decode(a, item, f"{path}[{k}]") for k, (a, item) in enumerate(zip(arguments, value, strict=True)))


def _plain(kind: Any, value: Any, path: str) -> Any:
    if kind is Mapping:
        kind = dict
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return _as_float(value, path)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{path} is {value!r:.60}: it must be {_WORDS.get(kind, 'an object')}")
    return value


def _as_float(value: int, path: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{path} is too large for a number") from None
