"""Streams that start equal and stay equal (hyper-connections): their common value is the stream of a single-stream variant.

Written with one stream in place of all, every update is the same expression. So the streams' values are that variant's,
exactly, and by the chain rule along equal streams the sum of their gradients is its gradient. What the read stream itself
holds of the sum: with each stream handed on to one other, a stream is read once in every n steps, and between two readings its
gradient does not change.
"""

from __future__ import annotations

import random
from functools import lru_cache

import sympy

from theory.algebra import Case, Expression, Matched, Norm, Pointwise, Scale, Stream, Sublayer, Sum, Variant, sublayer_node, walk
from theory.errors import NoClosedForm
from theory.laws.asymptotics import plain
from theory.laws.closed import layer, q0
from theory.laws.law import Law, derive
from theory.laws.limits import leading_term
from theory.laws.recursion import q
from theory.laws.solved import Solved, class_step
from theory.laws.steps import DerivationStep, formula

rounds = sympy.Symbol("R", integer=True, positive=True)
"""(L − l)/n."""


def merged_variant(variant: Variant) -> Variant:
    """The single-stream variant that equal streams are.

    Raises:
        NoClosedForm: the updates differ once all streams are called x, or the streams start differently.
    """
    if len(variant.cases) != 1 or len(variant.streams) == 1 or variant.tied or len({node for _, node in variant.start}) > 1:
        raise NoClosedForm("several streams that do not start equal")
    updates = [as_one(node) for _, node in variant.cases[0].steps]
    if any(_terms(node) != _terms(updates[0]) for node in updates):
        raise NoClosedForm("several streams that do not stay equal")
    return Variant(
        name=f"{variant.name}-merged",
        update=(Case(updates[0]),),
        read_out=as_one(variant.read_out),
        constants=variant.formulas,
        gain=variant.gain,
        source=f"all streams of {variant.name} called x",
    )


def as_one(node: Expression) -> Expression:
    """The expression with every stream called x."""
    match node:
        case Stream():
            return Stream("x")
        case Sublayer(argument, inner):
            return Sublayer(as_one(argument), inner)
        case Norm(argument, kind):
            return Norm(as_one(argument), kind)
        case Pointwise(argument, function):
            return Pointwise(as_one(argument), function)
        case Matched(argument, reference):
            return Matched(as_one(argument), as_one(reference))
        case Scale(coefficient, argument):
            return Scale(coefficient, as_one(argument))
        case Sum(terms):
            return Sum(tuple(as_one(term) for term in terms))
    raise TypeError(f"no merging of {type(node).__name__}")


def _terms(node: Expression) -> frozenset[Expression]:
    return frozenset(node.terms if isinstance(node, Sum) else (node,))


def ring_length(variant: Variant) -> int:
    """After how many steps a stream that has been read is read again; each stream is handed on, unscaled, to one other.

    Raises:
        NoClosedForm: the streams do not form a ring, or the branch reads more than x.
    """
    steps = variant.cases[0].steps
    handed = {term.name: name for name, node in steps for term in _terms(node) if isinstance(term, Stream)}
    read = {node.name for node in walk(sublayer_node(steps)) if isinstance(node, Stream)}
    at, length = handed.get("x"), 1
    while at not in (None, "x") and length <= len(steps):
        at, length = handed.get(at), length + 1
    if at != "x" or length != len(steps) or read != {"x"} or any(len(_terms(node)) != 2 for _, node in steps):
        raise NoClosedForm("several streams that are not handed on in a ring: propagated numerically")
    return length


@lru_cache(maxsize=64)
def equal_streams(variant: Variant, sublayers: int = 1, homogeneous: bool = True) -> Solved:
    """The law of a variant whose streams stay equal and are handed on in a ring.

    Raises:
        NoClosedForm: the streams differ, or the merged variant has no law.
        ArithmeticError: closed form and recursion differ (a bug).
    """
    law = derive(merged_variant(variant), sublayers, homogeneous)
    length = ring_length(variant)
    if leading_term(law.backward, q) != (1, 0):
        raise NoClosedForm("several streams whose branch does not fade: propagated numerically")
    in_depth, across = law.growth_in_depth(), law.growth_in_layer()
    stream = law.stream
    gradient = None
    steps = [
        DerivationStep(
            "Equal streams",
            "With one stream in place of all, every update is the same expression; the streams start equal, so they stay equal. "
            "By the chain rule the sum of their gradients is the gradient of this single-stream variant.",
            law.variant.latex,
            law.variant.equation,
        ),
        DerivationStep("Stream", "Of the single-stream variant.", *formula("q_l", stream, "q_l")),
        DerivationStep(
            "Sum of the gradients",
            "Law of the single-stream variant.",
            *formula(r"E\Big|\sum_s \partial\mathcal{L}/\partial x^{(s)}_l\Big|^2/d", law.gradient, "E|Σ_s ∂𝓛/∂x^(s)_l|²/d"),
        ),
    ]
    if sublayers == 1:
        read, closed = _read_stream(law, length)
        gradient = closed
        steps += [
            DerivationStep(
                "Read stream",
                f"x receives J_Fᵀ of that sum when it is read, and is handed on unchanged until it is read again {length} steps "
                "later; readings are uncorrelated.",
                rf"g_l - g_{{l+{length}}} = {sympy.latex(read)}",
                f"g_l − g_(l+{length}) = (χ_l − 1)·E|Σ_s ∂_(l+1)|²/d; for κ² = s²: {plain(read)}",
            ),
            DerivationStep(
                "Homogeneous sublayers",
                f"κ² = s²: summed over the R = (L − l)/{length} readings, where that is whole, with ψ(x + 1) = ψ(x) + 1/x.",
                *formula(r"E\left|\partial\mathcal{L}/\partial x_l\right|^2/d", closed, "E|∂𝓛/∂x_l|²/d"),
            ),
            DerivationStep("Proof", "The sum agrees exactly with the recursion over all streams at random rational points."),
        ]
    steps.append(
        DerivationStep(
            "Share of the read stream",
            f"1/{length} of the sum's square far below the output: same class.",
        )
    )
    steps.append(class_step(in_depth, across, law.growth_of_stream(), law.homogeneous))
    others = tuple((name, law.growth_of_stream()) for name in variant.streams if name != "x")
    return Solved(law.moments, gradient, in_depth, across, law.growth_of_stream(), tuple(steps), others=others)


