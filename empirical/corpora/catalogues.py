"""English messages and their translations, read from the gettext catalogues of the installed Django (BSD licence)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from gettext import GNUTranslations
from importlib import import_module
from pathlib import Path
from types import ModuleType

from theory.errors import InvalidInput

PLACE = "§"
"""Stands for a place that a program fills in, or for markup."""

_PLACES = re.compile(r"%\(\w+\)(?:\.\d*)?[a-z]|%[a-z]|\{\w*\}|</?[a-z][^<>]*>")
_PLAIN, _PLURAL, _CONTEXT = range(3)
_CONTEXT_ENDS = "\x04"


def required(module: str) -> ModuleType:
    """The module, which the extra ``data`` installs.

    Raises:
        InvalidInput: it is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise InvalidInput(f"translations need {module}, which is not installed: pip install 'normlaws[data]'") from None


def languages() -> list[str]:
    """Names of all catalogues but the English ones (``en``, ``en_GB``), which hardly differ from their sources."""
    names = {path.parts[-3] for path in _files("*")}
    return sorted(name for name in names if name.split("_")[0] != "en")


def translations(language: str) -> dict[str, str]:
    """English message → translation, in alphabetical order.

    A message that several catalogues or contexts translate counts once: Django's own catalogue before those of its applications,
    messages without a context first. Of a plural message the singular is taken, with the form that the language has for one.
    Every place to fill in (``%(name)s``, ``%d``, ``{name}``) and every tag becomes one `PLACE`: left as they are, a copy of the
    English source would have a BLEU of about 30 in any language. White space at the ends goes, as do messages without a letter.
    """
    found: dict[str, str] = {}
    entries = (entry for path in _files(language) for entry in _entries(path))
    for _, source, target in sorted(entries, key=lambda entry: entry[0]):
        source, target = (_PLACES.sub(PLACE, text).strip() for text in (source, target))
        if target and re.search(r"[^\W\d_]", source):
            found.setdefault(source, target)
    return dict(sorted(found.items()))


def _files(language: str) -> list[Path]:
    """Compiled catalogues, those of Django itself first."""
    (root,) = required("django").__path__
    folders = (f"conf/locale/{language}", f"contrib/*/locale/{language}")
    return [path for folder in folders for path in sorted(Path(root).glob(f"{folder}/LC_MESSAGES/*.mo"))]


def _entries(path: Path) -> Iterator[tuple[int, str, str]]:
    """(plain, plural or in a context, source, target) of a catalogue's messages, in alphabetical order."""
    with path.open("rb") as file:
        catalogue = GNUTranslations(file)
    messages = vars(catalogue)["_catalog"]  # there is no public way to list them
    for key, target in sorted(messages.items(), key=lambda item: str(item[0])):
        kind = _PLAIN
        if isinstance(key, tuple):
            key, form = key
            if form != getattr(catalogue, "plural")(1):  # noqa: B009 - set by the catalogue's own header
                continue
            kind = _PLURAL
        if _CONTEXT_ENDS in key:
            kind = _CONTEXT
        yield kind, key.rpartition(_CONTEXT_ENDS)[2], target
