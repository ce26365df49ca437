"""Held-out documents that share no passage with the documents trained on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256

SHARE = 0.1
"""Of the corpus, in characters, that is held out."""

PASSAGE = 80
"""Characters, white space squeezed, from which a paragraph that two documents share ties them together.

Documentation repeats itself: some topics of ``pydoc_data`` are sections of others, and modules that stand in for one another
carry the same docstrings.
"""


def held_out(documents: Mapping[str, str]) -> set[str]:
    """Names of the held-out documents: whole groups tied by shared passages, in the order of their hashes, up to `SHARE`.

    A group that alone holds more than half of the share is always trained on.
    """
    size = {name: len(text) for name, text in documents.items()}
    wanted = SHARE * sum(size.values())
    chosen: set[str] = set()
    for group in sorted(_groups(documents), key=lambda names: sha256(documents[names[0]].encode()).digest()):
        extent = sum(size[name] for name in group)
        if extent <= wanted / 2 and sum(size[name] for name in chosen) < wanted:
            chosen.update(group)
    return chosen


def passages(text: str) -> set[str]:
    """Paragraphs of at least `PASSAGE` characters, white space squeezed."""
    squeezed = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text))
    return {paragraph for paragraph in squeezed if len(paragraph) >= PASSAGE}


def _groups(documents: Mapping[str, str]) -> list[list[str]]:
    """Connected components of "has a passage in common"."""
    parent = {name: name for name in documents}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    owner: dict[str, str] = {}
    for name, text in documents.items():
        for passage in passages(text):
            parent[root(name)] = root(owner.setdefault(passage, name))
    groups: dict[str, list[str]] = {}
    for name in documents:
        groups.setdefault(root(name), []).append(name)
    return list(groups.values())
