"""Several streams with constant coefficients: x's gradient is a sum of geometric series (ResiDual, B2T).

The coefficients are constant where every norm meets a moment that is the same in every block; streams that drift enter the
read-out only. Where every other gradient moment g_j is its own multiple λ_j from block to block, g_xx' = χ g_xx + Σ b_j g_j has
the solution χ^m g_xx(L) + Σ b_j g_j(L) (χ^m − λ_j^m)/(χ − λ_j), m blocks below the output; m χ^(m−1) where λ_j = χ.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache

import sympy

from theory.algebra import Variant
from theory.errors import NoClosedForm
from theory.laws.asymptotics import FLAT, Growth, plain
from theory.laws.closed import depth, layer, q0
from theory.laws.limits import leading_term
from theory.laws.recursion import Moments, generic_moments
from theory.laws.solved import Solved
from theory.laws.steps import DerivationStep, formula, formulas
from theory.laws.streams.step import Pair, at_output, entering, pairs_of, stream_step

blocks = sympy.Symbol("m", integer=True, nonnegative=True)
"""L − l."""


@dataclass(frozen=True)
class Feed:
    """A gradient moment that feeds x's: λ, b, its value above the last block, and that value's power of the depth."""

    pair: Pair
    factor: sympy.Expr
    share: sympy.Expr
    end: sympy.Expr
    power: sympy.Rational


@dataclass(frozen=True)
class Series:
    """The solution: x's own factor χ, its gradient at the output, and what feeds it."""

    chi: sympy.Expr
    end: sympy.Expr
    feeds: tuple[Feed, ...]

    @property
    def value(self) -> sympy.Expr:
        """g_xx, m blocks below the output."""
        total = self.chi**blocks * self.end
        for feed in self.feeds:
            total += feed.share * feed.end * geometric(self.chi, feed.factor)
        return total

    @property
    def parts(self) -> list[Growth]:
        """Classes of its terms in L at fixed l."""
        zero = sympy.Integer(0)
        found = [Growth(self.chi, zero)]
        for feed in self.feeds:
            if feed.factor == self.chi:
                found.append(Growth(self.chi, feed.power + 1))
            else:
                found += [Growth(self.chi, feed.power), Growth(feed.factor, feed.power)]
        return found


def geometric(chi: sympy.Expr, factor: sympy.Expr) -> sympy.Expr:
    """Σ_{j<m} χ^(m−1−j) λ^j."""
    return blocks * chi ** (blocks - 1) if factor == chi else (chi**blocks - factor**blocks) / (chi - factor)


@lru_cache(maxsize=64)
def constant_coefficients(variant: Variant, sublayers: int = 1, homogeneous: bool = True, special: bool = False) -> Solved:
    """The law of a variant with several streams whose gradients have constant coefficients.

    Args:
        variant: the expression.
        sublayers: number of sublayers in a block.
        homogeneous: whether F(tx) = tF(x).
        special: put κ² = s², where factors may coincide.

    Raises:
        NoClosedForm: the coefficients follow the streams' drift, or the moments feed one another in another way.
        ArithmeticError: closed form and recursion differ (a bug).
    """
    moments = generic_moments(sublayers, homogeneous)
    state = entering(variant, {("x", "x"): sympy.Integer(1)})
    matrix, after = _block(variant, moments, state)
    if special:
        equal = {of.gain: of.square for of in moments}
        matrix = matrix.subs(equal).applyfunc(lambda entry: sympy.factor(sympy.radsimp(entry)))
    if matrix.free_symbols - {symbol for of in moments for symbol in (of.square, of.gain)}:
        raise NoClosedForm("several streams whose gradients' coefficients follow the streams' drift: propagated numerically")
    slopes = _drift(state, after)
    ends = at_output(variant, state)
    series = _series(variant, matrix, ends, slopes)
    points = _prove()
    last = {symbol: q0 + slope * depth for symbol, slope in slopes.items()}
    gradient = series.value.subs(last).subs(blocks, depth - layer)
    in_depth = dominant(series.parts)
    across = dominant([Growth(part.rate, sympy.Integer(0)) for part in series.parts]).inverse()
    limit = _limit(series, slopes) if special and in_depth.flat else None
    law = "Homogeneous sublayers" if special else "Law"
    steps = (
        *(_general(variant, sublayers) if special else _matrix_steps(variant, matrix, after, ends)),
        DerivationStep(
            law,
            "κ² = s²; a factor that equals χ gives m = L − l."
            if special
            else "Geometric series over the m = L − l blocks above.",
            *formula(r"E\left|\partial\mathcal{L}/\partial x_l\right|^2/d", series.value, "E|∂𝓛/∂x_l|²/d"),
        ),
        *(
            []
            if special
            else [DerivationStep("Proof", f"Series and recursion agree exactly at {points} random rational points.")]
        ),
        *([] if special else _lower_bounds(variant, series, last)),
        DerivationStep("Asymptotic class", _words(series, in_depth, limit)),
    )
    grown = Growth(sympy.Integer(1), sympy.Integer(1))
    others = tuple((name, grown if state[name, name] in slopes else FLAT) for name in variant.streams if name != "x")
    condition = "homogeneous sublayers" if special else ""
    return Solved(moments, gradient, in_depth, across, FLAT, steps, condition, limit, others=others)


