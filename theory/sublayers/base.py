"""What theory has to know of a sublayer: its matrices and its forward and backward second-moment maps.

Moments are matrices of shape (tokens, tokens): entry (i, j) is E a_i·a_j per coordinate of the width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import sympy

Array = np.ndarray


class Role(Enum):
    """What a weight matrix is for; an initialisation goes by it."""

    QUERY = "query"
    KEY = "key"
    VALUE = "value"
    ATTENTION_OUTPUT = "attention output"
    FFN_FIRST = "first of a feed-forward sublayer"
    FFN_SECOND = "second of a feed-forward sublayer"
    FFN_ONLY = "only one of a feed-forward sublayer"

    @property
    def enters_attention(self) -> bool:
        """Query, key or value."""
        return self in (Role.QUERY, Role.KEY, Role.VALUE)

    @property
    def in_attention(self) -> bool:
        """One of attention's four."""
        return self.enters_attention or self is Role.ATTENTION_OUTPUT

    @property
    def writes_to_stream(self) -> bool:
        """Whether it is its sublayer's last (a "residual projection")."""
        return self in (Role.ATTENTION_OUTPUT, Role.FFN_SECOND, Role.FFN_ONLY)


@dataclass(frozen=True)
class Matrix:
    """One weight matrix; ``branch`` says whether a variant's initial gain (DeepNorm's β) scales it."""

    name: str
    role: Role
    branch: bool = True

    def shape(self, width: int, expansion: int) -> tuple[int, int]:
        """(fan_in, fan_out)."""
        hidden = width * expansion
        return hidden if self.role is Role.FFN_SECOND else width, hidden if self.role is Role.FFN_FIRST else width


@dataclass(frozen=True)
class Weights:
    """How a sublayer's matrices are drawn, by their names.

    Args:
        variances: weight variance times fan-in (1 unless gain or initialisation say otherwise).
        biases: second moment of each entry of the bias; a matrix that is missing has none. The same bias reaches every
            token, so it adds to every entry of a moment matrix.
        uniform: the distribution, Gaussian unless uniform; the maps do not depend on it.
    """

    variances: Mapping[str, float]
    biases: Mapping[str, float] = field(default_factory=dict)
    uniform: bool = False

    def applied(self, name: str, moments: Array) -> Array:
        """Moments of W a + b from the moments of a."""
        return self.variances[name] * moments + self.biases.get(name, 0.0)


class SublayerMaps(ABC):
    """A sublayer F; ``matrices`` stands in order of application, the output matrix last."""

    name: str
    equation: str
    matrices: tuple[Matrix, ...]
    tokenwise: bool
    homogeneous: bool
    """F(tx) = tF(x) for t > 0."""

    def scales(self, gain: float, branch_gain: float) -> dict[str, float]:
        """Factor on each matrix's weight variance: ``gain``, times ``branch_gain``² on the branch's."""
        return {m.name: gain * (branch_gain**2 if m.branch else 1.0) for m in self.matrices}

    @abstractmethod
    def exact_moments(self) -> tuple[sympy.Expr, sympy.Expr] | None:
        """(s², κ²) at a normalised input and unit gain as exact numbers, or None without a closed form."""

    @abstractmethod
    def forward(self, moments: Array, weights: Weights, causal: bool) -> Array:
        """Moments of F(a) from the moments of a."""

    @abstractmethod
    def backward(self, moments: Array, gradient: Array, weights: Weights, causal: bool) -> Array:
        """Moments of J_Fᵀδ from the moments of a and of δ = ∂𝓛/∂F."""

    @abstractmethod
    def output_gradient(self, moments: Array, gradient: Array, weights: Weights, causal: bool) -> float:
        """E‖∂𝓛/∂W‖_F² of the output matrix over its number of entries: Σ_ij (a_i·a_j)(δ_i·δ_j) per coordinate."""

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
