"""Multi-head softmax attention at leading order in 1/width, position by position.

The logits of row i have covariance C_ii' C_jk over (row i, column j) and (row i', column k), so to leading order

    E[a_ij a_i'k] = e^{C_jk C_ii'} / Z_ii',   Z_ii' = Σ_{j visible to i, k visible to i'} e^{C_jk C_ii'}

(a ratio of expectations in place of the expectation of the ratio). Every sum over (j, k) is a power series in
C_ii' whose coefficients are masked sums of powers of C, so a pass costs O(terms · tokens²) instead of tokens⁴.
Heads are independent copies: their number does not enter at this order. Terms of relative order
tokens/width (the softmax's tilt towards the query) are left out. With weight variances v and biases of second moment b
the exponents' factor C_ii' becomes v_k (v_q C_ii' + b_q): the key's bias adds the same to a whole row and drops out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import sympy

from theory.errors import InvalidInput
from theory.sublayers.base import Array, Matrix, Role, SublayerMaps, Weights


class Attention(SublayerMaps):
    """W_O concat_h softmax(Q_h K_hᵀ/√d_h) V_h with separate W_Q, W_K, W_V, W_O."""

    name = "attention"
    equation = "WO concat_h softmax(Q_h K_h'/sqrt(d_h)) V_h"
    matrices = (
        Matrix("WQ", Role.QUERY, branch=False),
        Matrix("WK", Role.KEY, branch=False),
        Matrix("WV", Role.VALUE),
        Matrix("WO", Role.ATTENTION_OUTPUT),
    )
    tokenwise = False
    homogeneous = False

    def exact_moments(self) -> tuple[sympy.Expr, sympy.Expr] | None:
        return None  # both depend on how alike the tokens are

    def forward(self, moments: Array, weights: Weights, causal: bool) -> Array:
        return weights.applied("WO", self._mixed(moments, weights, causal))

    def backward(self, moments: Array, gradient: Array, weights: Weights, causal: bool) -> Array:
        overlap, partition = _softmax(moments, weights, causal)
        exponent, variances = _exponent(moments, weights), weights.variances
        weighted = gradient / partition
        values = _series(moments, lambda p: _masked(weighted * exponent**p, causal, transpose=True), _terms(exponent))
        # Queries and keys: each row's softmax Jacobian, diagonal in the tokens at this order. What reaches the query came
        # through the keys W_K a (their bias drops out), what reaches a key through the query with its bias.
        row = np.diagonal(gradient) * (1 - np.diagonal(overlap)) ** 2
        same = np.exp(np.multiply.outer(np.diagonal(exponent), np.diagonal(moments)))
        same = np.where(_visible(len(moments), causal), same / np.diagonal(partition)[:, None], 0.0)
        through_query = variances["WQ"] * variances["WK"] * row * same.sum(axis=1)
        through_keys = (np.diagonal(exponent) * row) @ same
        return variances["WO"] * variances["WV"] * (values + np.diag(through_query + through_keys))

    def output_gradient(self, moments: Array, gradient: Array, weights: Weights, causal: bool) -> float:
        return float((self._mixed(moments, weights, causal) * gradient).sum())

    def _mixed(self, moments: Array, weights: Weights, causal: bool) -> Array:
        """Moments of the heads' outputs; rows of the softmax sum to 1, so the value's bias passes through whole."""
        overlap, _ = _softmax(moments, weights, causal)
        return weights.applied("WV", overlap)


def _exponent(moments: Array, weights: Weights) -> Array:
    """What multiplies C_jk in the covariance of rows i and i' of the logits: v_k (v_q C_ii' + b_q), (tokens, tokens)."""
    return weights.variances["WK"] * weights.applied("WQ", moments)


def _softmax(moments: Array, weights: Weights, causal: bool) -> tuple[Array, Array]:
    """(Σ_jk A_ii'jk C_jk, Z_ii'), both (tokens, tokens)."""
    if not np.all(np.isfinite(moments)):
        raise InvalidInput("attention's moments overflow: use a smaller gain")
    if not np.allclose(np.diagonal(moments), 1.0, atol=1e-8):
        raise InvalidInput(
            "attention's recursion holds for a normalised input only: choose a variant that normalises what enters "
            "the sublayer, or measure instead"
        )
    exponent = _exponent(moments, weights)
    partition = _series(exponent, lambda p: _masked(moments**p, causal), _terms(exponent))
    overlap = _series(exponent, lambda p: _masked(moments ** (p + 1), causal), _terms(exponent)) / partition
    return overlap, partition


def _series(base: Array, coefficient: Callable[[int], Array], terms: int) -> Array:
    """Σ_p base^p / p! · coefficient(p)."""
    total, power = np.zeros_like(base), np.ones_like(base)
    for p in range(terms):
        total = total + power * coefficient(p)
        power = power * base / (p + 1)
    return total


def _terms(exponent: Array) -> int:
    """How many terms e^x needs up to the largest exponent, reached where tokens are alike (|C| ≤ 1)."""
    return 24 + int(np.ceil(4 * np.abs(exponent).max()))


def _visible(tokens: int, causal: bool) -> Array:
    full = np.ones((tokens, tokens), dtype=bool)
    return np.tril(full) if causal else full


def _masked(terms: Array, causal: bool, transpose: bool = False) -> Array:
    """Sum of ``terms``[j, k] over j visible to i and k visible to i'; ``transpose``: over i seeing j and i' seeing k."""
    if not causal:
        return np.full_like(terms, terms.sum())
    if transpose:
        return terms[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1]
    return terms.cumsum(axis=0).cumsum(axis=1)
