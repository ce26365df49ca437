"""Second-moment maps between applications of one sublayer that share its weights (blocks that are looped).

W is used again and its transpose never before the backward pass, so at infinite width all W a, over applications and tokens
alike, are jointly Gaussian with the moments of their arguments, scaled; backwards Wᵀ can be taken as fresh (Tensor
Programs' gradient independence: the gradient at the output does not depend on the weights). An application's tokens are therefore
nothing but more tokens, and the maps those of one sublayer on all of them; attention mixes tokens of one application only.

All moments between an application and several others are (tokens, others · tokens).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from scipy.linalg import solve_triangular

from theory.moments import Activation, activation, kernel_between, mean_slope
from theory.sublayers.attention import Attention
from theory.sublayers.base import Array, SublayerMaps, Weights
from theory.sublayers.patterns import softmax
from theory.sublayers.tokenwise import TokenWise

_NUGGET = 1e-9
"""Relative size of what is added to a Gram matrix's diagonal before its root is taken."""


class Shared(ABC):
    """The applications of one sublayer, in the order of the forward pass."""

    @abstractmethod
    def add(self, own: Array, before: Array) -> tuple[Array, Array | None]:
        """Moments of a further application's output with those before, and with itself (None: as `SublayerMaps.apply` has it).

        Args:
            own: moments of its argument, (tokens, tokens).
            before: with the arguments of all applications before it.
        """

    @abstractmethod
    def backward(self, place: int, own: Array, after: Array) -> tuple[Array, Array | None]:
        """Moments of J_Fᵀδ of application ``place`` with those of all later ones; and with itself, as in `add`.

        Args:
            place: its index.
            own: moments of its δ.
            after: of its δ with the δ of all later applications.
        """


class SharedTokenWise(Shared):
    """φ(W a) or W₂ φ(W₁ a): kernels between pre-activations."""

    def __init__(self, maps: TokenWise, weights: Weights) -> None:
        self._maps, self._weights = maps, weights
        self._gain = np.prod([weights.variances[matrix.name] for matrix in maps.matrices])
        self._gaussian = _Gaussian()

    def add(self, own: Array, before: Array) -> tuple[Array, None]:
        first = self._maps.matrices[0].name
        self._gaussian.add(self._weights.applied(first, own), self._weights.applied(first, before))
        hidden = self._gaussian.before(self._maps.activation)
        return self._weights.applied("W2", hidden) if len(self._maps.matrices) == 2 else hidden, None

    def backward(self, place: int, own: Array, after: Array) -> tuple[Array, None]:
        return self._gain * self._gaussian.slopes_after(self._maps.activation, place) * after, None


class SharedPointwise(Shared):
    """What is left of a pointwise function φ(u) beside its part along u: it is correlated between all places where φ stands.

    Its kernels want Gaussian streams, which sublayers that end in a matrix give; shared tanh(W a) adds up to others.
    """

    def __init__(self, function: str) -> None:
        self._activation = activation(function)
        self._gaussian = _Gaussian()
        self._slopes: list[Array] = []

    def add(self, own: Array, before: Array) -> tuple[Array, None]:
        self._gaussian.add(own, before)
        slopes = np.array([mean_slope(self._activation, float(variance)) for variance in np.diagonal(own)])
        along = np.multiply.outer(slopes, _joined(self._slopes))
        self._slopes.append(slopes)
        return self._gaussian.before(self._activation) - along * before, None

    def backward(self, place: int, own: Array, after: Array) -> tuple[Array, None]:
        along = np.multiply.outer(self._slopes[place], _joined(self._slopes[place + 1 :]))
        return (self._gaussian.slopes_after(self._activation, place) - along) * after, None


