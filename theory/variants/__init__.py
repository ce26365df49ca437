"""The registry: one module a variant here, entry points of installed packages, or a single file.

A module adds a variant by defining ``VARIANT``. Installed packages name theirs in the entry-point
group ``normlaws.variants``; a path that ends in ``.py`` names a file.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import importlib.util
import sys
import traceback
from functools import lru_cache
from pathlib import Path

from theory.algebra import Variant
from theory.errors import InvalidInput
from theory.registry import collect

GROUP = "normlaws.variants"
_adopted: dict[str, Variant] = {}


@lru_cache(maxsize=1)
def registry() -> dict[str, Variant]:
    """All variants that are installed, by name.

    Raises:
        InvalidInput: when an installed package's entry point is not a Variant.
    """
    found = {variant.name: variant for variant in collect(sys.modules[__name__], "VARIANT")}
    for point in importlib.metadata.entry_points(group=GROUP):
        found[point.name] = _checked(point.load(), f"entry point {point.value}")
    return dict(sorted(found.items()))


def load(name: str) -> Variant:
    """The variant called ``name``, or the ``VARIANT`` of the Python file at that path.

    Raises:
        InvalidInput: unknown name, missing or broken file.
    """
    if name.endswith(".py"):
        return _from_file(Path(name))
    known = registry() | _adopted
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
        raise InvalidInput(f"unknown variant {name!r}: {hint} (or give the path of a .py file that defines VARIANT)")
    return known[name]


def adopt(name: str) -> Variant:
    """`load`, after which `load` knows the variant by its own name as well: a file's claims and figures speak of it by that.

    Raises:
        InvalidInput: as `load`; or another variant has its name.
    """
    variant = load(name)
    namesake = (registry() | _adopted).get(variant.name, variant)
    if namesake != variant:
        raise InvalidInput(f"{name}: the name {variant.name!r} belongs to {namesake.equation}; give yours a name of its own")
    _adopted[variant.name] = variant
    return variant


def _from_file(path: Path) -> Variant:
    if not path.is_file():
        raise InvalidInput(f"no file {path}: give the path of a Python file that defines VARIANT")
    spec = importlib.util.spec_from_file_location(f"normlaws_user_{path.stem}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except InvalidInput as error:
        raise InvalidInput(f"{path}{_line(error, path)}: {error}") from None
    except (Exception, SystemExit) as error:
        raise InvalidInput(f"{path} does not run: {type(error).__name__}: {error}{_line(error, path)}") from None
    return _checked(getattr(module, "VARIANT", None), str(path))


def _line(error: BaseException, path: Path) -> str:
    """The file's own line that an error came through; empty for a syntax error, whose text has it."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f" (line {lines[-1]})" if lines else ""


def _checked(candidate: object, where: str) -> Variant:
    if not isinstance(candidate, Variant):
        raise InvalidInput(f"{where}: defines no VARIANT; write VARIANT = Variant(name=…, update=…, source=…)")
    return candidate
