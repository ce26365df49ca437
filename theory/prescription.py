"""Constants from a target: what α and β a network N(αx + F_β(x)) of a given depth needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import sympy

from theory.algebra import L, Norm, Position, Scale, Stream, Sublayer, Sum, Variant
from theory.configuration import Configuration
from theory.errors import InvalidInput, NoClosedForm
from theory.laws.asymptotics import plain
from theory.laws.law import closed_form
from theory.laws.steps import DerivationStep
from theory.quantities import quantity
from theory.registry import find
from theory.updates.deepnorm import blocks, bounded_update

TOLERANCE = 0.01
"""Of flat-gradient: how far the squared gradient at the input may be from the output's."""
_RESOLUTION, _LARGEST = 1e-4, 1e6


@dataclass(frozen=True)
class Prescription:
    """Constants that meet a target, and what is left open.

    Attributes:
        variant: with the constants put in: as formulas in L where the target has them, else as numbers for this depth.
        constants: their values at this depth: ``alpha`` the residual scale, whatever its symbol, ``beta`` the initial gain.
        formulas: those that hold for every depth, as text.
        freedom: what the target leaves open, and how it was settled, in words.
        gradient: squared gradient at the input over the output's, by the recursion at infinite width.
        update: 2SLβ²/α², the summed relative update of one SGD step.
        steps: the derivation.
    """

    variant: Variant
    constants: dict[str, float]
    formulas: dict[str, str]
    freedom: str
    gradient: float
    update: float
    steps: tuple[DerivationStep, ...]


def prescribe(network: Configuration, target: str, bound: sympy.Expr | int = 1, tolerance: float = TOLERANCE) -> Prescription:
    """Solve for the residual scale α, and for the initial gain β where the variant has one.

    Args:
        network: variant of the form N(αx + F(…)), α one of its constants; sublayers and depth.
        target: ``flat-gradient`` or ``bounded-update``.
        bound: c of bounded-update, 2SLβ²/α² ≤ c.
        tolerance: of flat-gradient, |G(0)/G(L) − 1| ≤ tolerance.

    Raises:
        InvalidInput: a variant of another form, an unknown target, a bound or tolerance out of range.
    """
    alpha = residual_scale(network.variant)
    solve = find("target", target, TARGETS)
    formulas, freedom, steps = solve(network, bound, tolerance)
    variant = _with(network.variant, alpha, *formulas)
    names = "alpha", "beta"
    values = [variant.coefficient(formula, Position(1, network.depth)) for formula in formulas]
    return Prescription(
        variant,
        dict(zip(names, values, strict=True)),
        {name: plain(formula) for name, formula in zip(names, formulas, strict=True) if formula.has(L)},
        freedom,
        gradient_ratio(replace(network, variant=variant)),
        2 * len(network.sublayers) * network.depth * values[1] ** 2 / values[0] ** 2,
        steps,
    )


def residual_scale(variant: Variant) -> sympy.Symbol:
    """α of a variant of the form N(αx + F(…)).

    Raises:
        InvalidInput: it has another form, or no constant there; the message names one that has.
    """
    symbols = {symbol for symbol, _ in variant.formulas}
    nodes = [node for case in variant.cases for _, node in case.steps]
    terms = nodes[0].argument.terms if isinstance(nodes[0], Norm) and isinstance(nodes[0].argument, Sum) else ()
    scales = [node for node in terms if isinstance(node, Scale) and node.argument == Stream("x") and node.coefficient in symbols]
    branches = [node for node in terms if isinstance(node, Sublayer)]
    if len(nodes) != 1 or len(terms) != 2 or len(scales) != 1 or len(branches) != 1:
        raise InvalidInput(
            f"{variant.name} has no residual scale to set: prescribe deepnorm, x ↦ LN(αx + F(x)), "
            "or a variant of yours of that form with α in its constants"
        )
    return scales[0].coefficient


def gradient_ratio(network: Configuration) -> float:
    """Squared gradient at layer 0 over the one at layer L, at infinite width."""
    gradient = quantity("stream-gradient").predicted(network, infinite_width=True)
    return float(gradient[0] / gradient[-1])


