"""The step of a single-stream variant as symbolic recursions, read off the walk of its expression.

A block with k sublayers is k steps. Each sublayer enters by its forward moment s² and its backward gain κ² at a
normalised input; behind an argument that is not normalised they scale with q for a homogeneous sublayer, and have
no closed form otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy

from theory.algebra import Pointwise, Position, Scale, Streams, Variant, i, k, l, sublayer_node, walk
from theory.errors import NoClosedForm
from theory.propagation import Symbols, Walk

q = sympy.Symbol("q", positive=True)
"""Second moment per coordinate of the stream that enters the step."""


@dataclass(frozen=True)
class Moments:
    """Symbols of one token-wise sublayer: s² and κ² at a normalised input, with the norms inside it.

    ``homogeneous``: whether F(tx) = tF(x) without those; F(tx) = F(x) with a norm in its middle.
    """

    square: sympy.Symbol
    gain: sympy.Symbol
    homogeneous: bool
    inner: tuple[tuple[str, str], ...] = ()

    @property
    def degree(self) -> int:
        """p in F(tx) = t^p F(x) of a homogeneous sublayer."""
        return 0 if "middle" in dict(self.inner) else 1


def generic_moments(count: int = 1, homogeneous: bool = True) -> tuple[Moments, ...]:
    """Moments of ``count`` sublayers: s², κ² for one, s_1², κ_1², … for several."""
    indices = [""] if count == 1 else [f"_{i}" for i in range(1, count + 1)]
    return tuple(
        Moments(
            sympy.Symbol(f"s{i}^2", positive=True),
            sympy.Symbol(rf"\kappa{i}^2", positive=True),
            homogeneous,
        )
        for i in indices
    )


@dataclass(frozen=True)
class Step:
    """One sublayer step: q ↦ ``forward``, squared gradient × ``backward``, and the intermediate moments.

    Where a norm fixes the stream, q = 1 has been put in already.
    """

    forward: sympy.Expr
    backward: sympy.Expr
    moments: tuple[tuple[Any, sympy.Expr], ...]
    direct: sympy.Expr
    """Coefficient a of the direct path in J = a·1 + b·J_F."""
    branch: sympy.Expr
    """Coefficient b of the branch, so that the step's gain is a² + b²κ²."""
    response: sympy.Expr
    """E|δx'|²/d per δ² when F's output is perturbed by the relative variance δ²."""


def symbolic_step(variant: Variant, moments: Moments, index: int = 1, count: int = 1) -> Step:
    """Walk the update of a single-stream variant with sympy, for token-wise sublayer ``index`` of ``count``.

    Raises:
        NoClosedForm: what `repeated_steps` refuses, or a non-homogeneous sublayer behind an argument that no norm has fixed.
    """
    place = Position(1, 1, index, count)
    return single_stream_step(repeated_steps(variant, place), place, moments)


def single_stream_step(steps: Streams, place: Position, moments: Moments) -> Step:
    """Walk one update of the stream x with sympy; its coefficients may follow the block l and the depth L.

    Raises:
        NoClosedForm: a non-homogeneous sublayer behind an argument that no norm has fixed.
    """
    entering = sympy.Integer(1) if fixed_by_norm(steps, place) else q
    step = Walk(steps, {("x", "x"): entering}, Symbols(), at_place(place), lambda _, m: _forward(m, moments))
    gradient = sympy.Symbol("g", positive=True)
    result = step.backward({("x", "x"): gradient}, lambda m, g: _gain(m, moments) * g)
    gain = Symbols().tidy(result.incoming(("x",))["x", "x"] / gradient)
    form = result.form("x")
    branches = [value for source, value in form.items() if source[0] == "J"]
    branch = sublayer_node(steps)
    return Step(
        forward=step.outgoing()["x", "x"],
        backward=gain,
        moments=tuple(step.moments.items()),
        direct=form.get(("∂", "x"), sympy.Integer(0)),
        branch=_above(step, result) * branches[0],
        response=Symbols().tidy(_above(step, result) ** 2 * step.gram[branch, branch]),
    )


