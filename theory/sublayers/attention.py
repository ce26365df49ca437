"""Multi-head softmax attention, position by position: exact algebra at given patterns, averaged over them."""

from __future__ import annotations

import numpy as np
import sympy

from theory.errors import InvalidInput
from theory.sublayers.base import Applied, Array, Fluctuations, Matrix, Role, SublayerMaps, Surroundings, Weights
from theory.sublayers.patterns import sample


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

    def apply(self, moments: Array, weights: Weights, around: Surroundings) -> AppliedAttention:
        """The maps, by quadrature over attention patterns.

        Raises:
            InvalidInput: moments that are not finite.
        """
        if not np.all(np.isfinite(moments)):
            raise InvalidInput("attention's moments overflow: use a smaller gain")
        return AppliedAttention(moments, weights, around)

    def fluctuations(self, variance: float, expansion: int) -> Fluctuations:
        """Those of W_O W_V, which is all that is left of attention where tokens are alike."""
        below = dict.fromkeys(("WQ", "WK", "WV"), (0.0, 1.0))
        return Fluctuations(
            length=4.0,
            coupling=0.0,
            conditioned=1.0,
            degree=1.0,
            alignment=1.0,
            along=1.0,
            gradient=4.0,
            slopes=0.0,
            parameters=below | {"WO": (2.0, 0.0)},
        )


class AppliedAttention(Applied):
    """The maps at given tokens. Heads are independent copies: they enter by their width alone."""

    def __init__(self, moments: Array, weights: Weights, around: Surroundings) -> None:
        self._weights = weights
        self._patterns = sample(moments, weights, around)
        self._mixed = weights.applied("WV", self._patterns.mixed())
        self.output = weights.applied("WO", self._mixed)
        self.pattern = self._patterns.mean

    def backward(self, gradient: Array) -> Array:
        """Through values, queries and keys; the three are uncorrelated (an odd number of W_V, W_O, or W_Q, W_K between them)."""
        v, patterns = self._weights.variances, self._patterns
        through = (
            patterns.values(gradient) + v["WQ"] * v["WK"] * patterns.at_queries(gradient) + v["WK"] * patterns.at_keys(gradient)
        )
        return v["WV"] * v["WO"] * through.mean(axis=0)

    def parameter_gradients(self, gradient: Array) -> dict[str, float]:
        v, patterns = self._weights.variances, self._patterns
        logits = v["WV"] * v["WO"]

        def total(products: Array) -> float:
            return float(products.mean(axis=0).sum())

        return {
            "WQ": logits * v["WK"] * total(patterns.at_queries(gradient) * patterns.gram),
            # A row's logit gradients sum to 0, so only the tokens' differences count, which may have been enlarged.
            "WK": logits * total(patterns.at_keys(gradient) * patterns.gram) / patterns.enlarged,
            "WV": v["WO"] * total(patterns.values(gradient) * patterns.gram),
            "WO": float((self._mixed * gradient).sum()),
        }
