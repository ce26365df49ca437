"""A variant's asymptotic classes in words, for the atlas: the one place that asks theory for them."""

from __future__ import annotations

from typing import Any

from theory.algebra import L, Variant
from theory.laws.asymptotics import Growth, growth_of_stream
from theory.laws.closed import layer
from theory.laws.derivation import values_of
from theory.laws.law import Law, closed_form
from theory.sublayers import sublayer


def classes_of(variant: Variant, sublayers: tuple[str, ...]) -> dict[str, Any] | None:
    """Gradient in depth and across layers and stream in depth, in words, and the kind of class across layers.

    From the closed form; None where theory has no class.
    """
    law = closed_form(variant, len(sublayers), all(sublayer(name).homogeneous for name in sublayers))
    values = values_of(law, tuple(map(sublayer, sublayers))) if isinstance(law, Law) else None
    if not isinstance(law, Law) or values is None or follows_depth(law):
        return None
    across = law.growth_in_layer(values)
    return {
        "kind": _kind(across),
        "in_depth": law.growth_in_depth(values).describe("L"),
        "across_layers": across.describe("l"),
        "forward": growth_of_stream(law.stream, layer).subs(values).describe("L"),
    }


def follows_depth(law: Law) -> bool:
    """Whether a law's factors hold constants that follow the depth, so that its class is not read off them."""
    return law.variant.gain != 1 or law.gradient.has(L) or any(formula.has(L) for _, formula in law.variant.formulas)


def _kind(growth: Growth) -> str:
    return "flat" if growth.flat else "power" if growth.rate == 1 else "exponential"
