"""A sublayer step as the two paths of y = αx + βu, u = F(x) or F(N(x)), and whether a norm divides y.

With several streams one of them is x, and what others add to y counts to the direct path.
A norm that both paths go through, y = αN(x) + βF(N(x)), stands before the step: its x is N(x).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from theory.algebra import Case, Expression, Norm, Scale, Stream, Streams, Sublayer, Sum, Variant, sublayer_node, walk
from theory.propagation import Walk

Array = np.ndarray
TWO_PATHS = "derived for steps αx + βF of one stream, with fresh weights"
"""What `derived` asks for, in words."""


@dataclass(frozen=True)
class Shape:
    """What of the paths stands in the expression alone.

    Attributes:
        sum: the node y.
        sublayer: the node u.
        start: the node x: the stream, or the norm that both paths go through.
        pinned: y is divided by a norm, so that every token leaves at q = 1.
        normalised: a norm divides x before F, or norms inside F divide all that it makes of x.
        branch_pinned: a norm divides u before it is added.
    """

    sum: Expression
    sublayer: Sublayer
    start: Expression
    pinned: bool
    normalised: bool
    branch_pinned: bool

    @property
    def restarted(self) -> bool:
        """Whether a norm stands before the step, so that every token enters it at q = 1."""
        return isinstance(self.start, Norm)


@dataclass(frozen=True)
class Paths:
    """The two paths of a step; second moments (tokens, tokens), coefficients (tokens,).

    Attributes:
        of: their nodes.
        alpha, beta: coefficients of x and u.
        stream, direct, branch: second moments of x, of αx and of βu.
    """

    of: Shape
    alpha: Array
    beta: Array
    stream: Array
    direct: Array
    branch: Array

    @property
    def lengths(self) -> Array:
        """Second moment of each token of y."""
        return np.diagonal(self.direct) + np.diagonal(self.branch)

    @property
    def direct_share(self) -> Array:
        """Share of αx in it."""
        return np.diagonal(self.direct) / self.lengths

    @property
    def branch_share(self) -> Array:
        """Share of βu in it."""
        return np.diagonal(self.branch) / self.lengths


@lru_cache(maxsize=256)
def shape(targets: Streams, stream: str = "x") -> Shape:
    """Read the update of one stream in a step with one sublayer, given as (stream, update) pairs."""
    target = dict(targets)[stream]
    y = target.argument if isinstance(target, Norm) else target
    node = sublayer_node(targets)
    argument = _unscaled(node.argument)
    terms = [_unscaled(term) for term in _terms(y)]
    restarted = isinstance(argument, Norm) and argument in terms and Stream(stream) not in terms
    return Shape(
        sum=y,
        sublayer=node,
        start=argument if restarted else Stream(stream),
        pinned=isinstance(target, Norm),
        normalised=(isinstance(argument, Norm) and not restarted) or _follows_no_length(node),
        branch_pinned=any(isinstance(above, Norm) and node in walk(above) for above in walk(y)),
    )


@lru_cache(maxsize=256)
def derived(variant: Variant) -> bool:
    """Whether every step of a variant is y = αx + βu as here, with one stream and fresh weights.

    Norms inside F need an argument behind a norm, or an attention all of whose output is normalised inside.
    """
    return variant.streams == ("x",) and not variant.tied and all(_two_paths(case) for case in variant.cases)


def _two_paths(case: Case) -> bool:
    of = shape(case.steps)
    node = of.sublayer
    known = (
        not node.inner
        or isinstance(_unscaled(node.argument), Norm)
        or (_follows_no_length(node) and case.sublayer == "attention")
    )
    direct = (_unscaled(term) == of.start or _branch(term) for term in _terms(of.sum))
    return known and _stream(node.argument, normed=True) and all(direct)


def _follows_no_length(node: Sublayer) -> bool:
    """Whether norms inside attention make it F(tx) = F(x)."""
    inner = dict(node.inner)
    return {"query", "key"} <= inner.keys() and not inner.keys().isdisjoint({"value", "middle"})


def _terms(node: Expression) -> tuple[Expression, ...]:
    return node.terms if isinstance(node, Sum) else (node,)


def _stream(node: Expression, normed: bool = False) -> bool:
    node = _unscaled(node)
    return node == Stream("x") or (normed and isinstance(node, Norm) and _stream(node.argument))


def _branch(node: Expression) -> bool:
    node = _unscaled(node)
    return isinstance(node, Sublayer) or (isinstance(node, Norm) and isinstance(_unscaled(node.argument), Sublayer))


def _unscaled(node: Expression) -> Expression:
    return _unscaled(node.argument) if isinstance(node, Scale) else node


def paths(step: Walk, name: str = "x") -> Paths:
    """The paths of one stream's update in a step whose sum has been walked."""
    of = shape(step.targets, name)
    form, stream = step.forms[of.sum], step.gram[Stream(name), Stream(name)]
    ones = np.ones(len(stream))
    if isinstance(of.start, Norm):
        ones, stream = step.root_mean_squares[of.start] * ones, step.moment_of(of.start)
    alpha, beta = form.get(Stream(name), 0.0) * ones, form.get(of.sublayer, 0.0) * np.ones(len(stream))
    return Paths(
        of=of,
        alpha=alpha,
        beta=beta,
        stream=stream,
        direct=_direct(step, of, name) if form.keys() - {Stream(name), of.sublayer} else np.multiply.outer(alpha, alpha) * stream,
        branch=np.multiply.outer(beta, beta) * step.gram[of.sublayer, of.sublayer],
    )


def _direct(step: Walk, of: Shape, name: str) -> Array:
    """Second moments of all that reaches y beside βu, from several streams."""
    beside = {source: value for source, value in step.forms[of.sum].items() if source != of.sublayer}
    return step.moment(beside) + np.zeros_like(step.gram[Stream(name), Stream(name)])
