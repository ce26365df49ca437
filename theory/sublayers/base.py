"""What theory has to know of a sublayer: its matrices and its forward and backward second-moment maps.

Moments are matrices of shape (tokens, tokens): entry (i, j) is E a_i·a_j per coordinate of the width.
``variances`` gives each matrix's weight variance times its fan-in (1 unless a gain says otherwise).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import sympy

Array = np.ndarray
Variances = Mapping[str, float]
Factor = Callable[[Array], tuple[Array, Array]]
"""t ↦ (log g, d log g/dt) for g(t) = (1 + t) S(t), S the S-transform of J_F J_Fᵀ scaled to mean one."""


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
    def output_gradient(self, moments: Array, gradient: Array, variances: Variances, causal: bool) -> float:
        """E‖∂𝓛/∂W‖_F² of the output matrix over its number of entries: Σ_ij (a_i·a_j)(δ_i·δ_j) per coordinate."""

    def spread(self, variance: float, expansion: int) -> float | None:
        """τ((JJᵀ)²)/τ(JJᵀ)² of the sublayer's Jacobian at infinite width, or None where it is not derived.

        Args:
            variance: second moment of the first pre-activation.
            expansion: hidden width over width.
        """
        return None

    def factor(self, variance: float, expansion: int) -> Factor | None:
        """g of the sublayer's Jacobian, or None where it is not derived; arguments as for `spread`. Equal laws are one object."""
        return None

    def length_spread(self, variance: float, expansion: int) -> float | None:
        """width · Var|F|²/E[|F|²]² at infinite width, or None where it is not derived; arguments as for `spread`."""
        return None
