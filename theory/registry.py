"""Collecting one object a module from a package's folder."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Any


def collect(package: ModuleType, attribute: str) -> Iterator[Any]:
    """``attribute`` of every module in ``package``, in the modules' alphabetical order."""
    for module in pkgutil.iter_modules(package.__path__):
        yield getattr(importlib.import_module(f"{package.__name__}.{module.name}"), attribute)
