"""Activations, their exact second moments where sympy has them, and quadrature elsewhere.

``second_moment(q)`` is E φ(z)² and ``derivative_moment(q)`` is E φ'(z)², for z ~ N(0, q).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import sympy
from scipy.special import ndtr
from scipy.stats import norm

from theory.moments.gaussian import cdf, gaussian_expectation, pdf, q, x
from theory.registry import find

Array = np.ndarray

# The trapezoid rule converges geometrically for analytic integrands (Trefethen & Weideman 2014).
_NODES = np.linspace(-13.0, 13.0, 1665)
_WEIGHTS = norm.pdf(_NODES) * (_NODES[1] - _NODES[0])
# Both sides of 0 at half the weight each: a slope that jumps there is integrated like a smooth function.
_ASIDE = _NODES + np.where(_NODES == 0, np.finfo(float).tiny, 0.0)


@dataclass(frozen=True)
class Activation:
    """A scalar non-linearity φ.

    Args:
        name: as in a configuration.
        value, derivative: φ and φ' on arrays.
        homogeneous: φ(tz) = tφ(z) for t > 0, so that s² = κ² (Euler) and moments are linear in q.
        slopes: (negative, positive) slope of a piecewise linear φ.
        polynomial: φ as a polynomial in x and Φ(x), when it is one.
    """

    name: str
    value: Callable[[Array], Array]
    derivative: Callable[[Array], Array]
    homogeneous: bool = False
    slopes: tuple[sympy.Expr, sympy.Expr] | None = None
    polynomial: sympy.Expr | None = None

    @cached_property
    def second_moment(self) -> sympy.Expr | None:
        """E φ(z)² as an exact function of q, or None."""
        if self.slopes is not None:
            return q * self._mean_square_slope
        return None if self.polynomial is None else gaussian_expectation(self.polynomial**2)

    @cached_property
    def derivative_moment(self) -> sympy.Expr | None:
        """E φ'(z)² as an exact function of q, or None."""
        if self.slopes is not None:
            return self._mean_square_slope
        if self.polynomial is None:
            return None
        slope = sympy.diff(self.polynomial, x) + sympy.diff(self.polynomial, cdf) * pdf
        return gaussian_expectation(slope**2)

    @cached_property
    def first_moment(self) -> sympy.Expr | None:
        """E φ(z) as an exact function of q, or None."""
        if self.slopes is not None:
            return (self.slopes[1] - self.slopes[0]) * sympy.sqrt(q / (2 * sympy.pi))
        return None if self.polynomial is None else gaussian_expectation(self.polynomial)

    @property
    def _mean_square_slope(self) -> sympy.Expr:
        assert self.slopes is not None
        return sum(slope**2 for slope in self.slopes) / sympy.Integer(2)

    def expectation(self, function: Callable[[Array], Array], variance: float) -> float:
        """E function(z) for z ~ N(0, variance), by quadrature.

        The error is below 1e-12 for analytic functions; a kink or a jump at 0 is a node, so piecewise polynomials
        lose only the order of the node spacing squared.
        """
        scale = np.sqrt(variance)
        return float(_WEIGHTS @ (function(scale * _ASIDE) + function(-scale * _ASIDE[::-1])) / 2)

    def moments(self, variance: float) -> tuple[float, float]:
        """(E φ², E φ'²) at z ~ N(0, variance) as floats, exact where a closed form exists."""
        return _moments(self, float(variance))

    def slope_ratio(self, variance: float) -> float:
        """E φ'⁴/(E φ'²)² at z ~ N(0, variance), exact for piecewise linear φ (a kink is a node of the quadrature)."""
        if self.slopes is not None:
            low, high = (float(slope) ** 2 for slope in self.slopes)
            return 2 * (low**2 + high**2) / (low + high) ** 2
        return self.expectation(lambda z: self.derivative(z) ** 4, variance) / self.moments(variance)[1] ** 2


@lru_cache(maxsize=65536)
def mean_slope(activation: Activation, variance: float) -> float:
    """E φ'(z) at z ~ N(0, variance), by quadrature."""
    return activation.expectation(activation.derivative, variance)


@lru_cache(maxsize=65536)
def mean_value(activation: Activation, variance: float) -> float:
    """E φ(z) at z ~ N(0, variance), exact where a closed form exists."""
    if activation.slopes is not None:
        low, high = map(float, activation.slopes)
        return (high - low) * float(np.sqrt(variance / (2 * np.pi)))
    return activation.expectation(activation.value, variance)


@lru_cache(maxsize=65536)
def _moments(activation: Activation, variance: float) -> tuple[float, float]:
    if activation.slopes is not None:
        slope = float(activation._mean_square_slope)
        return variance * slope, slope
    square = activation.expectation(lambda z: activation.value(z) ** 2, variance)
    slope = activation.expectation(lambda z: activation.derivative(z) ** 2, variance)
    return square, slope


def _piecewise(name: str, negative: sympy.Expr) -> Activation:
    low = float(negative)
    return Activation(
        name,
        value=lambda z: np.where(z > 0, z, low * z),
        derivative=lambda z: np.where(z > 0, 1.0, low),
        homogeneous=True,
        slopes=(negative, sympy.Integer(1)),
    )


def _sigmoid(z: Array) -> Array:
    return 0.5 * (1 + np.tanh(z / 2))


ACTIVATIONS = {
    activation.name: activation
    for activation in (
        _piecewise("linear", sympy.Integer(1)),
        _piecewise("relu", sympy.Integer(0)),
        _piecewise("leaky-relu", sympy.Rational(1, 100)),  # torch's default slope
        Activation(
            "gelu",
            value=lambda z: z * ndtr(z),
            derivative=lambda z: ndtr(z) + z * norm.pdf(z),
            polynomial=x * cdf,
        ),
        Activation("tanh", value=np.tanh, derivative=lambda z: 1 - np.tanh(z) ** 2),
        Activation(
            "silu",
            value=lambda z: z * _sigmoid(z),
            derivative=lambda z: _sigmoid(z) * (1 + z * (1 - _sigmoid(z))),
        ),
    )
}


def activation(name: str) -> Activation:
    """The activation called ``name``.

    Raises:
        InvalidInput: unknown name.
    """
    return find("activation", name, ACTIVATIONS)
