"""The backward pass of a step with several streams, with the terms of order 1/width that add up from block to block.

They come from streams that a norm fixes at the end of every step, y ↦ N(y) with y = (what x and other streams bring) + βu: the
length of y fluctuates, the norm projects, and W given u hands back a part along the argument (`theory.finite_width`). Streams
that no norm fixes add terms that do not grow with depth; they are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from theory.algebra import Norm, Stream, Streams
from theory.finite_width.gradients import Memory, directions, kept_alignment, mean_of_two, through_branch
from theory.finite_width.lengths import fresh
from theory.finite_width.paths import Paths, paths
from theory.propagation import Backward, Walk
from theory.sublayers.base import Applied, Fluctuations

Array = np.ndarray
Moments = dict[tuple[str, str], Array]


def pinned(targets: Streams) -> tuple[str, ...]:
    """Streams that leave the step behind a norm."""
    return tuple(name for name, node in targets if isinstance(node, Norm))


@dataclass(frozen=True)
class _Fixed:
    """A stream that a norm fixes: its paths, second moments h of the gradient below the norm, and what became of its square.

    Attributes:
        paths: of its update.
        square: factor on the second moments of the gradient as it passes the norm, (tokens, tokens).
        product: the same on products with other streams' gradients, one factor a token, (tokens,).
        below: second moments of h, (tokens, tokens).
    """

    paths: Paths
    square: Array
    product: Array
    below: Array

    @property
    def at_branch(self) -> Array:
        """Squared gradient that h sends into the branch, (tokens,)."""
        return self.paths.beta**2 * np.diagonal(self.below)


def backward(
    step: Walk, gradients: Moments, alignment: dict[str, Array], applied: Applied, fluctuations: Fluctuations, width: int
) -> tuple[Backward, Moments, dict[str, Array]]:
    """Hand the gradients at the outgoing streams down through one step.

    Args:
        step: the walked step.
        gradients: second moments at the outgoing streams, by pair of names, each (tokens, tokens).
        alignment: d · E(g·x)²/(|g|²|x|²) of each stream, (tokens,), as in `Memory`.
        applied, fluctuations: the step's sublayer.
        width: d.

    Returns:
        The gradients at the step's nodes, the second moments at the incoming streams, and their alignment.
    """
    names = [name for name, _ in step.targets]
    fixed = {
        name: _fixed(step, name, gradients[name, name], alignment[name], fluctuations, width) for name in pinned(step.targets)
    }

    def sublayer(_: object, received: Array) -> Array:
        return applied.backward(received) * _through(fixed, received, fluctuations, width)

    result = step.backward(_entering(gradients, fixed), sublayer)
    nothing = np.zeros_like(gradients["x", "x"])  # what a stream's gradient is that nothing has read
    incoming = {pair: nothing + moments for pair, moments in result.incoming(tuple(names)).items()}
    aligned = {name: np.ones(len(nothing)) for name in names}
    for name, of in fixed.items():
        p = of.paths
        shared, beside = through_branch(applied, of.below)
        handed_back = mean_of_two(fluctuations.degree * p.alpha**2 * p.branch_share) * directions(p.direct + p.branch) / width
        incoming[name, name] = incoming[name, name] - (0 if p.of.normalised else 1) * shared * handed_back
        own = np.diagonal(of.below)
        through = p.alpha**2 * own + np.diagonal(applied.backward(np.multiply.outer(p.beta, p.beta) * of.below))
        kept = kept_alignment(p, np.zeros_like(own), fluctuations) * own + p.alpha**2 * p.branch_share * beside
        aligned[name] = np.clip(1 - (through - kept) / np.diagonal(incoming[name, name]), 0.0, 1.0)
    return result, incoming, aligned


def _fixed(step: Walk, name: str, gradient: Array, alignment: Array, fluctuations: Fluctuations, width: int) -> _Fixed:
    p = paths(step, name)
    scatter = fresh(p, fluctuations.length, width)[0] / np.multiply.outer(p.lengths, p.lengths)
    lost = mean_of_two(alignment) * directions(p.direct + p.branch) / width
    square = Memory(alignment, np.full(len(gradient), -1.0), alignment).factor(scatter) - lost
    product = 1 + 3 / 8 * np.diagonal(scatter) - alignment / (2 * width)
    rms = step.root_mean_squares[dict(step.targets)[name]]  # type: ignore[index]
    return _Fixed(p, square, product, gradient * square / np.multiply.outer(rms, rms))


def _entering(gradients: Moments, fixed: dict[str, _Fixed]) -> Moments:
    found = {}
    for (a, b), moments in gradients.items():
        if a == b:
            factor = fixed[a].square if a in fixed else 1.0
        else:
            left, right = (fixed[name].product if name in fixed else np.ones(len(moments)) for name in (a, b))
            factor = np.multiply.outer(left, right)
        found[a, b] = moments * factor
    return found


def _through(fixed: dict[str, _Fixed], received: Array, fluctuations: Fluctuations, width: int) -> Array:
    """What the branch's squared gradient loses: that part of it which comes through a norm is orthogonal to βu and more."""
    total, factor = np.diagonal(received), np.ones_like(received)
    for of in fixed.values():
        p = of.paths
        share = np.divide(of.at_branch, total, out=np.zeros_like(total), where=total > 0)
        along = fluctuations.along * (1 - fluctuations.alignment * p.branch_share)
        lost = fluctuations.conditioned * p.branch_share + (1.0 if p.of.normalised else 1 - along)
        coupled = share * fluctuations.coupling * p.branch_share
        apart = directions(p.direct + p.branch)
        factor = factor - (mean_of_two(coupled) + mean_of_two(share * lost) * apart) / width
    return factor


def at_output(read_out: Walk, streams: tuple[str, ...], tokens: int) -> dict[str, Array]:
    """Alignment of each stream's gradient at the last layer: 0 where the read-out normalises the stream alone."""
    alone = {node.argument for node in read_out.order if isinstance(node, Norm)}
    return {name: np.full(tokens, 0.0 if Stream(name) in alone else 1.0) for name in streams}
