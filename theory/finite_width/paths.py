"""A sublayer step as the two paths of y = αx + βu, u = F(x) or F(N(x)), and whether a norm divides y.

With several streams one of them is x, and what others add to y counts to the direct path.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from theory.algebra import Expression, Norm, Scale, Stream, Streams, Sublayer, Sum, Variant, walk
from theory.propagation import Walk

Array = np.ndarray
TWO_PATHS = "derived for steps αx + βF of one stream, with fresh weights and no norm inside F"
"""What `derived` asks for, in words."""


@dataclass(frozen=True)
class Shape:
    """What of the paths stands in the expression alone.

    Attributes:
        sum: the node y.
        sublayer: the node u.
        pinned: y is divided by a norm, so that every token leaves at q = 1.
        normalised: a norm divides the stream before F.
        branch_pinned: a norm divides u before it is added.
    """

    sum: Expression
    sublayer: Sublayer
    pinned: bool
    normalised: bool
    branch_pinned: bool


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
    return Shape(
        sum=y,
        sublayer=node,
        pinned=isinstance(target, Norm),
        normalised=isinstance(_unscaled(node.argument), Norm),
        branch_pinned=any(isinstance(above, Norm) and node in walk(above) for above in walk(y)),
    )


@lru_cache(maxsize=256)
def derived(variant: Variant) -> bool:
    """Whether every step of a variant is y = αx + βu as here, with one stream, fresh weights and no norm inside the sublayer."""
    return (
        variant.streams == ("x",)
        and not variant.tied
        and all(_two_paths(case.steps) for case in variant.cases)
        and not any(node.inner for case in variant.cases for node in [sublayer_node(case.steps)])
    )


def _two_paths(steps: Streams) -> bool:
    of = shape(steps)
    terms = of.sum.terms if isinstance(of.sum, Sum) else (of.sum,)
    return _stream(of.sublayer.argument, normed=True) and all(_stream(term) or _branch(term) for term in terms)


def _stream(node: Expression, normed: bool = False) -> bool:
    node = _unscaled(node)
    return node == Stream("x") or (normed and isinstance(node, Norm) and _stream(node.argument))


def _branch(node: Expression) -> bool:
    node = _unscaled(node)
    return isinstance(node, Sublayer) or (isinstance(node, Norm) and isinstance(_unscaled(node.argument), Sublayer))


def _unscaled(node: Expression) -> Expression:
    return _unscaled(node.argument) if isinstance(node, Scale) else node


@lru_cache(maxsize=256)
def sublayer_node(targets: Streams) -> Sublayer:
    """The sublayer of a step with these (stream, update) pairs."""
    (node,) = [node for node in walk(*(target for _, target in targets)) if isinstance(node, Sublayer)]
    return node


def paths(step: Walk, name: str = "x") -> Paths:
    """The paths of one stream's update in a step whose sum has been walked."""
    of = shape(step.targets, name)
    form, stream = step.forms[of.sum], step.gram[Stream(name), Stream(name)]
    ones = np.ones(len(stream))
    alpha, beta = form.get(Stream(name), 0.0) * ones, form.get(of.sublayer, 0.0) * ones
    return Paths(
        of=of,
        alpha=alpha,
        beta=beta,
        stream=stream,
        direct=step.moment({source: value for source, value in form.items() if source != of.sublayer}) + np.zeros_like(stream),
        branch=np.multiply.outer(beta, beta) * step.gram[of.sublayer, of.sublayer],
    )
