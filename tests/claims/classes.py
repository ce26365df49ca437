"""A variant's asymptotic classes in words, for the atlas."""

from __future__ import annotations

from typing import Any

from theory.algebra import Variant
from theory.errors import InvalidInput
from theory.laws.classes import gradient_class


def classes_of(variant: Variant, sublayers: tuple[str, ...]) -> dict[str, Any] | None:
    """Gradient in depth and across layers and stream in depth, in words, and the kind of class across layers.

    A class without a closed form is read off the recursion, and says how far it still moved. None where theory predicts nothing.
    """
    try:
        found = gradient_class(variant, sublayers)
    except InvalidInput:
        return None
    return {
        "kind": found.across_layers.kind,
        "in_depth": found.in_depth.summary,
        "across_layers": found.across_layers.summary,
        "forward": found.forward.summary,
    }
