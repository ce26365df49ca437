"""The quantities that ``predict`` and ``measure`` answer: one module each, defining ``QUANTITY``."""

from __future__ import annotations

import sys

from theory.prediction import Quantity
from theory.registry import collect, find

QUANTITIES: dict[str, Quantity] = {quantity.name: quantity for quantity in collect(sys.modules[__name__], "QUANTITY")}


def quantity(name: str) -> Quantity:
    """The quantity called ``name``.

    Raises:
        InvalidInput: unknown quantity.
    """
    return find("quantity", name, QUANTITIES)
