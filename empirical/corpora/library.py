"""The documentation topics and all docstrings of the standard library, parsed from its installed source files (about 1.8 MB)."""

from __future__ import annotations

import ast
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from empirical.corpora import topics
from theory.errors import InvalidInput

LEFT_OUT = {"test", "tests", "idlelib", "lib2to3", "distutils", "tkinter", "turtledemo", "ensurepip", "pydoc_data"}
"""Tests, and what installations of one version of CPython may lack or replace."""

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def documents() -> dict[str, str]:
    """The topics, then one document a source file: its docstrings in the order of their lines.

    Raises:
        InvalidInput: the standard library has no source files here.
    """
    root = Path(sysconfig.get_path("stdlib"))
    found = topics.documents()
    for path in _sources(root):
        docstrings = _docstrings(path)
        if docstrings:
            found[path.relative_to(root).as_posix()] = "\n\n".join(docstrings)
    if len(found) == len(topics.documents()):
        raise InvalidInput(f"no source files of the standard library in {root}: use the text 'topics', or an unpacked Python")
    return found


def _sources(root: Path) -> Iterator[Path]:
    """Modules of the standard library below ``root``, ordered by path; what others have put beside them is not read."""
    for path in sorted(root.rglob("*.py"), key=lambda path: path.relative_to(root).parts):
        parts = path.relative_to(root).with_suffix("").parts
        if parts[0] in sys.stdlib_module_names and not LEFT_OUT.intersection(parts):
            yield path


def _docstrings(path: Path) -> list[str]:
    nodes = [node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, _DOCUMENTED)]
    nodes.sort(key=lambda node: getattr(node, "lineno", 0))
    return [docstring for node in nodes if (docstring := ast.get_docstring(node))]
