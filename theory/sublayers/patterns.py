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

_APART = 1e-7  # squared difference of two tokens over their squared length, from which rounding does not matter


@dataclass(frozen=True)
class Patterns:
    """Points of the quadrature, each of shape (points, tokens, tokens).

    Attributes:
        attention: A, rows sum to 1.
        gram: C, second moments of what the rows read, per coordinate: of the tokens, as if W_V were 1.
        queries, keys: Gram matrices of the head's queries and keys, per coordinate of the head and unit weight variance
            of the keys; rows that read the same key have queries that are alike.
        enlarged: factor by which the tokens' squared differences were enlarged before the draw, see `told_apart`.
    """

    attention: Array
    gram: Array
    queries: Array
    keys: Array
    enlarged: float = 1

    @property
    def mean(self) -> Array:
        """E A, (tokens, tokens)."""
        return self.attention.mean(axis=0)

    @property
    def tokens(self) -> Array:
        """Second moments of the tokens, at every point."""
        return self.gram

    def rows(self) -> Array:
        """A C Aᵀ at every point: second moments of what the rows make of what they read."""
        return self.attention @ self.gram @ mt(self.attention)

    def mixed(self) -> Array:
        """E[A C Aᵀ]: second moments of what the rows read, before W_V.

        It falls short of the tokens' length by their squared differences, and rows differ in the square of that.
        """
        read = self.rows().mean(axis=0)
        if self.enlarged == 1:
            return read
        length, level = float(np.trace(self.gram.mean(axis=0))) / len(read), float(read.mean())
        return length + (level - length) / self.enlarged + (read - level) / self.enlarged**2

    def values(self, gradient: Array) -> Array:
        """Aᵀ Γ A at every point: gradients at the values, Γ at the rows."""
        return mt(self.attention) @ gradient @ self.attention

    def at_queries(self, gradient: Array) -> Array:
        """Second moments of Σ_j P_ij k_j at every point, P = ∂𝓛/∂logits for unit W_V, W_O.

        P_ij = a_ij δ_i·(v_j − o_i), and over the Gaussian values E P_ij P_i'k = a_ij a_i'k Γ_ii' H_ii'jk with
        H_ii'jk = C_jk − (AC)_ik − (AC)_i'j + (ACAᵀ)_ii'.
        """
        a, c, k = self.attention, self.gram, self.keys
        read, looked = a @ c, a @ k
        half = (read * looked) @ mt(a)
        return gradient * (a @ (c * k) @ mt(a) + (read @ mt(a)) * (looked @ mt(a)) - half - mt(half)) / self.enlarged**2

    def at_keys(self, gradient: Array) -> Array:
        """Second moments of Σ_i P_ij q_i at every point."""
        a, c = self.attention, self.gram
        read, weighted = a @ c, gradient * self.queries
        half = mt(a) @ (read * (weighted @ a))
        own = (mt(a) @ weighted @ a) * c + mt(a) @ (weighted * (read @ mt(a))) @ a
        return (own - half - mt(half)) / self.enlarged


def sample(moments: Array, weights: Weights, around: Surroundings) -> Patterns:
    """Draw the points for tokens of second moments ``moments``, (tokens, tokens)."""
    tokens, count = len(moments), around.points(len(moments))
    moments, enlarged = told_apart(moments)
    draw, variances, bias = around.generator, weights.variances, weights.biases.get("WQ", 0.0)
    if around.freedom is None:
        gram = np.broadcast_to(moments, (count, tokens, tokens))
        queries, keys = variances["WQ"] * moments + bias, moments
        logits = _root(queries) @ normal(draw, count, tokens, tokens) @ _root(moments).T
    else:
        x = tokens_drawn(moments, around, count)
        gram = x @ mt(x)
        # A query's bias is one more token that only W_Q sees.
        seen = np.sqrt(variances["WQ"]) * x
        seen = np.concatenate([seen, np.full((count, tokens, 1), np.sqrt(bias))], axis=2) if bias else seen
        logits, queries, keys = _head(draw, seen, x, around.head_width)
    # The key's bias adds the same to a whole row of logits and drops out of the softmax.
    return Patterns(softmax(np.sqrt(variances["WK"]) * logits, around.causal), gram, queries, keys, enlarged)


def tokens_drawn(moments: Array, around: Surroundings, count: int) -> Array:
    """Tokens with Gram matrices around ``moments``, (count, tokens, directions); equal to it at infinite width."""
    root = _root(moments)
    if around.freedom is None:
        return np.broadcast_to(root, (count, *root.shape))
    x = root @ _wishart_root(around.generator, count, len(moments), around.freedom)
    if around.fixed_lengths:
        x = x * (np.sqrt(np.diagonal(moments)) / np.linalg.norm(x, axis=2))[:, :, None]
    return x