Solution = tuple[tuple[sympy.Expr, sympy.Expr], str, tuple[DerivationStep, ...]]
"""(α, β), the freedom that is left, the derivation."""


def _bounded_update(network: Configuration, bound: sympy.Expr | int, tolerance: float) -> Solution:
    found = bounded_update(len(network.sublayers), bound)
    if network.variant.gain == 1:
        scale = sympy.powsimp(sympy.sqrt(1 / found.ratio)).subs(blocks, L)
        return (scale, sympy.Integer(1)), "none: the variant has no initial gain, so β = 1 and the bound fixes α", found.steps[:3]
    return (found.alpha.subs(blocks, L), found.beta.subs(blocks, L)), found.freedom, found.steps


def _flat_gradient(network: Configuration, bound: sympy.Expr | int, tolerance: float) -> Solution:
    if not 0 < tolerance < 1:
        raise InvalidInput(f"the tolerance is {tolerance}: it must lie between 0 and 1")
    if _flat_for_all(network):
        formulas, freedom, steps = _bounded_update(network, bound, tolerance)
        return formulas, f"all: χ = 1 whatever the constants, so the update of one step decides, and {freedom}", steps
    split = partial(_split, network.variant.gain != 1)
    high = 1.0
    while not _is_flat(network, split(high), tolerance):
        high *= 2
        if high > _LARGEST:
            raise InvalidInput(f"no α up to {_LARGEST:g} brings the gradient within {tolerance:g} of flat: allow more")
    low = high / 2 if high > 1 else high
    while high / low > 1 + _RESOLUTION:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if _is_flat(network, split(middle), tolerance) else (middle, high)
    freedom = "one inequality for α and β; of the balanced constants, 2β² = 1/α², these have the smallest α ≥ 1 that meets it"
    if network.variant.gain == 1:
        freedom = "every larger α does as well; this is the smallest α ≥ 1"
    return split(high), freedom, (_search(network, tolerance),)


def _flat_for_all(network: Configuration) -> bool:
    """Whether the closed form is 1 for every α and β: homogeneous sublayers between norms."""
    if not all(maps.homogeneous and maps.tokenwise for maps in network.maps):
        return False
    law = closed_form(network.variant, len(network.sublayers))
    return not isinstance(law, NoClosedForm) and law.product.subs(law.homogeneous).value == 1


def _split(gained: bool, scale: float) -> tuple[sympy.Expr, sympy.Expr]:
    """α and β, exact in the digits that are printed: the balanced β, or 1 where the variant has no gain."""
    numbers = (scale, 1 / np.sqrt(2 * scale**2)) if gained else (scale, 1.0)
    first, second = (sympy.Rational(f"{number:.10g}") for number in numbers)
    return first, second


def _is_flat(network: Configuration, formulas: tuple[sympy.Expr, sympy.Expr], tolerance: float) -> bool:
    variant = _with(network.variant, residual_scale(network.variant), *formulas)
    return abs(gradient_ratio(replace(network, variant=variant)) - 1) <= tolerance


def _with(variant: Variant, symbol: sympy.Symbol, scale: sympy.Expr, gain: sympy.Expr) -> Variant:
    return replace(variant, constants=dict(variant.formulas) | {symbol: scale}, gain=gain)


def _search(network: Configuration, tolerance: float) -> DerivationStep:
    return DerivationStep(
        "Flat gradient",
        f"The recursion of {network.depth} blocks of {','.join(network.sublayers)} at infinite width, solved by bisection in α "
        f"(to a part in {1 / _RESOLUTION:.0f}) for a squared gradient at the input within {tolerance:g} of the output's.",
        r"\left|G(0)/G(L) - 1\right| \le " + f"{tolerance:g}",
        f"|G(0)/G(L) − 1| ≤ {tolerance:g}",
    )


TARGETS = {"flat-gradient": _flat_gradient, "bounded-update": _bounded_update}
