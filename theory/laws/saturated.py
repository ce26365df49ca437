"""A saturating function in place of the norm (dynamic tanh): the class is a stretched exponential.

Along a long stream almost every coordinate is saturated, and only the strip |u| ~ 1 of the Gaussian u ~ N(0, v) has a slope: with
t = tanh u, E φ(u)² = 1 − ∫(1 − t²) du/√(2πv) = 1 − 2/√(2πv) and E φ'(u)² = ∫(1 − t²)² du/√(2πv) = (4/3)/√(2πv), up to
O(v^(-3/2)).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import sympy

from theory.algebra import Position, Stream, Streams, Variant, l
from theory.errors import NoClosedForm
from theory.laws.asymptotics import Growth
from theory.laws.recursion import Moments, at_place, generic_moments, q
from theory.laws.solved import Solved, class_step
from theory.laws.steps import DerivationStep, formula, formulas
from theory.propagation import Symbols, Walk

_t = sympy.Symbol("t", real=True)
_long = sympy.Symbol("r", positive=True)
"""√q."""


class Saturated(Symbols):
    """Scalars in sympy, with pointwise functions by their leading terms at large moments."""

    def pointwise(self, function: str, moment: Any) -> tuple[Any, Any, Any]:
        if function != "tanh":
            raise NoClosedForm(f"no leading terms for {function}")
        density = 1 / sympy.sqrt(2 * sympy.pi * moment)
        # du = dt/(1 − t²)
        lost, strip = (sympy.integrate((1 - _t**2) ** power, (_t, -1, 1)) * density for power in (0, 1))
        return 1 - lost, lost, strip

    def tidy(self, moment: Any) -> Any:
        return sympy.expand(moment)


@lru_cache(maxsize=32)
def saturated(variant: Variant, sublayers: int = 1) -> Solved:
    """The class of a single-stream variant without norm, whose branch reads a saturating function of the stream.

    Its s² and κ² are those at an input of unit moment.

    Raises:
        NoClosedForm: several streams or placements, a stream that does not drift by a constant, a gain of another form.
    """
    moments = generic_moments(sublayers)
    drift, strength = sympy.Integer(0), sympy.Integer(0)
    for index, of in enumerate(moments, start=1):
        moved, gained = _step(variant, Position(1, 1, index, sublayers), of)
        drift, strength = drift + moved, strength + gained
    read_out = _read_out(variant)
    stretched = sympy.simplify(2 * strength / sympy.sqrt(drift))
    length = sympy.simplify(1 / stretched**2)
    gain = Growth(sympy.Integer(1), sympy.Integer(0), stretched=stretched)
    stream = Growth(sympy.Integer(1), sympy.Integer(1))
    across = gain.inverse()
    special = {of.gain: of.square for of in moments}
    steps = (
        DerivationStep(
            "Saturation",
            "No norm; along a long stream nearly all coordinates of tanh(αx) are ±1, so the branch reads a vector of unit moment "
            "and the stream grows by a constant a block.",
            *formula("q_l - q_{l-1} \\to", drift, "q_l − q_(l−1) →"),
        ),
        DerivationStep(
            "Gain",
            "Only the strip |αx| ~ 1 has a slope: E φ'² = (4/3)/√(2πα²q), from ∫ sech⁴ u du = 4/3.",
            *formula(r"\chi - 1 \to", strength / sympy.sqrt(q), "χ − 1 →"),
        ),
        DerivationStep(
            "Sum",
            "log G = Σ (χ_l − 1) to leading order, with q_l = drift·l: a sum of 1/√l. Corrections are powers of L.",
            r"\log G(0 \to L) \sim \sqrt{L/\lambda}",
            "log G(0→L) ~ √(L/λ)",
        ),
        DerivationStep(
            "Length", "λ is the number of blocks after which the logarithm is 1.", *formulas((r"\lambda", "λ", length))
        ),
        DerivationStep(
            "Read-out", "Its squared gain at the last layer, a power of L.", *formula(r"\chi_{out}", read_out, "χ_out →")
        ),
        class_step(gain, across, stream, special),
    )
    return Solved(moments, None, gain, across, stream, steps)


def _steps(variant: Variant, place: Position) -> Streams:
    steps = variant.fixed_steps(place.kind, place.index, place.count)
    if variant.tied or variant.streams != ("x",) or steps is None or any(f.has(l) for _, f in variant.formulas):
        raise NoClosedForm("a pointwise function in place of a norm: its moments follow the stream's length")
    return steps


def _step(variant: Variant, place: Position, moments: Moments) -> tuple[sympy.Expr, sympy.Expr]:
    """(drift of q a step, a of χ − 1 = a/√q)."""
    constants = dict(variant.formulas)
    step = Walk(
        _steps(variant, place),
        {("x", "x"): q},
        Saturated(),
        lambda formula: at_place(place)(formula).subs(constants),
        lambda _, moment: moments.square * moment,
    )
    gradient = sympy.Symbol("g", positive=True)
    result = step.backward({("x", "x"): gradient}, lambda _, g: moments.gain * g)
    moved = _leading(step.outgoing()["x", "x"] - q, 0)
    gained = _leading(sympy.expand(result.incoming(("x",))["x", "x"] / gradient) - 1, -1)
    return moved, gained


def _leading(expression: sympy.Expr, power: int) -> sympy.Expr:
    """c of expression ~ c·√q^power."""
    scaled = sympy.expand(sympy.powdenest(expression.subs(q, _long**2), force=True) * _long**-power)
    value = scaled.subs(_long, sympy.oo) if scaled.has(_long) else scaled
    if not value.is_finite or value == 0:
        raise NoClosedForm("a pointwise function in place of a norm: its moments follow the stream's length")
    return sympy.simplify(value)


def _read_out(variant: Variant) -> sympy.Expr:
    nothing = {("y", "y"): sympy.Integer(1)}
    constants = dict(variant.formulas)
    read_out = Walk((("y", variant.read_out),), {("x", "x"): q}, Saturated(), lambda f: f.subs(constants), _none)
    assert Stream("x") in read_out.order
    return sympy.simplify(read_out.backward(nothing, _none).incoming(("x",))["x", "x"])


def _none(*_: object) -> sympy.Expr:
    raise AssertionError("a read-out holds no sublayer")
