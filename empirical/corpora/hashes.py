"""Hashes that were seen before, by the release of the package that a corpus is read from."""

from __future__ import annotations

import platform
from importlib import metadata

KNOWN = {
    ("topics", "CPython 3.11.2"): "b0796031be1d1b35e6efa46b7944effd47a0c52a48087d470dde314fe2d66968",
    ("topics", "CPython 3.11.7"): "2a95af4ac93f5b719944030ce3769070ddf827d847cba42192afa8da989e5dc4",
    ("topics", "CPython 3.12.1"): "b5bb57d637a700f50d8c7309e7340f40a333fdf2cba89d3f1da81c1b74ee8952",
    ("topics", "CPython 3.13.0"): "4b7ff11aae42ee979a50edb5d279a88ae9d80d7216e9ba99add988136ded5fb2",
    ("library", "CPython 3.11.2"): "37f165552ee02b2064786e3b7a8292b9df23db6399694b28f593b6e5091f18b6",  # Debian's
    ("library", "CPython 3.11.7"): "9b7a0bef38677906fcea6903258418235769dede95a365445e6508836c162920",
    ("library", "CPython 3.12.1"): "5816102f607dfd39bb8230e8eaac53716f2398f891f74cd6d0160f907d629c71",
    ("library", "CPython 3.13.0"): "b099dc541f2411407b7eb507474c78bfa6ecac6f45e20be6a70e3fa6b84a0c34",
    ("en-de", "Django 5.2.19"): "ae10e791df72dc86288c54b0ecdc5b68f3a4c66d674000f0bb74e4d56841be5e",
    ("en-all", "Django 5.2.19"): "74a64f81de8404a4bf6590b67a7e0fbc3f5c424e3db45f105ba5f4ec991f7fb6",
    ("regression", "seed 0"): "3af9839a042adb92eb0e603ef95320bc66a1a84f4c652a1b7cbd4e133a381381",
}
"""(corpus, release) → SHA-256. Pairs were recorded with tokenizers 0.23.3, whose vocabulary their hash covers."""


def release(name: str) -> str:
    """What the corpus called ``name`` is read from, with its version."""
    if name == "regression":
        return "seed 0"
    if name.startswith("en-"):
        return f"Django {metadata.version('django')}"
    return f"CPython {platform.python_version()}"


def standing(name: str, digest: str) -> str:
    """How ``digest`` stands to the record; a difference is no error, but figures of other runs are then of other data."""
    source = release(name)
    known = KNOWN.get((name, source))
    if known is None:
        recorded = ", ".join(other for corpus, other in KNOWN if corpus == name)
        return f"not recorded for {source}" + (f" (recorded: {recorded})" if recorded else "")
    return f"as recorded for {source}" if digest == known else f"differs from the one recorded for {source}, {known[:12]}…"
