"""A stream under a norm beside one that drifts (SiameseNorm): the class by the largest eigenvalue along the drift.

The drifting stream y grows, so its share of everything behind a norm is of order 1/√q_y. The gradients' second moments go by a
matrix in ε = 1/√q_y; the eigenvalue that is 1 at ε = 0 is 1 + a ε² + O(ε³), and the others are below 1, so that x's gradient
follows y's. With q_y = b l + O(√l) the product of 1 + a/(b l) is a power, l^(a/b), times a factor that stays between constants.
"""

from __future__ import annotations

from functools import lru_cache

import sympy

from theory.algebra import Position, Variant, sublayer_node
from theory.errors import NoClosedForm
from theory.laws.asymptotics import FLAT, Growth
from theory.laws.recursion import at_place, generic_moments
from theory.laws.solved import Solved, class_step
from theory.laws.steps import DerivationStep, formula, formulas
from theory.laws.streams.step import entering, pairs_of, stream_step, symmetric
from theory.propagation import Symbols, Walk

small = sympy.Symbol("epsilon", positive=True)
"""1/√q_y."""
_cosine = sympy.Symbol("c_1", positive=True)


@lru_cache(maxsize=16)
def slaved(variant: Variant, sublayers: int = 1) -> Solved:
    """The class of a variant of two streams, x under a norm and y that drifts.

    Its s² and κ² are those at the second moment of the branch's input once y is long, over that moment (`input_moment`).

    Raises:
        NoClosedForm: the streams are of another kind.
    """
    if len(variant.streams) != 2 or sublayers != 1:
        raise NoClosedForm("several streams whose gradients' coefficients follow the streams' drift: propagated numerically")
    (moments,) = generic_moments()
    (other,) = [name for name in variant.streams if name != "x"]
    cross = ("x", other) if ("x", other) in pairs_of(variant) else (other, "x")
    start = {("x", "x"): sympy.Integer(1), cross: _cosine, (other, other): 1 / small**2}
    step = stream_step(variant, moments, entering(variant, start))
    if step.outgoing["x", "x"] != 1:
        raise NoClosedForm("several streams, of which no norm fixes x: propagated numerically")
    matrix = step.gradients.applyfunc(sympy.cancel)
    slope = _limit(sympy.cancel(step.outgoing[other, other] - 1 / small**2))
    at_zero = matrix.applyfunc(_limit)
    values = [at_zero[row, row] for row in range(matrix.rows)]
    if values.count(1) != 1 or slope.has(_cosine) or slope == 0:
        raise NoClosedForm("several streams whose gradients do not follow one of them: propagated numerically")
    own = at_zero[pairs_of(variant).index(("x", "x")), pairs_of(variant).index(("x", "x"))]
    drift = sympy.factor(_perturbed(matrix))
    exponent = sympy.factor(sympy.cancel(drift / slope))
    if exponent.has(_cosine):
        raise NoClosedForm("several streams whose drift depends on their cosine: propagated numerically")
    gain = Growth(sympy.Integer(1), exponent)
    in_depth, across = gain.times(Growth(sympy.Integer(1), sympy.Integer(-1))), gain.inverse()
    steps = (*_steps(other, slope, own, drift, exponent), class_step(in_depth, across, FLAT, {moments.gain: moments.square}))
    return Solved(
        (moments,),
        None,
        in_depth,
        across,
        FLAT,
        steps,
        valid=own < 1,
        others=((other, Growth(sympy.Integer(1), sympy.Integer(1))),),
    )


def _steps(other: str, slope: sympy.Expr, own: sympy.Expr, drift: sympy.Expr, exponent: sympy.Expr) -> tuple[DerivationStep, ...]:
    return (
        DerivationStep(
            "Streams",
            f"{other} grows by the branch's share a block; x·{other} tends to a constant, so their cosine vanishes like "
            f"1/√q_{other}{other}.",
            *formula(rf"q_{{{other}{other}}}' - q_{{{other}{other}}} \to", slope, f"q_{other}{other}' − q_{other}{other} →"),
        ),
        DerivationStep(
            "Gradients",
            f"Second moments of x's own gradient in a block: below 1, so that x's gradient follows {other}'s.",
            *formulas((r"\chi_x", "χ_x", own)),
        ),
        DerivationStep(
            "Largest eigenvalue",
            f"Of the gradients' matrix in ε = 1/√q_{other}{other}: 1 + a ε², by perturbation; the first order vanishes.",
            *formula("a", drift),
        ),
        DerivationStep(
            "Exponent",
            "The product of 1 + a/(b l), b the drift; at the output the slow part starts at 1/q_L.",
            *formula("a/b", exponent, "a/b"),
        ),
    )


def input_moment(variant: Variant) -> sympy.Expr:
    """Second moment of the branch's argument once y is long."""
    place = Position(1, 1)
    (other,) = [name for name in variant.streams if name != "x"]
    state = symmetric({("x", "x"): sympy.Integer(1), ("x", other): _cosine, (other, other): 1 / small**2})
    steps = variant.fixed_steps("ffn")
    assert steps is not None
    walked = Walk(steps, state, Symbols(), at_place(place), lambda _, moment: moment)
    return _limit(walked.moments[sublayer_node(steps).argument])


def _limit(expression: sympy.Expr) -> sympy.Expr:
    """At ε = 0, of a formula that is regular there."""
    return sympy.factor(sympy.cancel(sympy.powdenest(expression, force=True)).subs(small, 0))


def _perturbed(matrix: sympy.Matrix) -> sympy.Expr:
    """a of the eigenvalue 1 + a ε², by perturbation to second order; the first order has to vanish."""
    zeroth, first, second = matrix.applyfunc(_limit), _order(matrix, 1), _order(matrix, 2)
    kernel = sympy.eye(matrix.rows) - zeroth
    (right,), (left,) = kernel.nullspace(), kernel.T.nullspace()
    size = (left.T * right)[0]
    if sympy.simplify((left.T * first * right)[0]) != 0:
        raise NoClosedForm("several streams whose gradient drifts faster than a power")
    solved, free = kernel.gauss_jordan_solve(first * right)
    moved = solved.subs(dict.fromkeys(free, 0))
    return sympy.simplify((left.T * (first * moved + second * right))[0] / size)


def _order(matrix: sympy.Matrix, order: int) -> sympy.Matrix:
    """Coefficient of ε^order."""
    return matrix.applyfunc(lambda entry: sympy.factor(sympy.diff(entry, small, order).subs(small, 0) / sympy.factorial(order)))
