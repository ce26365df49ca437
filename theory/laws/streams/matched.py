"""A stream that is the norm of another (Admin): x_l = LN(y_l), and ω, detached, gives it y's root mean square back.

Forward ω·x is y itself, so y is the stream of the variant with y in place of ω·x and LN(y) in place of x: Pre-LN, for Admin.
Backward x's gradient is that variant's at y, times the root mean square of y that the norm divides by and ω multiplies with.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import sympy

from theory.algebra import Case, Expression, Matched, Norm, Scale, Stream, Sublayer, Sum, Variant
from theory.errors import NoClosedForm
from theory.laws.asymptotics import FLAT
from theory.laws.closed import depth, layer
from theory.laws.law import Law, derive
from theory.laws.recursion import Moments, generic_moments, q
from theory.laws.solved import Solved, class_step
from theory.laws.steps import DerivationStep, formula, formulas
from theory.laws.streams.step import entering, pairs_of, stream_step, symmetric


@dataclass(frozen=True)
class Partner:
    """The single-stream variant, and the name of its stream in the original."""

    variant: Variant
    stream: str


def partner(variant: Variant) -> Partner:
    """The variant whose stream is y.

    Raises:
        NoClosedForm: no stream x that is the norm of another one, or one whose read-out is not x.
    """
    if len(variant.cases) != 1 or variant.tied or variant.read_out != Stream("x"):
        raise NoClosedForm("several streams, none of which is the norm of another")
    steps = dict(variant.cases[0].steps)
    for name, node in steps.items():
        if steps["x"] == Norm(node, "layer") or steps["x"] == Norm(node, "rms"):
            norm = steps["x"]
            assert isinstance(norm, Norm)
            value = _replaced(node, name, norm.kind)
            if any(isinstance(part, Stream) and part.name not in ("x",) for part in _streams(value)):
                raise NoClosedForm("several streams, none of which is the norm of another")
            single = Variant(
                name=f"{variant.name}-partner",
                update=(Case(value),),
                read_out=Norm(Stream("x"), norm.kind),
                constants=variant.formulas,
                gain=variant.gain,
                source=f"{variant.name} with its stream {name} in place of ω·x, renamed x",
            )
            return Partner(single, name)
    raise NoClosedForm("several streams, none of which is the norm of another")


def _replaced(node: Expression, name: str, kind: str) -> Expression:
    """y's update with ω·x = y and x = LN(y), y called x."""
    if node == Matched(Stream("x"), Stream(name)):
        return Stream("x")
    match node:
        case Stream("x"):
            return Norm(Stream("x"), kind)  # type: ignore[arg-type]
        case Stream():
            return Stream("x") if node.name == name else node
        case Sublayer(argument, inner):
            return Sublayer(_replaced(argument, name, kind), inner)
        case Norm(argument, own):
            return Norm(_replaced(argument, name, kind), own)
        case Scale(coefficient, argument):
            return Scale(coefficient, _replaced(argument, name, kind))
        case Sum(terms):
            return Sum(tuple(_replaced(term, name, kind) for term in terms))
    raise NoClosedForm(f"{type(node).__name__} in a stream that is the norm of another")


def _streams(node: Expression) -> list[Expression]:
    return [node, *(part for child in node.children for part in _streams(child))]


@lru_cache(maxsize=64)
def norm_of_another(variant: Variant, sublayers: int = 1, homogeneous: bool = True) -> Solved:
    """The law of a variant with x = LN(y), from its partner's.

    Raises:
        NoClosedForm: no such stream, or the partner has no law.
        ArithmeticError: the two walks differ (a bug).
    """
    found = partner(variant)
    law = derive(found.variant, sublayers, homogeneous)
    walks = _compare(variant, found.stream, law)
    growth = law.growth_of_stream()
    in_depth = law.growth_in_depth()
    across = law.growth_in_layer().times(growth)
    gradient = law.stream * law.gradient
    special = sympy.factor(law.stream * law.gradient_at(law.homogeneous)).subs(law.homogeneous)
    name = found.stream
    steps = (
        DerivationStep(
            "Partner",
            f"x = LN({name}) after every step and ω·x has {name}'s root mean square, so ω·x = {name}. With {name} called x:",
            found.variant.latex,
            found.variant.equation,
        ),
        DerivationStep(
            "Both walks, forward",
            f"From E|x|²/d = 1, x·{name}/d = √q, E|{name}|²/d = q the walk of {variant.name} comes back to the same form, with "
            "the partner's q'.",
            *formulas(*(("q'", "q'", walk.forward) for walk in walks)),
        ),
        DerivationStep(
            "Both walks, backward",
            "x's gain is the partner's times q/q': the norm divides by √q', and ω multiplies by √q. No gradient reaches y but "
            "through x.",
            *formulas(*((r"\chi_x", "χ_x", walk.backward) for walk in walks)),
        ),
        DerivationStep(
            "Law",
            "So x's squared gradient is the partner's, behind its final norm, times q_l: exactly the same network seen at LN(y).",
            *formula(r"E\left|\partial\mathcal{L}/\partial x_l\right|^2/d", gradient, "E|∂𝓛/∂x_l|²/d"),
        ),
        DerivationStep(
            "Homogeneous sublayers",
            "κ² = s²: flat in L and across the layers.",
            *formula(r"E|\partial_{x_l}|^2/d", special, "E|∂𝓛/∂x_l|²/d"),
        ),
        DerivationStep("Proof", "Both walks agree as rational functions; the partner's law is proved against its recursion."),
        class_step(in_depth, across, growth, law.homogeneous),
    )
    assert not special.has(depth, layer) or not homogeneous
    return Solved(law.moments, gradient, in_depth, across, FLAT, steps, others=((name, growth),))


@dataclass(frozen=True)
class Compared:
    """One sublayer's step as both walks give it."""

    forward: sympy.Expr
    backward: sympy.Expr


def _compare(variant: Variant, name: str, law: Law) -> list[Compared]:
    moments: tuple[Moments, ...] = generic_moments(len(law.steps), law.moments[0].homogeneous)
    start = {("x", "x"): sympy.Integer(1), ("x", name): sympy.sqrt(q), (name, name): q}
    state = entering(variant, {pair: start.get(pair, start.get(pair[::-1])) for pair in pairs_of(variant)})
    found = []
    for index, (of, partner_step) in enumerate(zip(moments, law.steps, strict=True), start=1):
        step = stream_step(variant, of, state, index, len(moments))
        after = step.outgoing[name, name]
        cross = symmetric(step.outgoing)["x", name]
        gain = step.gradients[pairs_of(variant).index(("x", "x")), pairs_of(variant).index(("x", "x"))]
        same = (
            sympy.cancel(after - partner_step.forward) == 0
            and step.outgoing["x", "x"] == 1
            and sympy.simplify(cross**2 - after) == 0
            and sympy.cancel(gain - partner_step.backward * q / partner_step.forward) == 0
        )
        if not same:
            raise ArithmeticError(f"the walks of {variant.name} and its partner differ: {step.outgoing}, {gain}")
        found.append(Compared(after, gain))
    return found
