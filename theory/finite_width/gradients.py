"""The backward pass of one step with its terms of first order in 1/width."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from theory.algebra import Norm, walk
from theory.finite_width.lengths import fresh
from theory.finite_width.paths import Paths, paths
from theory.pairs import cosines
from theory.propagation import Backward, Walk
from theory.sublayers.base import Applied, Fluctuations

Array = np.ndarray


@dataclass(frozen=True)
class Memory:
    """What a gradient remembers of the stream it belongs to, each (tokens,).

    Attributes:
        alignment: d · E(g·x)²/(|g|²|x|²): 1 for independent directions, 0 behind a norm.
        response: d log E|g|²/d log |x|²: how the gain above follows the stream's length, −1 where a norm divides by it.
        scatter: Var log|g|² over networks at given |x|².
    """

    alignment: Array
    response: Array
    scatter: Array

    @classmethod
    def at_output(cls, read_out: Walk, tokens: int, width: int) -> Memory:
        """At the last layer: |g|² of a Gaussian gradient scatters by 2/d."""
        scatter = np.full(tokens, 2 / width)
        return cls.behind_norm(scatter) if _normalises(read_out) else cls(np.ones(tokens), np.zeros(tokens), scatter)

    @classmethod
    def behind_norm(cls, scatter: Array) -> Memory:
        """Of a gradient at what a norm divides."""
        return cls(np.zeros_like(scatter), np.full_like(scatter, -1.0), scatter)

    def factor(self, covariance: Array) -> Array:
        """E (1+ξ_i)^{S_i/2} (1+ξ_j)^{S_j/2} of each pair of tokens, ξ the relative scatter of their squared lengths.

        To second order; 1 + S(S−1)/2 V for one token.
        """
        half = self.response / 2
        own = half * (half - 1) / 2 * np.diagonal(covariance)
        return 1 + np.add.outer(own, own) + np.multiply.outer(half, half) * covariance

    def variance(self, relative_variance: Array) -> Array:
        """Var log|g|² of each token over networks, |x|² being of this relative variance."""
        return self.scatter + self.response**2 * relative_variance


def output_factor(read_out: Walk, width: int) -> float:
    """A normalising read-out projects the stream's direction out of the gradient."""
    return 1 - 1 / width if _normalises(read_out) else 1.0


def _normalises(read_out: Walk) -> bool:
    return any(isinstance(node, Norm) for node in walk(*(target for _, target in read_out.targets)))


def backward(
    step: Walk, gradient: Array, memory: Memory, applied: Applied, fluctuations: Fluctuations, width: int
) -> tuple[Backward, Array, Memory, dict[str, float]]:
    """Hand the gradient at the outgoing stream down through one step.

    Args:
        step: the walked step of a single-stream variant.
        gradient: second moments at the outgoing stream, (tokens, tokens).
        memory: of that gradient.
        applied, fluctuations: the step's sublayer.
        width: d.

    Returns:
        The gradients at the step's nodes, the second moments at the incoming stream and their memory, and a factor on the
        squared gradient of each of the sublayer's matrices.
    """
    p = paths(step)
    response = np.full(len(gradient), -1.0) if p.of.pinned else memory.response
    apart = directions(p.direct + p.branch)
    covariance = fresh(p, fluctuations.length, width)[0] / np.multiply.outer(p.lengths, p.lengths)
    entering = replace(memory, response=response).factor(covariance)
    entering = entering - mean_of_two(memory.alignment) * apart / width if p.of.pinned else entering
    alignment = np.zeros_like(memory.alignment) if p.of.pinned else memory.alignment
    tied = (1 - alignment) * p.branch_share  # E(h·u)² = |h|²|u|²/d · (1 − tied): less than by chance
    if p.of.branch_pinned:
        tied = np.ones_like(tied)  # a norm behind F leaves nothing along u
    branch, parameters = _below(p, response, tied, fluctuations, width)

    result = step.backward({("x", "x"): gradient * entering}, lambda _, g: applied.backward(g) * branch)
    at_sum = result.moment(p.of.sum)
    incoming = result.moment(p.of.start)
    shared, rest = through_branch(applied, at_sum)
    own = np.diagonal(at_sum)
    kept = p.alpha**2 * own / np.diagonal(incoming)
    added = (4 * kept + fluctuations.gradient * (1 - kept)) * (1 - kept)
    together = 2 * response * fluctuations.coupling * p.branch_share * (1 - kept)
    scatter = memory.scatter + response**2 * np.diagonal(covariance) + (added + together) / width
    if p.of.normalised:
        through = p.alpha**2 * own
        aligned = p.alpha**2 * (1 - (1 - alignment) * p.direct_share) * own
        response = response * p.direct_share - 1 + through / np.diagonal(incoming)
    else:
        incoming = incoming - shared * mean_of_two(fluctuations.degree * p.alpha**2 * tied) * apart / width
        straying = p.alpha**2 * tied - alignment * np.diagonal(p.branch) / np.diagonal(p.stream)
        aligned = kept_alignment(p, alignment, fluctuations) * own + straying * rest
        response = response * (p.direct_share + fluctuations.degree * p.branch_share)
    below = Memory(aligned / np.diagonal(incoming), response, scatter)
    if isinstance(p.of.start, Norm):
        rms = step.root_mean_squares[p.of.start]
        lost = mean_of_two(below.alignment) * directions(p.stream) / width
        return result, incoming * (1 - lost) / np.multiply.outer(rms, rms), Memory.behind_norm(scatter), parameters
    return result, incoming, below, parameters


