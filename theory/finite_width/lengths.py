"""How much the tokens' lengths and scalar products scatter over networks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from theory.finite_width.paths import Paths

Array = np.ndarray


@dataclass(frozen=True)
class Lengths:
    """Covariances over networks of a stream's second moments M_ij = x_i·x_j/d, to first order in 1/width.

    Attributes:
        squares: Cov(M_ii, M_jj), (tokens, tokens).
        products: Cov(M_ij, M_ii), (tokens, tokens).
    """

    squares: Array
    products: Array

    @classmethod
    def gaussian(cls, moments: Array, width: int) -> Lengths:
        """Of Gaussian tokens with these second moments."""
        return cls(2 * moments**2 / width, 2 * np.diagonal(moments)[:, None] * moments / width)

    @classmethod
    def fixed(cls, tokens: int) -> Lengths:
        """Of tokens that a norm has just divided."""
        return cls(np.zeros((tokens, tokens)), np.zeros((tokens, tokens)))

    def after(self, step: Paths, length: float, width: int) -> Lengths:
        """Of y = αx + βu: what x hands on, and what the step adds.

        Args:
            step: the two paths.
            length: d · Var|u|²/E[|u|²]² of the sublayer.
            width: d.
        """
        kept, added = self.handed_on(step), fresh(step, length, width)
        return Lengths(kept.squares + added.squares, kept.products + added.products)

    def handed_on(self, step: Paths) -> Lengths:
        """What of y's scatter is x's."""
        kept = step.alpha if step.normalised else np.sqrt(step.lengths / np.diagonal(step.stream))
        return Lengths(np.multiply.outer(kept**2, kept**2) * self.squares, np.multiply.outer(kept**3, kept) * self.products)

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
        cosine = moments / root * (1 + 3 / 8 * np.add.outer(own, own) + relative / 4) - (with_lengths + with_lengths.T) / (
            2 * root
        )
        np.fill_diagonal(cosine, 1.0)
        return cosine

    def relative(self, moments: Array) -> Array:
        """Relative variance of each token's squared length."""
        return np.diagonal(self.squares) / np.diagonal(moments) ** 2


def fresh(step: Paths, length: float, width: int) -> Lengths:
    """What one step adds: 2αβ x·u, and the fluctuation of |u|² unless a norm fixes it.

    Given x, u is a Gaussian vector of second moments F_ij, so Cov(x_i·u_k, x_j·u_l) = M_ij F_kl/d, and
    Cov(u_i·u_j, u_i·u_i) = 2 F_ij F_ii/d for one Gaussian matrix; ``length`` stands for that 2.
    """
    direct, branch = step.direct, step.branch
    own = 0.0 if step.branch_pinned else length
    squares = 4 * direct * branch + own * branch**2
    of_direct, of_branch = np.diagonal(direct)[:, None], np.diagonal(branch)[:, None]
    products = 2 * (of_direct * branch + direct * of_branch) + own * of_branch * branch
    return Lengths(squares / width, products / width)