def told_apart(moments: Array) -> tuple[Array, float]:
    """Collapsed tokens, with their differences enlarged to what double precision can tell apart, and by which factor.

    Patterns hardly depend on differences as small as that; gradients of logits follow them by a power.
    """
    length, count = float(np.diagonal(moments).mean()), len(moments)
    difference = length - moments
    mean = float(difference.sum()) / (count * (count - 1)) if count > 1 else length
    if mean >= _APART * length or not np.allclose(np.diagonal(difference), 0.0, atol=1e-12 * length):
        return moments, 1
    if mean <= 0:  # not even the mean difference is left
        return length * (1 - _APART * (1 - np.eye(count))), np.inf
    factor = _APART * length / mean
    return length - factor * difference, factor


def _head(draw: np.random.Generator, seen: Array, x: Array, size: int) -> tuple[Array, Array, Array]:
    """Logits QKᵀ/√d_h and the Gram matrices QQᵀ/d_h, KKᵀ/d_h of Q = ``seen`` G, K = ``x`` G', of d_h Gaussian columns.

    In a basis of G's rows G is triangular (Bartlett 1933), G' is Gaussian there, and a Wishart matrix of its own beyond.
    """
    count, rows, columns = len(x), seen.shape[2], x.shape[2]
    if size <= rows:
        q, k = seen @ normal(draw, count, rows, size), x @ normal(draw, count, columns, size)
        return q @ mt(k) / np.sqrt(size), q @ mt(q) / size, k @ mt(k) / size
    q, k = seen @ _bartlett(draw, count, rows, size), x @ normal(draw, count, columns, rows)
    beyond = x @ _wishart_root(draw, count, columns, size - rows) * np.sqrt(size - rows)
    return q @ mt(k) / np.sqrt(size), q @ mt(q) / size, (k @ mt(k) + beyond @ mt(beyond)) / size


def softmax(logits: Array, causal: bool) -> Array:
    """Patterns from logits (points, tokens, tokens)."""
    if causal:
        logits = np.where(np.tril(np.ones(logits.shape[1:], dtype=bool)), logits, -np.inf)
    weights = np.exp(logits - logits.max(axis=2, keepdims=True))
    return weights / weights.sum(axis=2, keepdims=True)


def _root(moments: Array) -> Array:
    """R with R Rᵀ = moments; a collapsed Gram matrix is singular, so no Cholesky."""
    values, vectors = np.linalg.eigh(moments)
    return vectors * np.sqrt(np.clip(values, 0.0, None))


def _wishart_root(draw: np.random.Generator, count: int, tokens: int, freedom: float) -> Array:
    """T with E T Tᵀ = 1 and ν·T Tᵀ Wishart of ν degrees of freedom.

    Below ``tokens`` degrees of freedom: ⌈ν⌉ Gaussian columns, the last one lighter, of participation ratio ν.
    """
    if freedom > tokens:
        return _bartlett(draw, count, tokens, freedom) / np.sqrt(freedom)
    columns = int(np.ceil(freedom))
    whole = columns - 1
    # The lighter root of (whole + w)² = ν (whole + w²), w the last column's squared weight.
    discriminant = whole * (whole - (freedom - 1) * (freedom - whole))
    last = (whole - np.sqrt(discriminant)) / (freedom - 1) if columns > 1 else 1.0
    squares = np.append(np.ones(whole), last)
    return normal(draw, count, tokens, columns) * np.sqrt(squares / squares.sum())


def _bartlett(draw: np.random.Generator, count: int, tokens: int, freedom: float) -> Array:
    """Lower triangular T with T Tᵀ Wishart of ``freedom`` ≥ ``tokens`` degrees of freedom (Bartlett 1933)."""
    root, diagonal = np.tril(normal(draw, count, tokens, tokens), -1), np.arange(tokens)
    root[:, diagonal, diagonal] = np.sqrt(draw.chisquare(freedom - diagonal, (count, tokens)))
    return root


def normal(draw: np.random.Generator, *shape: int) -> Array:
    """Standard normal numbers."""
    return draw.standard_normal(shape, dtype=np.float32).astype(float)  # single precision is drawn twice as fast


def mt(matrices: Array) -> Array:
    """Transposed matrices."""
    return np.swapaxes(matrices, -1, -2)
