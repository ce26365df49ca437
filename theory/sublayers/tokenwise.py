"""Token-wise sublayers: φ(W a), or W₂ φ(W₁ a) with a second matrix."""

from __future__ import annotations

import numpy as np
import sympy

from theory.moments import activation, slope_kernel, value_kernel
from theory.moments import q as variance
from theory.sublayers.base import Array, Matrix, Role, SublayerMaps, Weights


class TokenWise(SublayerMaps):
    """A feed-forward sublayer.

    At infinite width the pre-activations W₁a + b₁ are Gaussian with the moments of a, scaled and shifted by those of
    W₁ and b₁, so both maps are Gaussian kernels (Cho & Saul 2009; Poole et al. 2016, eq. 3; Schoenholz et al. 2017, eq. 5).
    """

    tokenwise = True

    def __init__(self, name: str, two_matrices: bool) -> None:
        self.name = name
        self.activation = activation(name)
        self.homogeneous = self.activation.homogeneous
        self.matrices = (
            (Matrix("W1", Role.FFN_FIRST), Matrix("W2", Role.FFN_SECOND)) if two_matrices else (Matrix("W", Role.FFN_ONLY),)
        )
        inner = "W a" if name == "linear" else f"{name}(W1 a)" if two_matrices else f"{name}(W a)"
        self.equation = f"W2 {inner}" if two_matrices else inner

    def exact_moments(self) -> tuple[sympy.Expr, sympy.Expr] | None:
        square, slope = self.activation.second_moment, self.activation.derivative_moment
        if square is None or slope is None:
            return None
        return sympy.simplify(square.subs(variance, 1)), sympy.simplify(slope.subs(variance, 1))

    def forward(self, moments: Array, weights: Weights, causal: bool) -> Array:
        hidden = value_kernel(self.activation, self._pre_activation(moments, weights))
        return weights.applied("W2", hidden) if len(self.matrices) == 2 else hidden

    def backward(self, moments: Array, gradient: Array, weights: Weights, causal: bool) -> Array:
        slopes = slope_kernel(self.activation, self._pre_activation(moments, weights))
        return np.prod([weights.variances[matrix.name] for matrix in self.matrices]) * slopes * gradient

    def output_gradient(self, moments: Array, gradient: Array, weights: Weights, causal: bool) -> float:
        pre_activation = self._pre_activation(moments, weights)
        if len(self.matrices) == 2:
            return float((value_kernel(self.activation, pre_activation) * gradient).sum())
        return float((moments * slope_kernel(self.activation, pre_activation) * gradient).sum())

    def spread(self, variance: float, expansion: int) -> float | None:
        """Each free factor adds its own relative variance: 1 for a Gaussian matrix, and the slopes' (S-transforms multiply)."""
        slopes = self.activation.expectation(lambda z: self.activation.derivative(z) ** 4, variance)
        ratio = slopes / self.activation.moments(variance)[1] ** 2
        return 2 + ratio / expansion if len(self.matrices) == 2 else 1 + ratio

    def length_spread(self, variance: float, expansion: int) -> float | None:
        """|F|² sums independent terms: 2 from a Gaussian output matrix, and the hidden units' own fluctuation."""
        fourth = self.activation.expectation(lambda z: self.activation.value(z) ** 4, variance)
        hidden = fourth / self.activation.moments(variance)[0] ** 2 - 1
        return 2 + hidden / expansion if len(self.matrices) == 2 else hidden

    def _pre_activation(self, moments: Array, weights: Weights) -> Array:
        return weights.applied(self.matrices[0].name, moments)
