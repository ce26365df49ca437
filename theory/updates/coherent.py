"""The part of an update that adds coherently: δy = −η Σ_W y_W P P ᵀ v over the matrices, squared.

For W' above W, with H = JᵀJ of what lies above W' and τ the trace over the width (free probability),

    τ(P_jP_iᵀ P'_iP'_jᵀ) = τ(P_jP_iᵀ) τ(P'_iP'_jᵀ) (ρ + w_ij),

where w is the excess of `theory.updates.path` and ρ ≠ 1 only for a matrix whose own reach (W₂D, or D) shares its slopes
with the path through its branch. One pass from the output down sums all pairs.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from theory.updates.path import PathStep

Array = np.ndarray


class Coherent:
    """Running second moment over the steps that were added, from the output down."""

    def __init__(self, tokens: int) -> None:
        self.square = np.zeros((tokens, tokens))
        """Entry (i, j): the part of E|δy_i|²/d that comes from v_j."""
        self._chain = np.zeros_like(self.square)
        self._excess = np.zeros_like(self.square)

    def add(self, step: PathStep, strengths: Mapping[str, Array], own: Mapping[str, Array], below: Mapping[str, Array]) -> None:
        """Add the matrices of the next step down.

        Args:
            step: its path.
            strengths: y_W of each matrix, with the coefficient from its sublayer to the step's output.
            own: ρ of a matrix with itself.
            below: ρ of a matrix with what lies below, through its branch.
        """
        upstream = np.multiply.outer(step.gradient, step.gradient)
        together = sum(strengths.values())
        pairs = together**2 * (1 + self._excess) + sum(s**2 * (own[name] - 1) for name, s in strengths.items())
        self.square = self.square + upstream * pairs + 2 * self._chain * together
        meeting = sum(s * (step.straight + step.branch * below[name]) for name, s in strengths.items())
        self._chain = step.gain * self._chain + upstream * (meeting + step.gain * self._excess * together)
        gains = np.diagonal(step.gain)
        self._excess = step.spread + step.gain**2 / np.multiply.outer(gains, gains) * self._excess
