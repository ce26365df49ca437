"""One step of several streams: their second moments, and the linear map of the second moments of their gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement

import sympy

from theory.algebra import Pointwise, Position, Scale, Sublayer, Variant, l, walk
from theory.errors import NoClosedForm
from theory.laws.recursion import Moments, at_place
from theory.propagation import Symbols, Walk

Pair = tuple[str, str]


def pairs_of(variant: Variant) -> tuple[Pair, ...]:
    """Each pair of streams once."""
    return tuple(combinations_with_replacement(variant.streams, 2))


def entering(variant: Variant, start: Mapping[Pair, sympy.Expr] | None = None) -> dict[Pair, sympy.Expr]:
    """Second moments of the streams as symbols q_xx, q_xr, …, unless ``start`` knows them."""
    known = dict(start or {})
    return {
        pair: known.get(pair, sympy.Symbol(f"q_{pair[0]}{pair[1]}", real=True, positive=pair[0] == pair[1] or None))
        for pair in pairs_of(variant)
    }


@dataclass(frozen=True)
class StreamStep:
    """One sublayer's step.

    Attributes:
        outgoing: second moments of the streams behind it, by pair.
        gradients: matrix that maps the gradients' second moments behind it to those before it, in the order of `pairs_of`.
    """

    outgoing: dict[Pair, sympy.Expr]
    gradients: sympy.Matrix


def stream_step(
    variant: Variant, moments: Moments, state: Mapping[Pair, sympy.Expr], index: int = 1, count: int = 1
) -> StreamStep:
    """Walk the update on the second moments ``state``.

    Raises:
        NoClosedForm: shared weights, placements or constants that change from block to block, pointwise functions, norms inside
            the sublayer, or a non-homogeneous sublayer behind an argument that no norm has fixed.
    """
    place = Position(1, 1, index, count)
    steps = variant.fixed_steps(place.kind, index, count)
    if steps is None or variant.tied:
        raise NoClosedForm("several streams with placements that change from block to block, or with shared weights")
    for node in walk(*(root for _, root in steps)):
        if isinstance(node, Pointwise) or (isinstance(node, Sublayer) and node.inner):
            raise NoClosedForm("several streams with a pointwise function or a norm inside the sublayer")
        if isinstance(node, Scale) and l in node.coefficient.free_symbols:
            raise NoClosedForm("several streams with constants that change from block to block")

    def fixed(moment: sympy.Expr) -> None:
        if moment != 1 and not moments.homogeneous:
            raise NoClosedForm(
                "the sublayer is not homogeneous and no norm fixes its input, so s²(q) and κ²(q) follow the streams"
            )

    def forward(_: Sublayer, moment: sympy.Expr) -> sympy.Expr:
        fixed(moment)
        return moments.square * moment

    def backward(moment: sympy.Expr, gradient: sympy.Expr) -> sympy.Expr:
        fixed(moment)
        return moments.gain * gradient

    pairs = pairs_of(variant)
    step = Walk(steps, symmetric(state), Symbols(), at_place(place), forward)
    out = step.outgoing()
    received = {pair: sympy.Symbol(f"g_{pair[0]}{pair[1]}") for pair in pairs}
    incoming = step.backward(symmetric(received), backward).incoming(variant.streams)
    rows = [[sympy.factor(sympy.diff(incoming[pair], received[of])) for of in pairs] for pair in pairs]
    return StreamStep({pair: out[pair] for pair in pairs}, sympy.Matrix(rows))


def symmetric(moments: Mapping[Pair, sympy.Expr]) -> dict[Pair, sympy.Expr]:
    """Both orders of every pair."""
    return dict(moments) | {(b, a): value for (a, b), value in moments.items()}


def at_output(variant: Variant, state: Mapping[Pair, sympy.Expr]) -> sympy.Matrix:
    """Second moments of the streams' gradients above the last block, for a unit gradient at the output."""
    nothing = {("y", "y"): sympy.Integer(1)}
    read_out = Walk((("y", variant.read_out),), symmetric(state), Symbols(), lambda formula: formula, _none)
    incoming = read_out.backward(nothing, _none).incoming(variant.streams)
    return sympy.Matrix([sympy.sympify(incoming[pair]) for pair in pairs_of(variant)])


def _none(*_: object) -> sympy.Expr:
    raise AssertionError("a read-out holds no sublayer")
