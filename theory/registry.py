"""Registries: collecting one object a module from a folder, and looking one up by name."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, TypeVar

from theory.errors import InvalidInput

T = TypeVar("T")


def collect(package: ModuleType, attribute: str) -> Iterator[Any]:
    """``attribute`` of every module in ``package``, in the modules' alphabetical order."""
    for module in pkgutil.iter_modules(package.__path__):
        yield getattr(importlib.import_module(f"{package.__name__}.{module.name}"), attribute)


def find(kind: str, name: str, known: Mapping[str, T]) -> T:
    """What is called ``name``.

    Raises:
        InvalidInput: nothing is; the message lists what there is of this ``kind``.
    """
    if name not in known:
        raise InvalidInput(f"unknown {kind} {name!r}: known are {', '.join(known)}")
    return known[name]
