"""Text → Markdown that GitHub renders as meant: prose, table cells, formulas."""

from __future__ import annotations

import html
import re

_KEPT = re.compile(r"(`[^`]+`|\$[^\s$](?:[^$]*[^\s$])?\$(?!\d))")
_SPECIAL = re.compile(r"[\\`*$~]|(?<=\])[(\[]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])|^(?:[#+-]|\d+[.)])(?=\s)")
_SPACES = {",": "thinspace", ";": "thickspace", ":": "medspace", "!": "negthinspace"}
_NAMED = _SPACES | {"{": "lbrace", "}": "rbrace", "|": "Vert", "\\": "cr"}


def prose(text: str) -> str:
    """Text as one line; code in backticks and formulas in dollars stay, all else is taken literally."""
    parts = _KEPT.split(" ".join(text.split()))
    return "".join(part if k % 2 else _literal(part) for k, part in enumerate(parts))


def _literal(text: str) -> str:
    return _SPECIAL.sub(lambda found: f"{found[0][:-1]}\\{found[0][-1]}", html.escape(text, quote=False))


def cell(text: object) -> str:
    """Text as a cell of a table."""
    return _pipes(prose(str(text)))


def _pipes(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", text)


def summary(text: str) -> str:
    """Text inside an HTML tag, where Markdown is not read."""
    return html.escape(" ".join(text.split()))


def formula(latex: str) -> str:
    r"""A formula as a block of its own.

    GitHub reads a backslash before punctuation as Markdown before the formula is read, and < as the start of a tag:
    these commands are written by their names (``\,`` as ``\thinspace``), which renders the same everywhere.
    """
    line = " ".join(latex.replace("$", " ").split())
    line = re.sub(r"\\\\\[-?[\d.]+ ?[a-z]+\]", r"\\\\", line)
    line = re.sub(r"\\([{},;:!|\\])\s*", lambda found: f"\\{_NAMED[found[1]]} ", line)
    line = line.replace("<", r"\lt ").replace(">", r"\gt ").strip()
    return f"$$\n{line}\n$$" if line else ""


def fence(code: str) -> str:
    """A block of code."""
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", code)), default=0))
    return f"{ticks}sh\n{code.strip()}\n{ticks}"
