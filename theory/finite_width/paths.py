"""A sublayer step as the two paths of y = αx + βu, u = F(x) or F(N(x)), and whether a norm divides y."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from theory.algebra import Expression, Norm, Stream, Sublayer, walk
from theory.propagation import Walk

Array = np.ndarray


@dataclass(frozen=True)
class Paths:
    """The two paths of a step; second moments (tokens, tokens), coefficients (tokens,).

    Attributes:
        sum: the node y.
        pinned: y is divided by a norm, so that every token leaves at q = 1.
        normalised: a norm divides the stream before F.
        branch_pinned: a norm divides u before it is added.
        alpha, beta: coefficients of x and u.
        stream, direct, branch: second moments of x, of αx and of βu.
    """

    sum: Expression
    pinned: bool
    normalised: bool
    branch_pinned: bool
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


def divided_sum(step: Walk) -> Expression:
    """The node y: what leaves the step, before its outermost norm."""
    target = dict(step.targets)["x"]
    return target.argument if isinstance(target, Norm) else target


def paths(step: Walk) -> Paths:
    """Read a single-stream step; its sum must have been walked."""
    y, node = divided_sum(step), sublayer_node(step.targets)
    form, stream = step.forms[y], step.gram[Stream("x"), Stream("x")]
    ones = np.ones(len(stream))
    alpha, beta = form.get(Stream("x"), 0.0) * ones, form.get(node, 0.0) * ones
    return Paths(
        sum=y,
        pinned=isinstance(dict(step.targets)["x"], Norm),
        normalised=isinstance(node.argument, Norm),
        branch_pinned=any(isinstance(above, Norm) and node in walk(above) for above in walk(y)),
        alpha=alpha,
        beta=beta,
        stream=stream,
        direct=np.multiply.outer(alpha, alpha) * stream,
        branch=np.multiply.outer(beta, beta) * step.gram[node, node],
    )


def sublayer_node(targets: tuple[tuple[str, Expression], ...]) -> Sublayer:
    """The sublayer of a step with these (stream, update) pairs."""
    (node,) = [node for node in walk(*(target for _, target in targets)) if isinstance(node, Sublayer)]
    return node
