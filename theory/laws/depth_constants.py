"""Constants that follow the depth: their formulas go into a law before L → ∞, so that the class is the true one.

The initial gain β scales every branch matrix, M of them in a sublayer. A homogeneous F has s² and κ² proportional to β^(2M). A
smooth activation with φ(0) = 0 sees pre-activations of variance β² → 0, where Taylor's series of both moments start alike:
E φ(βz)² = φ'(0)²β² + O(β⁴) and β²E φ'(βz)² = φ'(0)²β² + O(β⁴).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy

from theory.algebra import L, Scale, Variant, walk
from theory.errors import NoClosedForm
from theory.laws.asymptotics import FLAT, Growth
from theory.laws.closed import depth, layer
from theory.laws.law import Law, derive
from theory.laws.limits import growth_of, leading_term
from theory.laws.recursion import Moments, q
from theory.laws.solved import Solved, class_step
from theory.laws.steps import DerivationStep, formulas
from theory.sublayers import SublayerMaps

slope = sympy.Symbol(r"\phi'(0)^2", positive=True)
forward_bend, backward_bend = sympy.symbols(r"b_s b_\kappa", real=True)
"""Coefficients of the next order in β² of the two moments."""


def follow_depth(variant: Variant) -> bool:
    """Whether the law's limit needs formulas put in: of constants, of the gain, or of L where a coefficient holds it."""
    nodes = walk(*(root for case in variant.cases for _, root in case.steps), variant.read_out)
    by_depth = any(isinstance(node, Scale) and node.coefficient.has(L) for node in nodes)
    return by_depth or bool(variant.formulas) or variant.gain != 1


@lru_cache(maxsize=64)
def with_constants(variant: Variant, sublayers: tuple[SublayerMaps, ...] = ()) -> Solved:
    """The law of `derive`, constants and initial gain put in; without ``sublayers`` for one smooth W₂φ(W₁x).

    Raises:
        NoClosedForm: the law has none, or its class needs more of the activation than its slope at 0.
    """
    homogeneous = all(maps.homogeneous for maps in sublayers)
    law = _law(variant, max(1, len(sublayers)), homogeneous)
    special = law.homogeneous if sublayers and homogeneous else {}
    values = constants_at_depth(law, sublayers)
    product = law.product.subs(special).subs(values)
    if any(shift.has(depth) for shift in (*product.numerator, *product.denominator)):
        raise NoClosedForm("the stream follows constants of the depth; only the numeric recursion is left")
    gain, constant = growth_of(product.rate**depth, depth)
    gain = gain.times(Growth(sympy.Integer(1), product.exponent))
    stream = growth_of(law.stream.subs(special).subs(values).subs(layer, depth), depth)[0] if law.stream.has(layer) else FLAT
    in_depth = gain.times(stream.inverse()) if law.read_out.has(q) else gain
    if any(growth.stretched.has(forward_bend, backward_bend) for growth in (gain, stream)) or constant.has(
        forward_bend, backward_bend
    ):
        raise NoClosedForm("the class depends on the activation's curvature at 0; only the numeric recursion is left")
    whole = not product.numerator and not law.read_out.has(q) and in_depth.flat
    limit = constant if whole else None
    across = gain.inverse()
    return Solved(
        law.moments,
        law.gradient_at(values) if not values.keys() & {m.square for m in law.moments} else None,
        in_depth,
        across,
        stream,
        (*_steps(law, variant, product.rate, sublayers), class_step(in_depth, across, stream, {}, limit)),
        limit=limit,
    )


def _law(variant: Variant, count: int, homogeneous: bool) -> Law:
    """The law before the constants; a branch that they turn off may be anything."""
    try:
        return derive(variant, count, homogeneous)
    except NoClosedForm:
        law = derive(variant, count, True)
        off = all(sympy.sympify(step.branch).subs(_constants(law)) == 0 for step in law.steps)
        if not off:
            raise
        return law


