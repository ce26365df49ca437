"""Telescoping: behind homogeneous sublayers every step's gain is χ_l = q_l/q_{l−1}, whatever its coefficients are.

A single-stream step is a sum of two paths, the stream and the branch. A scale c multiplies a path's second moment and its
squared gain by c², a norm divides both by the moment it meets, and a sublayer multiplies both by s² = κ² (Euler). So path by
path, and for their sum, the gain is what leaves over what enters: G(l→L) = q_L/q_l, and only the stream is left to solve.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache

import sympy

from theory.algebra import L, Position, Variant, l, sublayer_node
from theory.errors import NoClosedForm
from theory.laws.asymptotics import FLAT, Growth, growth_of_stream
from theory.laws.closed import Product, depth, layer, multiply_out, q0, solve_forward
from theory.laws.limits import growth_of, leading_term
from theory.laws.recursion import Moments, generic_moments, q, read_out_gain, same_placement, single_stream_step
from theory.laws.solved import Solved, class_step
from theory.laws.steps import DerivationStep, formula

_SIZE = 10**6
HOMOGENEOUS, SMOOTH = "homogeneous sublayers", "sublayers that are homogeneous or smooth at 0"


@dataclass(frozen=True)
class Block:
    """One block's map of q and its gain, in q and the block's index ``layer``, and the second moments that its branches read."""

    forward: sympy.Expr
    backward: sympy.Expr
    read: tuple[sympy.Expr, ...]

    @property
    def normalised(self) -> bool:
        """Whether all branches read a unit moment, so that s² and κ² are the same in every block for any sublayer."""
        return all(moment == 1 for moment in self.read)

    @property
    def vanishing(self) -> bool:
        """Whether what the branches read vanishes with the block, by a power."""
        return all(not moment.has(q) and leading_term(moment, layer)[1] < 0 for moment in self.read)


def block_of(variant: Variant, moments: tuple[Moments, ...]) -> Block:
    """Compose the steps of block l, constants put in.

    Raises:
        NoClosedForm: as `same_placement`.
    """
    forward, backward, read = q, sympy.Integer(1), []
    constants = dict(variant.formulas)
    for index, of in enumerate(moments, start=1):
        place = Position(1, 1, index, len(moments))
        steps = same_placement(variant, place)
        step = single_stream_step(steps, place, of)
        read.append(dict(step.moments)[sublayer_node(steps).argument].subs(q, forward))
        backward = backward * step.backward.subs(q, forward)
        forward = sympy.cancel(step.forward.subs(q, forward))
    put = lambda expression: sympy.sympify(expression).subs(constants).subs({l: layer, L: depth})  # noqa: E731
    return Block(sympy.cancel(put(forward)), sympy.cancel(put(backward)), tuple(put(moment) for moment in read))


@lru_cache(maxsize=64)
def telescoped(variant: Variant, sublayers: int = 1) -> Solved:
    """The law of a single-stream variant with one placement, for homogeneous sublayers.

    Raises:
        NoClosedForm: several streams or placements, pointwise functions, or a stream that is not summed in closed form.
        ArithmeticError: closed form and recursion differ (a bug).
    """
    moments = generic_moments(sublayers)
    block = block_of(variant, moments)
    if variant.gain != 1:
        raise NoClosedForm("the initial gain follows the depth")
    special = {of.gain: of.square for of in moments}
    stream, product = _stream(block.forward)
    read_out = read_out_gain(variant).subs(dict(variant.formulas)).subs(L, depth)
    last = stream.subs(layer, depth)
    gradient = sympy.cancel(last / stream * read_out.subs(q, last))
    points = _prove(block, special, stream)
    growth = _growth(stream, product)
    ratio = _ratio(block) if block.normalised else sympy.Integer(1) if block.vanishing and _ratio(block) is not None else None
    gain = growth.to_the(ratio) if ratio is not None else growth
    at_output = growth.inverse() if read_out.has(q) else FLAT
    limit = _limit(gradient)
    if ratio is not None:
        in_depth, across = gain.times(at_output), gain.inverse()
        condition = "" if block.normalised else SMOOTH
    else:
        in_depth, across, condition = growth.times(at_output), growth.inverse(), HOMOGENEOUS
    steps = (
        DerivationStep(
            "One block",
            "The walk's step with the constants put in; l is the block that q enters.",
            *formula("q_l", block.forward, "q_l"),
        ),
        DerivationStep("Gain", "The same walk backwards.", *formula(r"\chi_l", block.backward, "χ_l")),
        DerivationStep(
            "Telescoping",
            "Homogeneous sublayers (κ² = s², Euler): scales, norms and sublayers multiply a path's second moment and its squared "
            "gain alike, so χ_l = q_l/q_{l−1} whatever the constants are.",
            r"G(l \to L) = \frac{q_L}{q_l}",
            "G(l→L) = q_L/q_l",
        ),
        DerivationStep("Solve forward", "The steps' shares summed from block 1 to l.", *formula("q_l", stream)),
        DerivationStep(
            "Law",
            "κ² = s²; squared gradient per coordinate for a unit Gaussian gradient at the output.",
            *formula(r"E\left|\partial\mathcal{L}/\partial x_l\right|^2/d", gradient, "E|∂𝓛/∂x_l|²/d"),
        ),
        DerivationStep(
            "Proof",
            f"χ_l = q_l/q_(l−1) and the stream's closed form agree exactly with the iterated recursion at {points} random "
            "rational points (Schwartz–Zippel).",
        ),
        *_general_step(ratio, gain, block.normalised),
        class_step(in_depth, across, growth, special, limit),
    )
    return Solved(moments, gradient, in_depth, across, growth, steps, condition, limit)


def _general_step(ratio: sympy.Expr | None, gain: Growth, normalised: bool) -> tuple[DerivationStep, ...]:
    if ratio is None:
        return ()
    if not normalised:
        return (
            DerivationStep(
                "Sublayers with κ² ≠ s²",
                "What the branch reads vanishes with the block, and there a smooth φ is linear: κ²_l/s²_l = 1 + O(that moment), "
                "whose sum is finite, so G is q_L/q_l times a factor that stays between constants.",
            ),
        )
    return (
        DerivationStep(
            "Sublayers with κ² ≠ s²",
            "χ_l − 1 is a fixed multiple of q_l/q_(l−1) − 1 up to its square; the squares have a finite sum where the stream "
            "grows like a power or a logarithm, so G is (q_L/q_l) to that multiple, times a factor that stays between constants.",
            rf"G(l \to L) \asymp \left(\frac{{q_L}}{{q_l}}\right)^{{{sympy.latex(ratio)}}}",
            f"G(l→L) ≍ (q_L/q_l)^({formula('', ratio)[1].removeprefix(' = ')}), like {gain.describe('L')}",
        ),
    )


def _stream(block: sympy.Expr) -> tuple[sympy.Expr, Product | None]:
    """q_l of q_l = block(q_{l−1}), linear in q, and the product that it is, if it is one."""
    if not block.has(q) or not block.has(layer):
        return solve_forward(block), None
    if not block.is_polynomial(q) or sympy.degree(block, q) > 1:
        raise NoClosedForm("the forward recursion is not linear in q")
    slope, offset = (sympy.cancel(part) for part in sympy.Poly(block, q).all_coeffs())
    if slope == 1:
        j = sympy.Symbol("j", integer=True, positive=True)
        total = sympy.summation(sympy.expand(offset.subs(layer, j)), (j, 1, layer))
        if not total.replace(sympy.harmonic, lambda *_: sympy.Integer(1)).is_polynomial(layer):
            raise NoClosedForm(f"the shares {offset} of the blocks have no sum in closed form")
        return q0 + total, None
    if offset != 0:
        raise NoClosedForm("the stream is scaled and added to by factors that change from block to block")
    product = multiply_out(slope.subs(layer, layer + 1), q)
    return q0 * product.value.subs({layer: 0, depth: layer}, simultaneous=True), product


def _limit(gradient: sympy.Expr) -> sympy.Expr | None:
    """Of the gradient at layer 0 as L → ∞, where it is finite."""
    try:
        growth, constant = growth_of(gradient.subs(layer, 0), depth)
    except NoClosedForm:
        return None
    return constant if growth.flat else None


def _growth(stream: sympy.Expr, product: Product | None) -> Growth:
    if product is not None:
        return Growth(product.rate, product.exponent)
    if stream.has(depth):
        return growth_of(stream.subs(layer, depth), depth)[0]
    return growth_of_stream(stream, layer)


def _ratio(block: Block) -> sympy.Expr | None:
    """ρ with χ − 1 = ρ(q_l/q_{l−1} − 1) + O(square) along a stream that grows without norm; None where that is not the case."""
    if not block.forward.has(q) or sympy.cancel(block.forward.subs(q, 0)) == 0:
        return None
    relative = sympy.cancel((block.backward - 1) / (block.forward / q - 1))
    above, below = (sympy.Poly(part, q) for part in sympy.fraction(relative))
    if above.degree() != below.degree():
        return None
    ratio = sympy.cancel(above.LC() / below.LC())
    return None if ratio.free_symbols & {layer, depth} else sympy.factor(ratio)


def _prove(block: Block, special: dict[sympy.Symbol, sympy.Expr], stream: sympy.Expr, points: int = 6) -> int:
    """χ = q'/q, and the stream's closed form, against the recursion at random rationals."""
    draw = random.Random(0)
    forward, backward = block.forward.subs(special), block.backward.subs(special)
    for _ in range(points):
        total, moment = draw.randint(2, 10), sympy.Rational(draw.randint(1, _SIZE), draw.randint(1, _SIZE))
        free = sorted((forward.free_symbols | backward.free_symbols) - {q, layer, depth, q0}, key=str)
        point = {symbol: sympy.Rational(draw.randint(1, _SIZE), draw.randint(1, _SIZE)) for symbol in free}
        point |= {depth: sympy.Integer(total)}
        moment = moment if forward.has(q) else sympy.Integer(1)
        start = moment
        for block_index in range(1, total + 1):
            at = point | {layer: block_index, q: moment}
            left, moved = backward.subs(at), forward.subs(at)
            closed = sympy.gammasimp(sympy.expand_func(stream.subs(point | {q0: start, layer: block_index})))
            if sympy.nsimplify(left - moved / moment) != 0 or sympy.nsimplify(closed - moved) != 0:
                raise ArithmeticError(
                    f"block {block_index}: χ = {left}, q'/q = {moved / moment}; q = {moved}, closed form {closed}"
                )
            moment = moved
    return points
