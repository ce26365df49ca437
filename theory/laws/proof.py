"""Equality of a closed form and its recursion, checked by exact evaluation at random rationals.

Both sides are rational functions of the moments at any fixed l and L, so agreement at random points of a large set
proves them equal up to a false-alarm chance of degree/size a point (Schwartz 1980, Zippel 1979), which
``simplify`` does not.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import sympy

from theory.laws.closed import depth, layer, q0
from theory.laws.recursion import q

_SIZE = 10**6


@dataclass(frozen=True)
class Proof:
    """How often closed form and recursion were compared exactly; construction fails on the first difference."""

    points: int
    depths: tuple[int, ...]


def prove(
    forward: sympy.Expr, backward: sympy.Expr, stream: sympy.Expr, gradient: sympy.Expr, seed: int = 0, points: int = 6
) -> Proof:
    """Iterate q ↦ forward(q) and multiply backward(q) exactly; compare with ``stream`` and ``gradient``.

    Args:
        forward, backward: one block's map of q and its gain, as functions of q.
        stream, gradient: their closed forms in l, and in l and L.

    Raises:
        ArithmeticError: the two differ at a point (it is named).
    """
    draw = random.Random(seed)
    depths = []
    for _ in range(points):
        total = draw.randint(2, 12)
        start = draw.randint(0, total - 1)
        if not forward.has(q) and start == 0:
            start = 1  # behind a norm the closed form holds from the first block's output on
        depths.append(total)
        free = (forward.free_symbols | backward.free_symbols | {q0}) - {q, depth, layer}
        point = {s: sympy.Rational(draw.randint(1, _SIZE), draw.randint(1, _SIZE)) for s in sorted(free, key=str)}
        moment, product = point[q0], sympy.Integer(1)
        for j in range(total):
            if j >= start:
                product *= backward.subs(point).subs(q, moment)
            moment = forward.subs(point).subs(q, moment)
        compare("stream", moment, stream.subs(point).subs(layer, total), total)
        closed = gradient.subs(point).subs({depth: total, layer: start})
        compare("gradient", product, sympy.gammasimp(closed), total)
    return Proof(points, tuple(depths))


def compare(what: str, recursion: sympy.Expr, closed: sympy.Expr, total: int) -> None:
    """Refuse a closed form that is not exactly the recursion's rational value at L = ``total``.

    Raises:
        ArithmeticError: it is not.
    """
    if not (recursion.is_Rational and closed.is_Rational) or recursion != closed:
        raise ArithmeticError(f"{what}: closed form {closed} differs from the recursion's {recursion} at L={total}")
