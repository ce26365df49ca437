"""What theory has to know of a sublayer: its matrices and its forward and backward second-moment maps.

Moments are matrices of shape (tokens, tokens): entry (i, j) is E a_i·a_j per coordinate of the width.
``variances`` gives each matrix's weight variance times its fan-in (1 unless a gain says otherwise).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import sympy

Array = np.ndarray
Variances = Mapping[str, float]


@dataclass(frozen=True)
class Matrix:
    """One weight matrix; ``branch`` says whether a variant's initial gain (DeepNorm's β) scales it."""

    name: str
    branch: bool = True


class SublayerMaps(ABC):
    """A sublayer F; ``matrices`` stands in order of application, the output matrix last."""

    name: str
    equation: str
    matrices: tuple[Matrix, ...]
    tokenwise: bool
    homogeneous: bool
    """F(tx) = tF(x) for t > 0."""

    def variances(self, gain: float, branch_gain: float) -> dict[str, float]:
        """Weight variance times fan-in of each matrix: ``gain``, times ``branch_gain``² on the branch's."""
        return {m.name: gain * (branch_gain**2 if m.branch else 1.0) for m in self.matrices}

    @abstractmethod
    def exact_moments(self) -> tuple[sympy.Expr, sympy.Expr] | None:
        """(s², κ²) at a normalised input and unit gain as exact numbers, or None without a closed form."""

    @abstractmethod
    def forward(self, moments: Array, variances: Variances, causal: bool) -> Array:
        """Moments of F(a) from the moments of a."""

    @abstractmethod
    def backward(self, moments: Array, gradient: Array, variances: Variances, causal: bool) -> Array:
        """Moments of J_Fᵀδ from the moments of a and of δ = ∂𝓛/∂F."""

    @abstractmethod
    def parameter_gradients(self, moments: Array, gradient: Array, variances: Variances, causal: bool) -> dict[str, float]:
        """E‖∂𝓛/∂W‖_F² / (fan_in · width) of every matrix W, in order of application.

        ‖∂𝓛/∂W‖_F² = Σ_ij (a_i·a_j)(δ_i·δ_j) over tokens, a entering W and δ at its output: a per coordinate of the
        fan-in, δ's length over the stream's width. For the output matrix fan_in · width is its number of entries.
        """

    def fan_in(self, matrix: str, width: int, expansion: int) -> int:
        """Rows of a matrix: the width, unless it acts on the hidden layer."""
        return width

    def spread(self, variance: float, expansion: int) -> float | None:
        """τ((JJᵀ)²)/τ(JJᵀ)² of the sublayer's Jacobian at infinite width, or None where it is not derived.

        Args:
            variance: second moment of the first pre-activation.
            expansion: hidden width over width.
        """
        return None

    def length_spread(self, variance: float, expansion: int) -> float | None:
        """width · Var|F|²/E[|F|²]² at infinite width, or None where it is not derived; arguments as for `spread`."""
        return None