def constants_at_depth(law: Law, sublayers: tuple[SublayerMaps, ...]) -> dict[sympy.Symbol, sympy.Expr]:
    """The constants' formulas, and s² and κ² at the β-scaled weights where β is not 1.

    Raises:
        NoClosedForm: the moments follow a gain that does not vanish, or of an activation that is not smooth at 0.
    """
    values = _constants(law)
    for of, maps in zip(law.moments, sublayers or (None,) * len(law.moments), strict=True):
        values |= _moments(of, maps, law.variant.gain.subs(L, depth))
    return values


def _constants(law: Law) -> dict[sympy.Symbol, sympy.Expr]:
    return {symbol: formula.subs(L, depth) for symbol, formula in law.variant.formulas} | {L: depth}


def _moments(of: Moments, maps: SublayerMaps | None, beta: sympy.Expr) -> dict[sympy.Symbol, sympy.Expr]:
    """s² and κ² at the β-scaled weights."""
    if beta == 1:
        return {}
    if "middle" in dict(of.inner):
        if maps is None or not maps.homogeneous:
            raise NoClosedForm("the moments behind a norm in the sublayer's middle follow the initial gain as a whole")
        return {of.square: beta**2 * of.square, of.gain: beta**2 * of.gain}  # the norm takes all but the last matrix's away
    matrices = 2 if maps is None else sum(matrix.branch for matrix in maps.matrices)
    scale = beta ** (2 * matrices)
    if maps is not None and maps.homogeneous:
        return {of.square: scale * of.square, of.gain: scale * of.gain}
    if leading_term(beta, depth)[1] >= 0:
        raise NoClosedForm("the initial gain does not vanish with the depth, so the moments follow it as a whole")
    if maps is not None and not smooth(maps):
        raise NoClosedForm("the activation has no slope at 0 that its moments would start with")
    return {of.square: scale * (slope + forward_bend * beta**2), of.gain: scale * (slope + backward_bend * beta**2)}


def smooth(maps: SublayerMaps) -> bool:
    """Whether the activation has φ(0) = 0 and φ'(0) ≠ 0, with one slope on both sides."""
    phi = getattr(maps, "activation", None)
    if phi is None:
        return False
    left, right = phi.derivative(np.array([-1e-9, 1e-9]))
    return bool(abs(phi.value(np.zeros(1))[0]) < 1e-12 and abs(left - right) < 1e-6 < abs(right))


def _steps(law: Law, variant: Variant, rate: sympy.Expr, sublayers: tuple[SublayerMaps, ...]) -> tuple[DerivationStep, ...]:
    names = [(sympy.latex(symbol), str(symbol), value) for symbol, value in variant.formulas]
    if variant.gain != 1:
        names.append((r"\beta", "β", variant.gain))
    reason = "Formulas of the depth go in before the limit."
    if variant.gain != 1:
        homogeneous = sublayers and all(maps.homogeneous for maps in sublayers)
        reason += (
            " The gain β scales the branch's M matrices: s² = κ² ∝ β^(2M) for homogeneous sublayers."
            if homogeneous
            else " The gain β scales the branch's M matrices: pre-activations have variance β² → 0, where s² and κ² are both "
            "φ'(0)²β^(2M)(1 + O(β²)) for a smooth φ (M = 2 unless sublayers are given)."
        )
    excess = sympy.factor(sympy.cancel(sympy.together(rate - 1)))
    order = "0" if excess == 0 else f"of order L^({leading_term(excess, depth)[1]})" if excess.has(depth) else "constant"
    return (
        DerivationStep("Constants", reason, *formulas(*names)),
        DerivationStep("One block", f"χ − 1 is {order} at these constants, and L blocks multiply it.", *_rate(rate)),
    )


def _rate(rate: sympy.Expr) -> tuple[str, str]:
    return formulas((r"\chi", "χ", rate))