def _general(variant: Variant, sublayers: int) -> tuple[DerivationStep, ...]:
    return constant_coefficients(variant, sublayers).steps


def _block(
    variant: Variant, moments: tuple[Moments, ...], state: dict[Pair, sympy.Expr]
) -> tuple[sympy.Matrix, dict[Pair, sympy.Expr]]:
    matrix, current = sympy.eye(len(state)), dict(state)
    for index, of in enumerate(moments, start=1):
        step = stream_step(variant, of, current, index, len(moments))
        matrix, current = matrix * step.gradients, step.outgoing
    if current["x", "x"] != 1:
        raise NoClosedForm("several streams, of which no norm fixes x: propagated numerically")
    return matrix.applyfunc(sympy.factor), current


def _drift(state: dict[Pair, sympy.Expr], after: dict[Pair, sympy.Expr]) -> dict[sympy.Symbol, sympy.Expr]:
    """Symbol of each stream's moment that grows by a constant a block → that constant."""
    found = {}
    for pair, moment in after.items():
        if pair[0] == pair[1] and state[pair].is_Symbol and moment.has(state[pair]):
            step = sympy.cancel(moment - state[pair])
            if step.free_symbols & {symbol for symbol in state.values() if symbol != 1}:
                raise NoClosedForm("several streams whose moments follow one another: propagated numerically")
            if step != 0:
                found[state[pair]] = step
    return found


def _series(variant: Variant, matrix: sympy.Matrix, ends: sympy.Matrix, slopes: dict[sympy.Symbol, sympy.Expr]) -> Series:
    feeds = []
    for at, pair in enumerate(pairs_of(variant)):
        if at == 0 or ends[at] == 0:
            continue
        if any(entry != 0 for column, entry in enumerate(matrix.row(at)) if column != at):
            raise NoClosedForm("several streams whose gradients feed one another in a ring: propagated numerically")
        if matrix[0, at] != 0:
            power = sum((leading_term(ends[at], symbol)[1] for symbol in slopes), sympy.Integer(0))
            feeds.append(Feed(pair, matrix[at, at], matrix[0, at], ends[at], power))
    if any(matrix[at, 0] != 0 for at in range(1, matrix.rows)):
        raise NoClosedForm("several streams whose gradients feed one another in a ring: propagated numerically")
    return Series(matrix[0, 0], ends[0], tuple(feeds))


def dominant(parts: list[Growth]) -> Growth:
    """Class of a sum: the largest rate, and of those with it the largest exponent, decided once the moments are numbers."""
    best: dict[sympy.Expr, sympy.Expr] = {}
    for part in parts:
        best[part.rate] = sympy.Max(best.get(part.rate, part.exponent), part.exponent)
    if sympy.Integer(1) in best:
        best = {rate: exponent for rate, exponent in best.items() if not _below_one(rate)}
    if len(best) == 1:
        ((rate, exponent),) = best.items()
        return Growth(rate, exponent)
    largest = sympy.Max(*best)
    ordered = sorted(best, key=lambda rate: best[rate], reverse=True)
    cases = [(best[rate], sympy.Eq(rate, largest)) for rate in ordered[:-1]]
    return Growth(largest, sympy.Piecewise(*cases, (best[ordered[-1]], True)))


def _below_one(rate: sympy.Expr) -> bool:
    """Whether a rate is below 1 for all positive moments: 1/rate² − 1 is a sum of positive terms."""
    return sympy.expand(1 / rate**2 - 1).is_positive is True


