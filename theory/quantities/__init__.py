"""The quantities that ``predict`` and ``measure`` answer: one module each, defining ``QUANTITY``."""

from __future__ import annotations

import sys

from theory.errors import InvalidInput
from theory.prediction import Quantity
from theory.registry import collect

QUANTITIES: dict[str, Quantity] = {quantity.name: quantity for quantity in collect(sys.modules[__name__], "QUANTITY")}


def quantity(name: str) -> Quantity:
    """The quantity called ``name``.

    Raises:
        InvalidInput: unknown quantity.
    """
    if name not in QUANTITIES:
        raise InvalidInput(f"unknown quantity {name!r}: known are {', '.join(QUANTITIES)}")
    return QUANTITIES[name]
