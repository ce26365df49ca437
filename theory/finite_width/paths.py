"""A sublayer step as the two paths of y = αx + βu, u = F(x) or F(N(x)), and whether a norm divides y."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from theory.algebra import Expression, Norm, Stream, Sublayer, walk
from theory.propagation import Walk

Array = np.ndarray


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
def shape(targets: tuple[tuple[str, Expression], ...]) -> Shape:
    """Read the update of a step with one stream x and one sublayer, as (stream, update) pairs."""
    target = dict(targets)["x"]
    y = target.argument if isinstance(target, Norm) else target
    node = sublayer_node(targets)
    return Shape(
        sum=y,
        sublayer=node,
        pinned=isinstance(target, Norm),
        normalised=isinstance(node.argument, Norm),
        branch_pinned=any(isinstance(above, Norm) and node in walk(above) for above in walk(y)),
    )


@lru_cache(maxsize=256)
def sublayer_node(targets: tuple[tuple[str, Expression], ...]) -> Sublayer:
    """The sublayer of a step with these (stream, update) pairs."""
    (node,) = [node for node in walk(*(target for _, target in targets)) if isinstance(node, Sublayer)]
    return node


def paths(step: Walk) -> Paths:
    """The paths of a single-stream step whose sum has been walked."""
    of = shape(step.targets)
    form, stream = step.forms[of.sum], step.gram[Stream("x"), Stream("x")]
    ones = np.ones(len(stream))
    alpha, beta = form.get(Stream("x"), 0.0) * ones, form.get(of.sublayer, 0.0) * ones
    return Paths(
        of=of,
        alpha=alpha,
        beta=beta,
        stream=stream,
        direct=np.multiply.outer(alpha, alpha) * stream,
        branch=np.multiply.outer(beta, beta) * step.gram[of.sublayer, of.sublayer],
    )