def _read_stream(law: Law, length: int) -> tuple[sympy.Expr, sympy.Expr]:
    """What one reading adds for κ² = s², and the sum over R readings with the last gradient 1/(n²q_L)."""
    values = law.homogeneous
    above = law.gradient_at(values).subs(layer, layer + 1)
    added = sympy.factor(((law.backward - 1).subs(q, law.stream) * above).subs(values))
    slope = sympy.expand(law.stream).coeff(layer)
    if added.has(sympy.gamma) or not added.is_rational_function(layer):
        raise NoClosedForm("several streams whose readings have no sum in closed form")
    moved = added.subs(layer, layer + length * sympy.Symbol("r"))
    total = sympy.Integer(0)
    for part in sympy.Add.make_args(sympy.apart(moved, sympy.Symbol("r"))):
        inverse = sympy.Poly(sympy.cancel(1 / part), sympy.Symbol("r"))
        if inverse.degree() != 1:
            raise NoClosedForm("several streams whose readings have no sum in closed form")
        rate, offset = inverse.all_coeffs()
        shift = sympy.cancel(offset / rate)
        total += (sympy.digamma(rounds + shift) - sympy.digamma(shift)) / rate
    last = law.stream.subs(layer, layer + length * rounds)
    closed = 1 / (length**2 * last) + total
    _prove(law, length, closed, slope)
    return added, closed


def _prove(law: Law, length: int, closed: sympy.Expr, slope: sympy.Expr, points: int = 4) -> None:
    """Against the ring's recursion on the streams' gradients; fresh parts are uncorrelated, so each has an entry of its own."""
    draw = random.Random(0)
    (moments,) = law.moments
    for _ in range(points):
        square, start = (sympy.Rational(draw.randint(1, 99), draw.randint(1, 99)) for _ in range(2))
        readings, first = draw.randint(1, 4), draw.randint(0, 3)
        total = first + length * readings
        stream = [start + slope.subs(moments.square, square) * at for at in range(total + 1)]
        # Gradients over independent sources: the output's direction, and one source for each reading.
        at_output = 1 / (length**2 * stream[total])
        streams = [{"output": sympy.Integer(1)} for _ in range(length)]  # coefficients; squares of the sources below
        sources = {"output": at_output}
        for at in range(total - 1, first - 1, -1):
            summed: dict[str, sympy.Expr] = {}
            for one in streams:
                for source, value in one.items():
                    summed[source] = summed.get(source, sympy.Integer(0)) + value
            size = sum(value**2 * sources[source] for source, value in summed.items())
            sources[f"J{at}"] = square / stream[at] * size
            streams = [streams[-1] | {f"J{at}": sympy.Integer(1)}, *streams[:-1]]  # x goes to h3, h1 to x, …
        found = sum(value**2 * sources[source] for source, value in streams[0].items())
        point = {moments.square: square, q0: start, layer: first, rounds: readings}
        value = closed.replace(sympy.polygamma, lambda _, at: _held(at)).subs(point).replace(_held, _digamma)
        if sympy.expand(value - found) != 0:
            raise ArithmeticError(f"closed form {value} differs from the recursion's {found} at l={first}, L={total}")


_held = sympy.Function("psi")
"""ψ that sympy does not evaluate."""


def _digamma(at: sympy.Rational) -> sympy.Expr:
    """ψ reduced to its argument's fractional part in (0, 1], so that differences of ψ cancel exactly."""
    below, total = at, sympy.Integer(0)
    while below > 1:
        below -= 1
        total += 1 / below
    return sympy.Symbol(f"psi[{below}]") + total