def _limit(series: Series, slopes: dict[sympy.Symbol, sympy.Expr]) -> sympy.Expr:
    """At layer 0: x's own part, and m·b·g_j(L) with m = L where a factor equals χ = 1."""
    total = series.end
    for feed in series.feeds:
        if feed.factor == series.chi and feed.power == -1:
            ((symbol, slope),) = slopes.items()
            total += feed.share * leading_term(feed.end, symbol)[0] / slope
    return sympy.simplify(total)


def _matrix_steps(
    variant: Variant, matrix: sympy.Matrix, after: dict[Pair, sympy.Expr], ends: sympy.Matrix
) -> tuple[DerivationStep, ...]:
    pairs = pairs_of(variant)
    rows = [
        (
            f"g_{{{a}{b}}}",
            f"g_{a}{b}",
            sum((matrix[at, of] * _name("g", pairs[of]) for of in range(len(pairs))), sympy.Integer(0)),
        )
        for at, (a, b) in enumerate(pairs)
    ]
    return (
        DerivationStep(
            "Streams",
            "Second moments of the streams behind one block of the walk.",
            *formulas(*((f"q_{{{a}{b}}}'", f"q_{a}{b}'", moment) for (a, b), moment in after.items())),
        ),
        DerivationStep(
            "Gradients",
            "Second moments of the streams' gradients before a block from those behind it; the coefficients are the same in all.",
            *formulas(*rows),
        ),
        DerivationStep(
            "At the output",
            "Of the read-out, for a unit gradient.",
            *formulas(*((f"g_{{{a}{b}}}(L)", f"g_{a}{b}(L)", ends[at]) for at, (a, b) in enumerate(pairs))),
        ),
    )


def _name(letter: str, pair: Pair) -> sympy.Symbol:
    return sympy.Symbol(f"{letter}_{pair[0]}{pair[1]}'")


def _lower_bounds(variant: Variant, series: Series, last: dict[sympy.Symbol, sympy.Expr]) -> tuple[DerivationStep, ...]:
    """Streams whose own gradient is handed on unchanged, which bounds x's from below."""
    steps = []
    for feed in series.feeds:
        if feed.pair[0] == feed.pair[1] and feed.factor == 1:
            end, stream = feed.end.subs(last), feed.pair[0]
            bound = feed.share * end * geometric(series.chi, feed.factor)
            steps.append(
                DerivationStep(
                    f"Lower bound from {stream}",
                    f"The gradient at {stream} is the same at every layer; every block's branch hands a share of it to x, and "
                    "all terms are positive. Where χ < 1, x's own part vanishes and this remains, of order 1/L.",
                    *formulas(
                        (rf"E|\partial_{{{stream}_l}}|^2/d", f"E|∂𝓛/∂{stream}_l|²/d", end),
                        (r"E|\partial_{x_l}|^2/d - \text{bound} \ge 0,\ \text{bound}", "E|∂𝓛/∂x_l|²/d is at least", bound),
                    ),
                )
            )
    return tuple(steps)


def _words(series: Series, in_depth: Growth, limit: sympy.Expr | None) -> str:
    if not in_depth.rate.has(sympy.Max):
        end = "" if limit is None else f" At layer 0 the gradient tends to {plain(limit)} as L → ∞."
        return f"In depth at fixed l: {in_depth.describe('L')}.{end}"
    terms = dict.fromkeys(part.describe("L") for part in series.parts if not _below_one(part.rate))
    return f"In depth at fixed l the largest of: {'; '.join(terms)}."


def _prove(points: int = 6) -> int:
    """The series against the recursion, at random rationals for all that stands in it, with equal factors too."""
    draw = random.Random(0)

    def number() -> sympy.Rational:
        return sympy.Rational(draw.randint(1, 10**6), draw.randint(1, 10**6))

    for at in range(points):
        chi, power, steps = number(), sympy.Integer(0), draw.randint(1, 9)
        feeds = tuple(Feed(("r", "r"), chi if at % 2 and not j else number(), number(), number(), power) for j in range(2))
        series = Series(chi, number(), feeds)
        own, others = series.end, [feed.end for feed in feeds]
        for _ in range(steps):
            own = chi * own + sum(feed.share * other for feed, other in zip(feeds, others, strict=True))
            others = [feed.factor * other for feed, other in zip(feeds, others, strict=True)]
        if series.value.subs(blocks, steps) != own:
            raise ArithmeticError(f"closed form {series.value} differs from the recursion's {own} at m={steps}")
    return points