def repeated_steps(variant: Variant, place: Position) -> Streams:
    """The update of one sublayer of a single-stream variant, the same in every block.

    Raises:
        NoClosedForm: several streams, shared weights, placements or constants that change from block to block, a pointwise
            function.
    """
    steps = same_placement(variant, place, inner=True)
    nodes = walk(*(node for _, node in steps), variant.read_out)
    coefficients = [node.coefficient for node in nodes if isinstance(node, Scale)]
    if any(l in formula.free_symbols for formula in (*coefficients, *(formula for _, formula in variant.formulas))):
        raise NoClosedForm("constants that change from block to block")
    return steps


def same_placement(variant: Variant, place: Position, inner: bool = False) -> Streams:
    """The update of one sublayer of a single-stream variant, of the same form in every block; its constants may change.

    Raises:
        NoClosedForm: what `single_stream` refuses, and placements that change from block to block.
    """
    steps = variant.fixed_steps(place.kind, place.index, place.count)
    single_stream(variant, steps or (), inner)
    if steps is None:
        raise NoClosedForm("placements that change from block to block")
    return steps


def single_stream(variant: Variant, steps: Streams, inner: bool = False) -> None:
    """Refuse updates that are no plain walk of one stream.

    Raises:
        NoClosedForm: several streams, shared weights, a pointwise function, norms inside the sublayer unless ``inner``.
    """
    if len(variant.streams) > 1:
        raise NoClosedForm("several streams: their gradients form a second-moment matrix, propagated numerically")
    if variant.tied:
        raise NoClosedForm("all blocks share one block's weights, so their outputs are correlated")
    nodes = list(walk(*(node for _, node in steps), variant.read_out))
    if any(isinstance(node, Pointwise) for node in nodes):
        raise NoClosedForm("a pointwise function in place of a norm: its moments follow the stream's length")
    if steps and not inner and sublayer_node(steps).inner:
        raise NoClosedForm("norms inside the sublayer")


def fixed_by_norm(steps: Streams, place: Position) -> bool:
    """Whether the stream leaves every step at q = 1 whatever enters, so that it can be taken to enter at q = 1."""
    anything = sympy.Symbol("F2", positive=True)
    step = Walk(steps, {("x", "x"): q}, Symbols(), at_place(place), lambda *_: anything)
    return bool(step.outgoing()["x", "x"] == 1)


def at_place(place: Position) -> Callable[[sympy.Expr], sympy.Expr]:
    """A coefficient with i and k put in; constants stay symbols."""
    return lambda formula: formula.subs({i: place.index, k: place.count})


def _above(step: Walk, result: Any) -> sympy.Expr:
    """What scales the gradient at the step's output on its way to F."""
    return result.forms[sublayer_node(step.targets)].get(("∂", "x"), sympy.Integer(0))


def read_out_gain(variant: Variant) -> sympy.Expr:
    """Squared gain of the read-out's Jacobian, as a function of q = q_L."""
    step = Walk((("y", variant.read_out),), {("x", "x"): q}, Symbols(), lambda formula: formula, _none)
    gradient = sympy.Symbol("g", positive=True)
    return Symbols().tidy(step.backward({("y", "y"): gradient}, _none).incoming(("x",))["x", "x"] / gradient)


def _none(*_: Any) -> sympy.Expr:
    raise AssertionError("a read-out holds no sublayer")


def _forward(moment: sympy.Expr, moments: Moments) -> sympy.Expr:
    if moment == 1:
        return moments.square
    _require_homogeneous(moments)
    return moments.square * moment**moments.degree


def _gain(moment: sympy.Expr, moments: Moments) -> sympy.Expr:
    if moment == 1:
        return moments.gain
    _require_homogeneous(moments)
    return moments.gain * moment ** (moments.degree - 1)


def _require_homogeneous(moments: Moments) -> None:
    if not moments.homogeneous:
        raise NoClosedForm("the sublayer is not homogeneous and no norm fixes its input, so s²(q) and κ²(q) follow the stream")
