"""How much the tokens' lengths and scalar products scatter over networks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from theory.finite_width.paths import Paths
from theory.pairs import mean_between
from theory.sublayers.base import Applied, Fluctuations

Array = np.ndarray


@dataclass(frozen=True)
class Lengths:
    """Covariances over networks of a stream's second moments M_ij = x_i·x_j/d, to first order in 1/width.

    Attributes:
        squares: Cov(M_ii, M_jj), (tokens, tokens).
        products: Cov(M_ij, M_ii), (tokens, tokens).
        purity: 1/ν, ν the directions in which tokens differ: E(e_j·e_k)²/(E|e_j|² E|e_k|²) of two tokens' differences e
            from their mean. 1/d at first; a network that acts alike on all tokens stretches differences along ever fewer.
    """

    squares: Array
    products: Array
    purity: float

    @classmethod
    def gaussian(cls, moments: Array, width: int) -> Lengths:
        """Of Gaussian tokens with these second moments."""
        return cls(2 * moments**2 / width, 2 * np.diagonal(moments)[:, None] * moments / width, 1 / width)

    def fixed(self) -> Lengths:
        """Of the same tokens behind a norm."""
        return Lengths(np.zeros_like(self.squares), np.zeros_like(self.products), self.purity)

    def after(self, step: Paths, applied: Applied, fluctuations: Fluctuations, width: int) -> Lengths:
        """Of y = αx + βu: what x hands on, and what the step adds.

        Args:
            step: the two paths.
            applied, fluctuations: the sublayer.
            width: d.
        """
        kept, (squares, products) = self.handed_on(step), fresh(step, fluctuations.length, width)
        purity = self._purity(step, applied, fluctuations, width)
        return Lengths(kept.squares + squares, kept.products + products, purity)

    def handed_on(self, step: Paths) -> Lengths:
        """What of y's scatter is x's."""
        if step.of.restarted:
            return self.fixed()
        kept = step.alpha if step.of.normalised else np.sqrt(step.lengths / np.diagonal(step.stream))
        squares, products = np.multiply.outer(kept**2, kept**2), np.multiply.outer(kept**3, kept)
        return Lengths(squares * self.squares, products * self.products, self.purity)

    def _purity(self, step: Paths, applied: Applied, fluctuations: Fluctuations, width: int) -> float:
        """Differences e' = αe + β(u − ū). What of u is linear in e keeps the overlaps that there are, all else is fresh.

        (e_j·ũ_k)² + (ũ_j·e_k)² adds 2AB/d, (ũ_j·ũ_k)² adds B²/d for each factor of the sublayer: at equal tokens V/d in all.
        """
        direct, branch = _difference(step.direct), _difference(step.branch)
        if direct + branch == 0:
            return self.purity
        linear = _linear_share(step, applied)
        factors = 2 + linear * fluctuations.slopes
        carried = (direct + linear * branch) ** 2 * self.purity
        return (carried + (2 * direct * branch + factors * branch**2) / width) / (direct + branch) ** 2

    def normalised(self, moments: Array) -> Array:
        """E[x_i·x_j/(|x_i||x_j|)] from the mean second moments, (tokens, tokens).

        Second order in the fluctuations: E[1/√((1+ξ_i)(1+ξ_j))] = 1 + ⅜(V_i + V_j) + ¼V_ij, less the covariance of the
        scalar product with the lengths.
        """
        length = np.diagonal(moments)
        root = np.sqrt(np.multiply.outer(length, length))
        relative = self.squares / np.multiply.outer(length, length)
        own = np.diagonal(relative)
        with_lengths = self.products / length[:, None]
        scattered = 1 + 3 / 8 * np.add.outer(own, own) + relative / 4
        cosine = (moments * scattered - (with_lengths + with_lengths.T) / 2) / root
        np.fill_diagonal(cosine, 1.0)
        return cosine

    def relative(self, moments: Array) -> Array:
        """Covariances of the tokens' squared lengths relative to their means, (tokens, tokens)."""
        length = np.diagonal(moments)
        return self.squares / np.multiply.outer(length, length)


def fresh(step: Paths, length: float, width: int) -> tuple[Array, Array]:
    """Covariances that one step adds (as in `Lengths`): of 2αβ x·u, and of |u|² unless a norm fixes it.

    Given x, u is a Gaussian vector of second moments F_ij, so Cov(x_i·u_k, x_j·u_l) = M_ij F_kl/d, and
    Cov(u_i·u_j, u_i·u_i) = 2 F_ij F_ii/d for one Gaussian matrix; ``length`` stands for that 2.
    """
    direct, branch = step.direct, step.branch
    own = 0.0 if step.of.branch_pinned else length
    squares = 4 * direct * branch + own * branch**2
    of_direct, of_branch = np.diagonal(direct)[:, None], np.diagonal(branch)[:, None]
    products = 2 * (of_direct * branch + direct * of_branch) + own * of_branch * branch
    return squares / width, products / width


def _difference(moments: Array) -> float:
    """Mean squared difference of a token from the mean token."""
    count = len(moments)
    return 0.0 if count == 1 else float(np.trace(moments) - moments.sum() / count) / (count - 1)


def _linear_share(step: Paths, applied: Applied) -> float:
    """How much of the sublayer's differences is linear in its input's: dF_ij/dM_ij times theirs; none through a softmax."""
    differences = _difference(step.branch)
    if applied.pattern is not None or differences == 0:
        return 0.0
    slope = mean_between(applied.backward(np.ones_like(step.branch)))
    entering = (
        _difference(step.stream) / float(np.diagonal(step.stream).mean()) if step.of.normalised else _difference(step.stream)
    )
    return min(1.0, slope * float((step.beta**2).mean()) * entering / differences)
