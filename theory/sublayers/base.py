"""What theory has to know of a sublayer: its matrices, and its second-moment maps at given tokens.

Moments are matrices of shape (tokens, tokens): entry (i, j) is E a_i·a_j per coordinate of the width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

import numpy as np
import sympy

Array = np.ndarray
Inner = Mapping[str, str]
"""Kinds of the norms inside a sublayer, by place (`theory.algebra.expression.INNER`)."""
NO_NORMS: Inner = MappingProxyType({})
Factor = Callable[[Array], tuple[Array, Array]]
"""t ↦ (log g, d log g/dt) for g(t) = (1 + t) S(t), S the S-transform of J_F J_Fᵀ scaled to mean one."""


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


@dataclass(frozen=True)
class Surroundings:
    """What a sublayer's maps depend on besides its input and its weights.

    Args:
        causal: whether attention masks later tokens.
        freedom: number of directions in which the tokens differ, at first the width; None at infinite width.
        head_width: d_h of an attention head.
        fixed_lengths: every token of the input has exactly its second moment (a norm has just divided by it).
        depth: number of blocks, over which errors of a quadrature average.
        generator: of a quadrature's points.
        inner: kinds of the norms inside the sublayer, by place.
        heads: number of attention heads.
    """

    causal: bool = False
    freedom: float | None = None
    head_width: int = 1
    fixed_lengths: bool = True
    depth: int = 1
    generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    inner: Inner = field(default_factory=dict)
    heads: int = 1

    def points(self, tokens: int) -> int:
        """How many points a quadrature over attention patterns takes: rows and layers average too."""
        return max(8, -(-512 // tokens), -(-98_304 // (tokens * self.depth)))


@dataclass(frozen=True)
class Fluctuations:
    """How one sublayer fluctuates at finite width d, to first order in 1/d, for one token (`theory.finite_width`).

    With u = F(a), J its Jacobian, h an independent isotropic vector:

    Args:
        length: d · Var|u|²/E[|u|²]².
        coupling: d · Cov(|u|², |Jᵀh|²)/(E|u|² E|Jᵀh|²).
        conditioned: d times what |Jᵀh|² loses, relatively, if h is orthogonal to u (above the first matrix).
        degree: E[u·Ja]/E|u|²: the degree of homogeneity.
        stretch: E|Ja|²/E|u|².
        along: d · E(a·Jᵀh)²/(|a|² E|Jᵀh|²): 1 where F is homogeneous.
        gradient: d · Var|Jᵀh|²/E[|Jᵀh|²]² over networks, given h.
        slopes: what the factors of J add to τ((JJᵀ)²)/τ(JJᵀ)² beyond the 3 of two Gaussian matrices.
        parameters: by matrix, in order of application, what ``coupling`` and ``conditioned`` are for its squared gradient in
            place of |Jᵀh|².
        excess: d times what E|Jᵀh|² has beyond its value at infinite width, relatively, which a norm inside F makes: its
            root mean square fluctuates, and it projects. The gradients of all matrices but the last have it too.
    """

    length: float
    coupling: float
    conditioned: float
    degree: float
    stretch: float
    along: float
    gradient: float
    slopes: float
    parameters: Mapping[str, tuple[float, float]]
    excess: float = 0.0

    @property
    def alignment(self) -> float:
        """E[u·Ja]²/(E|u|² E|Ja|²), 0 where F does not follow its argument's length."""
        return self.degree**2 / self.stretch if self.stretch else 0.0


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
    def exact_moments(self, inner: Inner = NO_NORMS) -> tuple[sympy.Expr, sympy.Expr] | None:
        """(s², κ²) at a normalised input and unit gain as exact numbers, or None without a closed form.

        Args:
            inner: kinds of the norms inside, by place.
        """

    @abstractmethod
    def apply(self, moments: Array, weights: Weights, around: Surroundings) -> Applied:
        """The maps at tokens of second moments ``moments``, (tokens, tokens)."""

    def pre_activation(self, moments: Array, weights: Weights, inner: Inner = NO_NORMS) -> float:
        """Second moment of what the first matrix makes of tokens of second moments ``moments``, mean over tokens."""
        return float(weights.applied(self.matrices[0].name, np.diagonal(moments)).mean())

    @abstractmethod
    def fluctuations(self, variance: float, expansion: int, inner: Inner = NO_NORMS) -> Fluctuations:
        """The sublayer's terms of order 1/width.

        Args:
            variance: second moment of the first pre-activation.
            expansion: hidden width over width.
            inner: kinds of the norms inside, by place.
        """

    def spread(self, variance: float, expansion: int) -> float:
        """τ((JJᵀ)²)/τ(JJᵀ)² of the sublayer's Jacobian at infinite width, as `fluctuations`.

        1 + Σ of the free factors' relative variances, 1 for each Gaussian matrix (S-transforms multiply). Norms inside F change
        its scale alone: a division, and projections of rank two.
        """
        return 3 + self.fluctuations(variance, expansion).slopes

    def factor(self, variance: float, expansion: int) -> Factor | None:
        """g of the sublayer's Jacobian, or None where it is not derived; as `fluctuations`. Equal laws are one object."""
        return None


class Applied(ABC):
    """A sublayer's second-moment maps at given tokens; all moments (tokens, tokens), per coordinate of the width.

    Attributes:
        output: moments of F(a).
        pattern: mean weights with which row i of F reads token j, (tokens, tokens); None where tokens do not mix.
    """

    output: Array
    pattern: Array | None = None

    @abstractmethod
    def backward(self, gradient: Array) -> Array:
        """Moments of J_Fᵀδ from those of δ = ∂𝓛/∂F."""

    @abstractmethod
    def parameter_gradients(self, gradient: Array) -> dict[str, float]:
        """E‖∂𝓛/∂W‖_F² / (fan_in · width) of every matrix W, in order of application, from the moments of δ = ∂𝓛/∂F.

        ‖∂𝓛/∂W‖_F² = Σ_ij (a_i·a_j)(δ_i·δ_j) over tokens, a entering W and δ at its output: a per coordinate of the
        fan-in, δ's length over the stream's width. For the output matrix fan_in · width is its number of entries.
        """
