"""Attention patterns: expectations over the Gaussian logits of one layer, by quadrature on sampled points.

Given the tokens' Gram matrix C (per coordinate) a head's queries and keys are Gaussian, so its logits
q_i·k_j/√d_h are too once the queries are fixed. The softmax of n such logits has no closed form at finite n. Each point
is one head: tokens with Gram matrix C that differ in ν directions, at first d (a Wishart draw, so their cosines fluctuate),
queries and keys of d_h coordinates, and the pattern A = softmax(QKᵀ/√d_h). Given (A, C) everything that follows is
exact algebra over the Gaussian values and output matrices. At infinite width the Gram matrix is C itself and the
logits have covariance C_ii' C_jk.

Averages over rows make few points enough; the points are drawn from a fixed generator, so a prediction is reproducible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from theory.sublayers.base import Array, Surroundings, Weights


@dataclass(frozen=True)
class Patterns:
    """Points of the quadrature, each of shape (points, tokens, tokens).

    Attributes:
        attention: A, rows sum to 1.
        gram: C, second moments of the tokens per coordinate.
        queries, keys: Gram matrices of the head's queries and keys, per coordinate of the head and unit weight variance
            of the keys; rows that read the same key have queries that are alike.
    """

    attention: Array
    gram: Array
    queries: Array
    keys: Array

    @property
    def mean(self) -> Array:
        """E A, (tokens, tokens)."""
        return self.attention.mean(axis=0)

    def mixed(self) -> Array:
        """E[A C Aᵀ]: second moments of what the rows read, before W_V."""
        return (self.attention @ self.gram @ _t(self.attention)).mean(axis=0)

    def values(self, gradient: Array) -> Array:
        """Aᵀ Γ A at every point: gradients at the values, Γ at the rows."""
        return _t(self.attention) @ gradient @ self.attention

    def at_queries(self, gradient: Array) -> Array:
        """Second moments of Σ_j P_ij k_j at every point, P = ∂𝓛/∂logits for unit W_V, W_O.

        P_ij = a_ij δ_i·(v_j − o_i), and over the Gaussian values E P_ij P_i'k = a_ij a_i'k Γ_ii' H_ii'jk with
        H_ii'jk = C_jk − (AC)_ik − (AC)_i'j + (ACAᵀ)_ii'.
        """
        a, c, k = self.attention, self.gram, self.keys
        read, looked = a @ c, a @ k
        half = (read * looked) @ _t(a)
        return gradient * (a @ (c * k) @ _t(a) + (read @ _t(a)) * (looked @ _t(a)) - half - _t(half))

    def at_keys(self, gradient: Array) -> Array:
        """Second moments of Σ_i P_ij q_i at every point."""
        a, c = self.attention, self.gram
        read, weighted = a @ c, gradient * self.queries
        half = _t(a) @ (read * (weighted @ a))
        return (_t(a) @ weighted @ a) * c + _t(a) @ (weighted * (read @ _t(a))) @ a - half - _t(half)


def sample(moments: Array, weights: Weights, around: Surroundings) -> Patterns:
    """Draw the points for tokens of second moments ``moments``, (tokens, tokens)."""
    tokens, count = len(moments), around.points(len(moments))
    draw, variances, bias = around.generator, weights.variances, weights.biases.get("WQ", 0.0)
    if around.freedom is None:
        gram = np.broadcast_to(moments, (count, tokens, tokens))
        queries, keys = variances["WQ"] * moments + bias, moments
        logits = _root(queries) @ draw.standard_normal((count, tokens, tokens)) @ _root(moments).T
    else:
        x = _root(moments) @ _wishart_root(draw, count, tokens, around.freedom)
        if around.fixed_lengths:
            x = x * (np.sqrt(np.diagonal(moments)) / np.linalg.norm(x, axis=2))[:, :, None]
        gram, size = x @ _t(x), around.head_width
        q = np.sqrt(variances["WQ"]) * x @ draw.standard_normal((count, x.shape[2], size))
        q = q + np.sqrt(bias) * draw.standard_normal((count, 1, size)) if bias else q
        k = x @ draw.standard_normal((count, x.shape[2], size))
        logits, queries, keys = q @ _t(k) / np.sqrt(size), q @ _t(q) / size, k @ _t(k) / size
    # The key's bias adds the same to a whole row of logits and drops out of the softmax.
    return Patterns(_softmax(np.sqrt(variances["WK"]) * logits, around.causal), gram, queries, keys)


def _softmax(logits: Array, causal: bool) -> Array:
    if causal:
        logits = np.where(np.tril(np.ones(logits.shape[1:], dtype=bool)), logits, -np.inf)
    weights = np.exp(logits - logits.max(axis=2, keepdims=True))
    return weights / weights.sum(axis=2, keepdims=True)


def _root(moments: Array) -> Array:
    """R with R Rᵀ = moments; a collapsed Gram matrix is singular, so no Cholesky."""
    values, vectors = np.linalg.eigh(moments)
    return vectors * np.sqrt(np.clip(values, 0.0, None))


def _wishart_root(draw: np.random.Generator, count: int, tokens: int, freedom: float) -> Array:
    """T with E T Tᵀ = 1 and ν·T Tᵀ Wishart of ν degrees of freedom, triangular where it can be (Bartlett 1933).

    Below ``tokens`` degrees of freedom: ⌈ν⌉ Gaussian columns, the last one lighter, of participation ratio ν.
    """
    if freedom > tokens:
        root = np.tril(draw.standard_normal((count, tokens, tokens)), -1)
        diagonal = np.arange(tokens)
        root[:, diagonal, diagonal] = np.sqrt(draw.chisquare(freedom - diagonal, (count, tokens)))
        return root / np.sqrt(freedom)
    columns = int(np.ceil(freedom))
    whole = columns - 1
    # The lighter root of (whole + w)² = ν (whole + w²), w the last column's squared weight.
    discriminant = whole * (whole - (freedom - 1) * (freedom - whole))
    last = (whole - np.sqrt(discriminant)) / (freedom - 1) if columns > 1 else 1.0
    squares = np.append(np.ones(whole), last)
    return draw.standard_normal((count, tokens, columns)) * np.sqrt(squares / squares.sum())


def _t(matrices: Array) -> Array:
    return np.swapaxes(matrices, -1, -2)