def _below(p: Paths, response: Array, tied: Array, fluctuations: Fluctuations, width: int) -> tuple[Array, dict[str, float]]:
    """Factors of order 1/width on the second moments behind the branch, and on the squared gradient of each of its matrices.

    What is tied to u is lost behind it, and lengths are coupled to slopes: through y's own length, or through |u| where a norm
    behind F divides by it.
    """
    divided = fluctuations.length - 1 if p.of.branch_pinned else 0.0
    shorter = -np.ones_like(tied) if p.of.branch_pinned else response * p.branch_share
    along = fluctuations.along * (1 - fluctuations.alignment * tied)  # squared part along the argument, 1 by chance
    lost = fluctuations.conditioned * tied + (1.0 if p.of.normalised else 1 - along)
    gained = mean_of_two(shorter * fluctuations.coupling) + fluctuations.excess + divided
    branch = 1 + (gained - mean_of_two(lost) * directions(p.direct + p.branch)) / width
    parameters = {
        name: 1 + (float((shorter * coupling - conditioned * tied).mean()) + divided) / width
        for name, (coupling, conditioned) in fluctuations.parameters.items()
    }
    for name in list(parameters)[:-1]:
        parameters[name] += fluctuations.excess / width
    return branch, parameters


def kept_alignment(p: Paths, alignment: Array, fluctuations: Fluctuations) -> Array:
    """d·E(g·x)²/|x|² per |h|²: g·x = h·(αx + βJx), of which (direct + degree·branch)/|y| lies along y.

    A homogeneous F has Jx = u, so that g·x = h·y.
    """
    direct, branch = np.diagonal(p.direct), np.diagonal(p.branch)
    moved = direct + branch * fluctuations.stretch
    along = (direct + branch * fluctuations.degree) ** 2 / p.lengths
    return (moved - (1 - alignment) * along) / np.diagonal(p.stream)


def through_branch(applied: Applied, gradient: Array) -> tuple[Array, Array]:
    """(2h·h' where both went through the branch's mean pattern, squared gradient that never enters it)."""
    if applied.pattern is None:
        return 2 * gradient, np.zeros(len(gradient))
    mixed = applied.pattern.T @ gradient
    rest = gradient - mixed - mixed.T + mixed @ applied.pattern
    return mixed + mixed.T, np.clip(np.diagonal(rest), 0.0, None)


def directions(moments: Array) -> Array:
    """How often two tokens' gradients lose a direction when each loses its own token's: 2 − c², once where they are one."""
    return 2 - cosines(moments) ** 2


def mean_of_two(of_token: Array) -> Array:
    """Mean over the two tokens of a pair, (tokens, tokens)."""
    return np.add.outer(of_token, of_token) / 2
