"""S-transform of the squared slopes D² of an activation, scaled to mean one.

With x(z) the inverse of ψ(x) = E[r x/(1 − r x)], r = φ'(u)²/E φ'², the S-transform is S(z) = x(z)(1 + z)/z (Voiculescu 1987).
Piecewise linear activations have a two-point law and a closed form; others are a quadrature over u ~ N(0, q).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.stats import norm

from theory.moments import Activation

Array = np.ndarray
LogTransform = Callable[[Array], tuple[Array, Array]]
"""z ↦ (log S(z), d log S/dz)."""

_NODES = np.linspace(-4.0, 4.0, 2049)
"""In standard deviations; a unit further out is one in 16,000: it is an outlier of wider networks, not part of the law."""
_WEIGHTS = norm.pdf(_NODES) / norm.pdf(_NODES).sum()
_PLACES, _CLOSEST = 96, 1e-3
"""Points of the table, and how near to the pole x = 1/max r it goes (the quadrature resolves poles down to there)."""


def slope_transform(activation: Activation, variance: float) -> LogTransform:
    """The transform of ``activation``'s squared slopes at pre-activations of this variance."""
    if activation.slopes is not None:
        low, high = (float(slope) ** 2 for slope in activation.slopes)
        return _two_points(4 * low * high / (low + high) ** 2)
    return _quadrature(activation, float(f"{variance:.12g}"))


@lru_cache(maxsize=64)
def _two_points(product: float) -> LogTransform:
    """r takes two values of sum 2 with chance ½ each: a quadratic for x(z), with ``product`` of the values in it."""

    def transform(z: Array) -> tuple[Array, Array]:
        rest = 1 - product
        root = np.sqrt(1 + 4 * rest * z * (1 + z))
        below = 1 + 2 * z + root
        return np.log(2 * (1 + z) / below), 1 / (1 + z) - (2 + 2 * rest * (1 + 2 * z) / root) / below

    return transform


@lru_cache(maxsize=4096)
def _quadrature(activation: Activation, variance: float) -> LogTransform:
    """A table along x from 0 to the pole, interpolated in log(1 + z); beyond it x stays at the pole."""
    squares = activation.derivative(np.sqrt(variance) * _NODES) ** 2
    ratios = squares / (_WEIGHTS @ squares)
    x = (1 - np.geomspace(1.0, _CLOSEST, _PLACES)) / ratios.max()
    resolvent = (ratios[:, None] / (1 - ratios[:, None] * x)).T @ _WEIGHTS  # ψ(x)/x
    z = x * resolvent
    spline = CubicSpline(np.log1p(z), np.log((1 + z) / resolvent))
    slope = spline.derivative()

    def transform(at: Array) -> tuple[Array, Array]:
        inside, beyond = np.log1p(np.minimum(at, z[-1])), np.maximum(at, z[-1])
        pole = (1 + beyond) / beyond
        return np.where(at < z[-1], spline(inside), np.log(x[-1] * pole)), np.where(
            at < z[-1], slope(inside) / (1 + at), 1 / (1 + beyond) - 1 / beyond
        )

    return transform
