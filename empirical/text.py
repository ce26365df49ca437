"""Real text that every CPython carries: the documentation topics of ``pydoc_data``."""

from __future__ import annotations

import hashlib
from functools import lru_cache

VOCABULARY = 256
"""Bytes."""


@lru_cache(maxsize=1)
def corpus() -> bytes:
    """All topics in alphabetical order, as UTF-8 (about 465 kB with CPython 3.11; the text follows the version)."""
    from pydoc_data.topics import topics

    return "\n".join(topics[name] for name in sorted(topics)).encode()


def digest() -> str:
    """SHA-256 of the corpus, for the record."""
    return hashlib.sha256(corpus()).hexdigest()
