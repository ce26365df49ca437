"""Multi-head softmax attention at leading order in 1/width, position by position.

The logits of row i have covariance C_ii' C_jk over (row i, column j) and (row i', column k), so to leading order

    E[a_ij a_i'k] = e^{C_jk C_ii'} / Z_ii',   Z_ii' = Σ_{j visible to i, k visible to i'} e^{C_jk C_ii'}

(a ratio of expectations in place of the expectation of the ratio). Every sum over (j, k) is a power series in
C_ii' whose coefficients are masked sums of powers of C, so a pass costs O(terms · tokens²) instead of tokens⁴.
Heads are independent copies: their number does not enter at this order. Terms of relative order
tokens/width (the softmax's tilt towards the query) are left out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import sympy

from theory.errors import InvalidInput
from theory.sublayers.base import Array, Matrix, SublayerMaps, Variances


class Attention(SublayerMaps):
    """W_O concat_h softmax(Q_h K_hᵀ/√d_h) V_h with separate Gaussian W_Q, W_K, W_V, W_O of variance 1/width."""

    name = "attention"
    equation = "WO concat_h softmax(Q_h K_h'/sqrt(d_h)) V_h"
    matrices = (Matrix("WQ", branch=False), Matrix("WK", branch=False), Matrix("WV"), Matrix("WO"))
    tokenwise = False
    homogeneous = False

    def exact_moments(self) -> tuple[sympy.Expr, sympy.Expr] | None:
        return None  # both depend on how alike the tokens are

    def forward(self, moments: Array, variances: Variances, causal: bool) -> Array:
        overlap, _ = _weights(moments, variances, causal)
        return variances["WO"] * variances["WV"] * overlap

    def backward(self, moments: Array, gradient: Array, variances: Variances, causal: bool) -> Array:
        overlap, partition = _weights(moments, variances, causal)
        logits = variances["WQ"] * variances["WK"]
        weighted = gradient / partition
        values = _series(moments, lambda p: _masked(weighted * (logits * moments) ** p, causal, transpose=True), logits)
        row, same = _softmax_jacobian(moments, gradient, overlap, partition, logits, causal)
        diagonal = logits * (row * same.sum(axis=1) + row @ same)
        return variances["WO"] * variances["WV"] * (values + np.diag(diagonal))

    def parameter_gradients(self, moments: Array, gradient: Array, variances: Variances, causal: bool) -> dict[str, float]:
        """W_V and W_O see the same Gram matrices, Σ_ii' O_ii'(δ_i·δ_i').

        With M = Σ_ij a_ij δ_i·(v_j − o_i) x_i x_jᵀ the gradient of W_Q is M W_K and that of W_K is Mᵀ W_Q; ‖M‖² is taken
        at the order of `backward`: diagonal in the tokens, Σ_i Γ_ii (1 − m_i)² Σ_j A_iijj.
        """
        overlap, partition = _weights(moments, variances, causal)
        values = float((overlap * gradient).sum())
        row, same = _softmax_jacobian(moments, gradient, overlap, partition, variances["WQ"] * variances["WK"], causal)
        logits = variances["WV"] * variances["WO"] * float(row @ same.sum(axis=1))
        return {
            "WQ": variances["WK"] * logits,
            "WK": variances["WQ"] * logits,
            "WV": variances["WO"] * values,
            "WO": variances["WV"] * values,
        }


def _weights(moments: Array, variances: Variances, causal: bool) -> tuple[Array, Array]:
    """(Σ_jk A_ii'jk C_jk, Z_ii'), both (tokens, tokens)."""
    if not np.all(np.isfinite(moments)):
        raise InvalidInput("attention's moments overflow: use a smaller gain")
    if not np.allclose(np.diagonal(moments), 1.0, atol=1e-8):
        raise InvalidInput(
            "attention's recursion holds for a normalised input only: choose a variant that normalises what enters "
            "the sublayer, or measure instead"
        )
    logits = variances["WQ"] * variances["WK"]
    partition = _series(moments, lambda p: _masked(moments**p, causal), logits, logits)
    overlap = _series(moments, lambda p: _masked(moments ** (p + 1), causal), logits, logits) / partition
    return overlap, partition


def _softmax_jacobian(
    moments: Array, gradient: Array, overlap: Array, partition: Array, logits: float, causal: bool
) -> tuple[Array, Array]:
    """(Γ_ii (1 − m_i)², A_iijj): each row's softmax Jacobian for queries and keys, diagonal in the tokens at this order."""
    row = np.diagonal(gradient) * (1 - np.diagonal(overlap)) ** 2
    same = np.exp(logits * np.multiply.outer(np.diagonal(moments), np.diagonal(moments)))
    return row, np.where(_visible(len(moments), causal), same / np.diagonal(partition)[:, None], 0.0)


def _series(moments: Array, coefficient: Callable[[int], Array], logits: float, scale: float = 1.0) -> Array:
    """Σ_p (scale·moments)^p / p! · coefficient(p); the terms fall like logits^p / p! since |moments| ≤ 1."""
    total, power = np.zeros_like(moments), np.ones_like(moments)
    for p in range(24 + int(np.ceil(4 * logits))):
        total = total + power * coefficient(p)
        power = power * (scale * moments) / (p + 1)
    return total


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