class SharedAttention(Shared):
    """Attention: patterns of all applications drawn together, point by point, from the same queries' and keys' weights.

    A point is one head of its own width d_h: queries and keys of all applications' tokens, Gaussian with their Gram matrix.
    Given the patterns all else is exact algebra, as in `theory.sublayers.patterns`, whose formulas stand here between two
    applications.
    """

    def __init__(self, weights: Weights, head_width: int, causal: bool, points: int, generator: np.random.Generator) -> None:
        self._weights, self._head_width, self._causal = weights, head_width, causal
        self._points, self._generator = points, generator
        self._queries, self._keys = (_Projected(points, head_width, generator) for _ in range(2))
        self._patterns: list[Array] = []
        self._moments: list[Array] = []

    def add(self, own: Array, before: Array) -> tuple[Array, Array]:
        v, bias = self._weights.variances, self._weights.biases.get("WQ", 0.0)
        queries = self._queries.add(v["WQ"] * own + bias, v["WQ"] * before + bias)
        keys = self._keys.add(v["WK"] * own, v["WK"] * before)
        logits = queries @ np.swapaxes(keys, 1, 2) / np.sqrt(self._head_width)
        self._patterns.append(softmax(logits, self._causal))
        self._moments.append(np.concatenate([before, own], axis=1))
        mixed = [self._mixed(other, between) for other, between in enumerate(_split(self._moments[-1], len(own)))]
        found = self._weights.applied("WO", self._weights.applied("WV", np.concatenate(mixed, axis=1)))
        return found[:, : -len(own)], found[:, -len(own) :]

    def _mixed(self, other: int, between: Array) -> Array:
        """E[A C A'ᵀ] of the newest application with ``other``."""
        read = self._patterns[-1] @ between
        return np.einsum("pik,pjk->ij", read, self._patterns[other], optimize=True) / self._points

    def backward(self, place: int, own: Array, after: Array) -> tuple[Array, Array]:
        tokens, gradients = len(own), np.concatenate([own, after], axis=1)
        found = [self._between(place, place + step, part) for step, part in enumerate(_split(gradients, tokens))]
        total = np.concatenate(found, axis=1)
        return total[:, tokens:], total[:, :tokens]

    def _between(self, place: int, other: int, gradient: Array) -> Array:
        """Through values, queries and keys of ``place`` and a later application, C_jk = E a_j·a'_k, Γ_ii' = E δ_i·δ'_i'.

        The gradients of the logits have E P_ij P'_i'k = a_ij a'_i'k Γ_ii' (C_jk − (AC)_ik − (CA'ᵀ)_ji' + (ACA'ᵀ)_ii').
        """
        v, bias = self._weights.variances, self._weights.biases.get("WQ", 0.0)
        tokens = len(gradient)
        c = self._moments[other][:, place * tokens : (place + 1) * tokens].T
        a, b = self._patterns[place], self._patterns[other]
        at, bt = np.swapaxes(a, 1, 2), np.swapaxes(b, 1, 2)
        left, right = a @ c, c @ bt
        both = left @ bt
        # Keys have the tokens' own moments, so that what the rows look at is what they read.
        squares = np.einsum("pik,pjk->ij", a @ (c * c) - left * left, b, optimize=True)
        squares += (both * both - a @ (right * right)).sum(axis=0)
        at_queries = gradient * squares / self._points
        weighted = gradient * (v["WQ"] * c + bias)
        read, looked = weighted @ b, at @ weighted
        own = (looked @ b) * c + at @ (weighted * both) @ b
        at_keys = (own - at @ (left * read) - (right * looked) @ b).mean(axis=0)
        at_values = np.einsum("pij,pik->jk", a, gradient @ b, optimize=True) / self._points
        return v["WV"] * v["WO"] * (at_values + v["WQ"] * v["WK"] * at_queries + v["WK"] * at_keys)


class _Gaussian:
    """Jointly Gaussian variables, application by application: what their kernels need."""

    def __init__(self) -> None:
        self._variances: list[Array] = []
        self._moments: list[Array] = []

    def add(self, own: Array, before: Array) -> None:
        self._variances.append(np.diagonal(own))
        self._moments.append(before)

    def before(self, phi: Activation) -> Array:
        """E φ(u)φ(v) of the newest application with those before it."""
        *before, own = self._variances
        return kernel_between(phi, self._moments[-1], (own, _joined(before)))

    def slopes_after(self, phi: Activation, place: int) -> Array:
        """E φ'(u)φ'(v) of an application with all later ones."""
        own, *after = self._variances[place:]
        tokens = slice(place * len(own), (place + 1) * len(own))
        moments = [later[:, tokens].T for later in self._moments[place + 1 :]]
        between = np.concatenate([np.zeros((len(own), 0)), *moments], axis=1)
        return kernel_between(phi, between, (own, _joined(after)), derivative=True)


class _Projected:
    """Points of a quadrature: a projection of all tokens onto ``width`` Gaussian directions a point, application by application.

    The Gram matrix's triangular root grows by rows, so that what was drawn for earlier applications stays.
    """

    def __init__(self, points: int, width: int, generator: np.random.Generator) -> None:
        self._points, self._width, self._generator = points, width, generator
        self._root = np.zeros((0, 0))
        self._drawn = np.zeros((0, points * width), dtype=np.float32)

    def add(self, own: Array, before: Array) -> Array:
        """The projections of a further application's tokens, (points, tokens, width)."""
        tokens = len(own)
        known = solve_triangular(self._root, before.T, lower=True).T if len(self._root) else np.zeros((tokens, 0))
        rest = own + _NUGGET * float(np.diagonal(own).mean()) * np.eye(tokens) - known @ known.T
        values, vectors = np.linalg.eigh(rest)
        root = vectors * np.sqrt(np.clip(values, _NUGGET * own.max(), None))
        fresh = np.asarray(np.linalg.qr(root.T, mode="r")).T
        self._root = np.block([[self._root, np.zeros((len(self._root), tokens))], [known, fresh]])
        draw = self._generator.standard_normal((tokens, self._points * self._width), dtype=np.float32)
        self._drawn = np.concatenate([self._drawn, draw])
        projected = np.concatenate([known, fresh], axis=1).astype(np.float32) @ self._drawn
        return projected.reshape(tokens, self._points, self._width).swapaxes(0, 1).astype(float)


def shared(
    maps: SublayerMaps, weights: Weights, head_width: int, causal: bool, points: int, generator: np.random.Generator
) -> Shared:
    """The shared applications of a sublayer.

    Args:
        maps, weights: the sublayer and how its matrices are drawn.
        head_width, causal: of attention.
        points, generator: of attention's quadrature.
    """
    if isinstance(maps, TokenWise):
        return SharedTokenWise(maps, weights)
    assert isinstance(maps, Attention)
    return SharedAttention(weights, head_width, causal, points, generator)


def _joined(parts: list[Array]) -> Array:
    return np.concatenate([np.zeros(0), *parts])


def _split(moments: Array, tokens: int) -> list[Array]:
    return np.split(moments, moments.shape[1] // tokens, axis=1)
