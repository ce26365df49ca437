"""Which kind of law a variant has: the closed form of `theory.laws.law`, one of the other kinds, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

import sympy

from theory.algebra import Variant
from theory.errors import NoClosedForm
from theory.laws.depth_constants import follow_depth, smooth, with_constants
from theory.laws.law import Law, closed_form
from theory.laws.recursion import Moments
from theory.laws.saturated import saturated
from theory.laws.segments import segmented
from theory.laws.solved import Solved
from theory.laws.streams.constant import constant_coefficients
from theory.laws.streams.matched import norm_of_another
from theory.laws.streams.merged import equal_streams
from theory.laws.streams.slaved import input_moment, slaved
from theory.laws.telescoping import HOMOGENEOUS, SMOOTH, telescoped
from theory.sublayers import SublayerMaps, TokenWise

Values = dict[sympy.Symbol, sympy.Expr]


@lru_cache(maxsize=128)
def solve(variant: Variant, sublayers: tuple[SublayerMaps, ...] = ()) -> Law | Solved | NoClosedForm:
    """The law of a variant for a block of token-wise sublayers (one homogeneous one where none is given), or why there is none.

    Raises:
        ArithmeticError: a closed form failed its proof (a bug).
    """
    count, homogeneous = max(1, len(sublayers)), all(maps.homogeneous for maps in sublayers)
    law = closed_form(variant, count, homogeneous)
    if isinstance(law, Law) and not follow_depth(variant):
        return law
    reason: NoClosedForm | None = None
    for attempt in _attempts(variant, sublayers, count, homogeneous):
        try:
            found = attempt()
        except NoClosedForm as refused:
            reason = reason or refused
            continue
        if _applies(found, sublayers, homogeneous):
            return found
    if isinstance(law, NoClosedForm):
        return law
    return reason or NoClosedForm("the constants follow the depth")


def _attempts(
    variant: Variant, sublayers: tuple[SublayerMaps, ...], count: int, homogeneous: bool
) -> Iterable[Callable[[], Solved]]:
    if len(variant.streams) == 1:
        if follow_depth(variant):
            yield lambda: with_constants(variant, sublayers)
        yield lambda: telescoped(variant, count)
        yield lambda: segmented(variant, count, homogeneous)
        yield lambda: saturated(variant, count)
        return
    yield lambda: norm_of_another(variant, count, homogeneous)
    yield lambda: equal_streams(variant, count, homogeneous)
    yield lambda: constant_coefficients(variant, count, homogeneous, special=homogeneous)
    yield lambda: slaved(variant, count)


def _applies(found: Solved, sublayers: tuple[SublayerMaps, ...], homogeneous: bool) -> bool:
    if homogeneous or not found.condition:
        return True
    return found.condition == SMOOTH and all(smooth(maps) for maps in sublayers)


def moments_at(
    variant: Variant, moments: tuple[Moments, ...], sublayers: tuple[SublayerMaps, ...], law: Law | Solved | None = None
) -> Values:
    """Numbers for s² and κ² of token-wise sublayers at unit gain: exact where sympy has them, else by quadrature.

    They are those at the moment that the branch reads, over it: 1 behind a norm, another where two normalised streams add.
    """
    moment = 1.0
    if len(variant.streams) == 2 and isinstance(law, Solved) and law.valid != sympy.true:
        moment = float(input_moment(variant))
    values: Values = {}
    for symbols, maps in zip(moments, sublayers, strict=True):
        assert isinstance(maps, TokenWise)
        inner = dict(symbols.inner)
        exact = maps.exact_moments(inner)
        if exact is None or (moment != 1 and not maps.homogeneous):
            square, slope = maps.numeric_moments(inner) if moment == 1 else maps.activation.moments(moment)
            exact = sympy.Float(square / moment), sympy.Float(slope)
        values |= {symbols.square: exact[0], symbols.gain: exact[1]}
    return values


__all__ = ["HOMOGENEOUS", "SMOOTH", "Values", "moments_at", "solve"]
