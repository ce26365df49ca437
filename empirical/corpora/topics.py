"""The documentation topics that every CPython carries: ``pydoc_data.topics``, about 465 kB with CPython 3.11."""

from __future__ import annotations


def documents() -> dict[str, str]:
    """Topic → text, in alphabetical order. The text follows the version of CPython."""
    from pydoc_data.topics import topics

    return {name: topics[name] for name in sorted(topics)}
