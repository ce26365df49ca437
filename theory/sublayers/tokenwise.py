"""Token-wise sublayers: φ(W a), or W₂ φ(W₁ a) with a second matrix."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy

from theory.moments import activation, slope_kernel, value_kernel
from theory.moments import q as variance
from theory.spectrum.slopes import LogTransform, slope_transform
from theory.sublayers.base import Array, Factor, Matrix, SublayerMaps, Variances


class TokenWise(SublayerMaps):
    """A feed-forward sublayer with Gaussian weights of variance 1/fan_in (times gain).

    At infinite width the pre-activations W₁a are Gaussian with the moments of a, so both maps are
    Gaussian kernels (Cho & Saul 2009; Poole et al. 2016, eq. 3; Schoenholz et al. 2017, eq. 5).
    """

    tokenwise = True

    def __init__(self, name: str, two_matrices: bool) -> None:
        self.name = name
        self.activation = activation(name)
        self.homogeneous = self.activation.homogeneous
        self.matrices = (Matrix("W1"), Matrix("W2")) if two_matrices else (Matrix("W"),)
        inner = "W a" if name == "linear" else f"{name}(W1 a)" if two_matrices else f"{name}(W a)"
        self.equation = f"W2 {inner}" if two_matrices else inner

    def exact_moments(self) -> tuple[sympy.Expr, sympy.Expr] | None:
        square, slope = self.activation.second_moment, self.activation.derivative_moment
        if square is None or slope is None:
            return None
        return sympy.simplify(square.subs(variance, 1)), sympy.simplify(slope.subs(variance, 1))

    def forward(self, moments: Array, variances: Variances, causal: bool) -> Array:
        return self._output_gain(variances) * self._hidden(moments, variances)

    def backward(self, moments: Array, gradient: Array, variances: Variances, causal: bool) -> Array:
        first = variances[self.matrices[0].name]
        return first * slope_kernel(self.activation, first * moments) * self._output_gain(variances) * gradient

    def output_gradient(self, moments: Array, gradient: Array, variances: Variances, causal: bool) -> float:
        if len(self.matrices) == 2:
            return float((self._hidden(moments, variances) * gradient).sum())
        first = variances[self.matrices[0].name]
        return float((moments * slope_kernel(self.activation, first * moments) * gradient).sum())

    def spread(self, variance: float, expansion: int) -> float | None:
        """Each free factor adds its own relative variance: 1 for a Gaussian matrix, and the slopes' (S-transforms multiply)."""
        ratio = self.activation.slope_ratio(variance)
        return 2 + ratio / expansion if len(self.matrices) == 2 else 1 + ratio

    def factor(self, variance: float, expansion: int) -> Factor:
        """S-transforms multiply: 1/(1 + t) of the outer Gaussian matrix (not in g), the slopes', 1/(1 + t) of the inner.

        Behind W₂ the inner two act in the hidden layer, c times as wide, where t counts as t/c.
        """
        slopes = slope_transform(self.activation, variance)
        return _behind_output_matrix(slopes, expansion) if len(self.matrices) == 2 else slopes

    def length_spread(self, variance: float, expansion: int) -> float | None:
        """|F|² sums independent terms: 2 from a Gaussian output matrix, and the hidden units' own fluctuation."""
        fourth = self.activation.expectation(lambda z: self.activation.value(z) ** 4, variance)
        hidden = fourth / self.activation.moments(variance)[0] ** 2 - 1
        return 2 + hidden / expansion if len(self.matrices) == 2 else hidden

    def _hidden(self, moments: Array, variances: Variances) -> Array:
        return value_kernel(self.activation, variances[self.matrices[0].name] * moments)

    def _output_gain(self, variances: Variances) -> float:
        return variances["W2"] if len(self.matrices) == 2 else 1.0


@lru_cache(maxsize=4096)
def _behind_output_matrix(slopes: LogTransform, expansion: int) -> Factor:
    def factor(t: Array) -> tuple[Array, Array]:
        log_s, rise = slopes(t / expansion)
        return log_s - np.log1p(t / expansion), rise / expansion - 1 / (expansion + t)

    return factor
