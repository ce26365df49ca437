"""Placements by block: each part of the stack has a law of its own, joined where the placement changes (Mix-LN).

The part's own stream starts at the moment that the part below hands on, and the gradient at its top is the gradient of the part
above at its bottom.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import lru_cache

import sympy

from theory.algebra import Case, L, Variant, l
from theory.errors import NoClosedForm
from theory.laws.asymptotics import FLAT, Growth, growth_of_stream, plain
from theory.laws.closed import depth, layer, q0
from theory.laws.law import Law, derive
from theory.laws.recursion import q
from theory.laws.solved import Solved, class_step
from theory.laws.steps import DerivationStep, formula

border = sympy.Symbol("B", integer=True, nonnegative=True)
"""The last block of the lower part."""


@dataclass(frozen=True)
class Joined:
    """Two parts of a stack: blocks 1 … B and B + 1 … L, B = ⌊share·L⌋."""

    share: sympy.Rational
    lower: Law
    upper: Law

    @property
    def handed_on(self) -> sympy.Expr:
        """q_B for B ≥ 1."""
        return self.lower.stream.subs(layer, border)

    def at(self, values: dict[sympy.Symbol, sympy.Expr]) -> tuple[sympy.Expr, sympy.Expr]:
        """The gradient at l ≤ B and at l ≥ B with numbers or symbols put for the moments."""
        inside = {layer: layer - border, depth: depth - border, q0: self.handed_on.subs(values)}
        gain = self.upper.product.subs(values).value.subs(inside, simultaneous=True)
        upper = gain * self.upper.read_out.subs(q, self.last.subs(values))
        lower = self.lower.product.subs(values).value.subs(depth, border) * upper.subs(layer, border)
        return (sympy.factor(lower), sympy.factor(upper)) if values else (lower, upper)

    @property
    def last(self) -> sympy.Expr:
        """q_L."""
        return self.upper.stream.subs({layer: depth - border, q0: self.handed_on}, simultaneous=True)


def borders(variant: Variant) -> tuple[sympy.Rational, Case, Case]:
    """(share, lower case, upper case) of a variant of two cases, the first for l ≤ share·L.

    Raises:
        NoClosedForm: other cases.
    """
    if len(variant.cases) != 2:
        raise NoClosedForm("placements that change from block to block in other than two parts")
    first, second = variant.cases
    condition = first.when
    if first.sublayer or second.sublayer or second.when != sympy.true or not isinstance(condition, sympy.Rel):
        raise NoClosedForm("placements that change from block to block, not as l ≤ share·L")
    low, high = (condition.lhs, condition.rhs) if isinstance(condition, sympy.Le) else (condition.rhs, condition.lhs)
    share = sympy.cancel(high / L)
    if not isinstance(condition, sympy.Le | sympy.Ge) or low != l or not (share.is_Rational and 0 < share < 1):
        raise NoClosedForm("placements that change from block to block, not as l ≤ share·L")
    return share, first, second


@lru_cache(maxsize=64)
def joined(variant: Variant, sublayers: int = 1, homogeneous: bool = True) -> Joined:
    """The two parts' laws.

    Raises:
        NoClosedForm: of a part, or placements of another form.
        ArithmeticError: closed form and recursion differ (a bug).
    """
    share, first, second = borders(variant)
    lower, upper = (
        derive(replace(variant, name=f"{variant.name}-{part}", update=(Case(case.steps),)), sublayers, homogeneous)
        for part, case in (("lower", first), ("upper", second))
    )
    found = Joined(share, lower, upper)
    _prove(found)
    return found


@lru_cache(maxsize=64)
def segmented(variant: Variant, sublayers: int = 1, homogeneous: bool = True) -> Solved:
    """The joined law with its classes.

    Raises:
        NoClosedForm, ArithmeticError: as `joined`.
    """
    parts = joined(variant, sublayers, homogeneous)
    lower, upper = parts.lower, parts.upper
    below = Growth(lower.product.rate, lower.product.exponent)
    stretch = Growth(lower.product.rate**parts.share, lower.product.exponent)
    above = Growth(upper.product.rate ** (1 - parts.share), upper.product.exponent)
    stream = growth_of_stream(upper.stream, layer)
    at_output = stream.inverse() if upper.read_out.has(q) else FLAT
    in_depth = stretch.times(above).times(at_output)
    across = stretch.times(above).inverse()
    special = lower.homogeneous
    at_or_below, above_border = parts.at({})
    homogeneous_law = parts.at(special)
    segments = (
        ("blocks up to B", below.inverse(), "l"),
        ("above", Growth(upper.product.rate, upper.product.exponent).inverse(), "(l − B)"),
    )
    share = plain(parts.share * sympy.Symbol("L"))
    steps = (
        DerivationStep("Two parts", f"Blocks 1 … B and B + 1 … L with B = ⌊{share}⌋; each has the law of its own placement."),
        *_part("Lower part", lower),
        *_part("Upper part", upper),
        DerivationStep(
            "Joined forward",
            "The upper part starts from what the lower hands on.",
            *formula("q_L", sympy.factor(parts.last), "q_L"),
        ),
        DerivationStep(
            "Law above B",
            "Squared gradient per coordinate at l ≥ B.",
            *formula(r"E|\partial_l|^2/d", above_border, "at l ≥ B"),
        ),
        DerivationStep(
            "Law up to B",
            "The upper part's gradient at B, times the lower part's gain.",
            *formula(r"E|\partial_l|^2/d", at_or_below, "at l ≤ B"),
        ),
        DerivationStep(
            "Homogeneous sublayers",
            "κ² = s²: at l ≤ B and at l ≥ B.",
            r",\quad ".join(map(sympy.latex, homogeneous_law)),
            "; ".join(map(plain, homogeneous_law)),
        ),
        DerivationStep(
            "Proof", "Closed form and iterated recursion agree exactly at random rational points and depths (Schwartz–Zippel)."
        ),
        class_step(in_depth, across, stream, special),
    )
    found = Solved(lower.moments, at_or_below, in_depth, across, stream, steps, segments=segments)
    words = f"{found.parts}. For κ² = s²: {found.subs(special).parts}."
    return replace(found, steps=(*steps, DerivationStep("Across the layers", words)))


def _part(title: str, law: Law) -> tuple[DerivationStep, ...]:
    return (
        DerivationStep(
            title,
            "One block's map of q and its gain.",
            f"q' = {sympy.latex(law.forward)},\\quad \\chi = {sympy.latex(law.backward)}",
            f"q' = {plain(law.forward)}; χ = {plain(law.backward)}",
        ),
    )


def _prove(parts: Joined, points: int = 6) -> None:
    """Iterate both parts exactly and compare."""
    draw = random.Random(0)
    for _ in range(points):
        total = draw.randint(8, 14)
        at_border = int(sympy.floor(parts.share * total))
        start = draw.randint(1, total)
        symbols = sorted({s for m in parts.lower.moments for s in (m.square, m.gain)}, key=str)
        point = {s: sympy.Rational(draw.randint(1, 10**4), draw.randint(1, 10**4)) for s in symbols}
        moments, gain = [sympy.Integer(1)], sympy.Integer(1)
        for block in range(1, total + 1):
            law = parts.lower if block <= at_border else parts.upper
            if block > start:
                gain *= law.backward.subs(point).subs(q, moments[-1])
            moments.append(law.forward.subs(point).subs(q, moments[-1]))
        recursion = gain * parts.upper.read_out.subs(q, moments[-1])
        closed = parts.at({})[0 if start <= at_border else 1]
        found = sympy.gammasimp(closed.subs(point).subs({border: at_border, depth: total, layer: start, q0: 1}))
        if not found.is_Rational or found != recursion:
            raise ArithmeticError(f"closed form {found} differs from the recursion's {recursion} at l={start}, L={total}")
