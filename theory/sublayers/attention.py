"""Multi-head softmax attention, position by position: exact algebra at given patterns, averaged over them."""

from __future__ import annotations

import numpy as np
import sympy

from theory.errors import InvalidInput
from theory.sublayers.base import (
    NO_NORMS,
    Applied,
    Array,
    Fluctuations,
    Inner,
    Matrix,
    Role,
    SublayerMaps,
    Surroundings,
    Weights,
)
from theory.sublayers.normed import normed_sample
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

    def exact_moments(self, inner: Inner = NO_NORMS) -> tuple[sympy.Expr, sympy.Expr] | None:
        return None  # both depend on how alike the tokens are

    def apply(self, moments: Array, weights: Weights, around: Surroundings) -> AppliedAttention:
        """The maps, by quadrature over attention patterns.

        Raises:
            InvalidInput: moments that are not finite; heads too narrow for a norm.
        """
        if not np.all(np.isfinite(moments)):
            raise InvalidInput("attention's moments overflow: use a smaller gain")
        return AppliedAttention(moments, weights, around)

    def fluctuations(self, variance: float, expansion: int, inner: Inner = NO_NORMS) -> Fluctuations:
        """Those of W_O W_V, which is all that is left of attention where tokens are alike.

        A norm between them fixes the length of what W_O reads, and no gradient lies along it: as in the middle of a linear
        hidden layer. Norms of values are in the maps already, and so is what they do to the mean gradient.
        """
        below = dict.fromkeys(("WQ", "WK", "WV"), (0.0, 1.0))
        if "value" in inner or "middle" in inner:
            return Fluctuations(
                length=2.0,
                coupling=0.0,
                conditioned=0.0,
                degree=0.0,
                stretch=0.0,
                along=0.0,
                gradient=6.0,
                slopes=0.0,
                parameters=dict.fromkeys((*below, "WO"), (0.0, 0.0)),
                excess=0.0 if "value" in inner else 1.0,
            )
        return Fluctuations(
            length=4.0,
            coupling=0.0,
            conditioned=1.0,
            degree=1.0,
            stretch=1.0,
            along=1.0,
            gradient=4.0,
            slopes=0.0,
            parameters=below | {"WO": (2.0, 0.0)},
        )


class AppliedAttention(Applied):
    """The maps at given tokens. Heads are independent copies: they enter by their width alone."""

    def __init__(self, moments: Array, weights: Weights, around: Surroundings) -> None:
        self._weights = weights
        self._patterns = (normed_sample if around.inner else sample)(moments, weights, around)
        mixed = self._patterns.mixed()
        self._mixed = mixed if around.inner else weights.applied("WV", mixed)
        # Variances that the points leave to be multiplied in: of what the rows read, and of the keys.
        self._of_values = 1.0 if around.inner else weights.variances["WV"]
        self._of_keys = 1.0 if "key" in around.inner else weights.variances["WK"]
        self.output = weights.applied("WO", self._mixed)
        self.pattern = self._patterns.mean

    def backward(self, gradient: Array) -> Array:
        """Through values, queries and keys; the three are uncorrelated (an odd number of W_V, W_O, or W_Q, W_K between them)."""
        v, patterns = self._weights.variances, self._patterns
        through = (
            v["WV"] / self._of_values * patterns.values(gradient)
            + v["WQ"] * self._of_keys * patterns.at_queries(gradient)
            + v["WK"] * patterns.at_keys(gradient)
        )
        return self._of_values * v["WO"] * through.mean(axis=0)

    def parameter_gradients(self, gradient: Array) -> dict[str, float]:
        v, patterns = self._weights.variances, self._patterns
        logits = self._of_values * v["WO"]

        def total(products: Array) -> float:
            return float(products.mean(axis=0).sum())

        return {
            "WQ": logits * self._of_keys * total(patterns.at_queries(gradient) * patterns.tokens),
            # A row's logit gradients sum to 0, so only the tokens' differences count, which may have been enlarged.
            "WK": logits * total(patterns.at_keys(gradient) * patterns.tokens) / patterns.enlarged,
            "WV": v["WO"] * total(patterns.values(gradient) * patterns.tokens),
            "WO": float((self._mixed * gradient).sum()),
        }
