"""Upper edge of the squared singular values of a stack's Jacobian, layer by layer, and its shift at finite width.

S-transforms of independent steps multiply, so from layer l to the output, in units of the mean squared gain,

    z(ψ) = (1 + ψ)/ψ · ∏_{j>l} 1/S_j(ψ),

and the edge is its minimum over ψ > 0. There z is a parabola, the density ends as a square root, and the largest eigenvalue
of a real matrix of width d follows Tracy and Widom's law for β = 1: with ρ(λ) ≈ (1/π) γ^{−3/2} √(z* − λ), its mean is
z* + γ d^{−2/3} E[TW₁], and γ/z* = (½ ∂²log z/∂ψ²)^{1/3}. The next term, for real matrices, is that a dimension d counts as
d − ½ (Ma 2012 for W Wᵀ; products of Gaussian matrices alike), which takes 1/(2dψ*) off log z*.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.polynomial import polynomial

from theory.errors import InvalidInput
from theory.finite_width.paths import TWO_PATHS, derived
from theory.finite_width.variance import path_gains, singular_variance
from theory.prediction import Profile, mean_square
from theory.spectrum.step import StepLaws
from theory.sublayers.base import Factor

Array = np.ndarray
TRACY_WIDOM_MEAN = -1.2065335745820
"""Mean of Tracy and Widom's law for β = 1 (Bornemann 2010, table 2)."""
_MARGIN, _SPACING = 4.0, 0.05
_STENCIL = np.arange(-3, 4)


@dataclass(frozen=True)
class Edges:
    """The worst case at layers 0..L, arrays of shape (L + 1,).

    Attributes:
        mean: mean squared singular value (the squared stream gradient), which scales the whole spectrum: to first order
            in 1/width from a profile of finite width.
        ratio: edge over mean at infinite width.
        scale: γ/edge, relative scale of the largest eigenvalue's fluctuations at width 1.
        inverse_place: 1/ψ* (0 at the output), which tends to ΣV_j as that grows.
        variance: ΣV_j of the steps above the layer.
    """

    mean: Array
    ratio: Array
    scale: Array
    inverse_place: Array
    variance: Array

    @property
    def infinite_width(self) -> Array:
        """Λ: the edge itself."""
        return self.mean * self.ratio

    def at(self, width: int) -> Array:
        """Mean squared operator norm at this width, for ΣV/d well below one.

        The shift is put on the logarithm, in which steps add; on the value it is the same to this order, but would turn
        negative where ΣV/d reaches one.
        """
        shift = TRACY_WIDOM_MEAN * self.scale * width ** (-2 / 3) - self.inverse_place / (2 * width)
        return self.infinite_width * np.exp(shift)


def edges(profile: Profile) -> Edges:
    """Edges of a network whose steps have two paths, with token-wise sublayers.

    Raises:
        InvalidInput: steps of another form, or a sublayer that mixes tokens.
    """
    configuration = profile.configuration
    if not derived(configuration.variant):
        raise InvalidInput(f"no law for the operator norm of {configuration.variant.name}: {TWO_PATHS} (measure has it for any)")
    if not configuration.tokenwise:
        raise InvalidInput(
            f"no law for the operator norm with the sublayers {','.join(configuration.sublayers)}: "
            "use token-wise ones, such as relu (measure has it for any)"
        )
    variances = np.array([sum(singular_variance(configuration, step) for step in block) for block in profile.blocks])
    above = np.append(np.cumsum(variances[::-1])[::-1], 0.0)
    mean = np.array([mean_square(moments) for moments in profile.backward])
    ratio, scale, inverse_place = np.ones_like(above), np.zeros_like(above), np.zeros_like(above)
    spread = above > 0  # at the output, and below steps that are all the identity, every singular value is 1
    if not spread.any():
        return Edges(mean, ratio, scale, inverse_place, above)
    low, high = (np.log(_broad_minimum(v) * by) for v, by in ((above[0], 1 / _MARGIN), (variances[variances > 0].min(), _MARGIN)))
    log_psi = np.arange(low, high, _SPACING)
    steps = _laws(profile).log_transforms(np.exp(log_psi))
    blocks = steps.reshape(len(profile.blocks), -1, len(log_psi)).sum(axis=1)
    rows = np.log1p(np.exp(-log_psi)) - np.cumsum(blocks[::-1], axis=0)[::-1]
    place, value, second = _minima(rows[spread[:-1]])
    psi = np.exp(low + _SPACING * place)
    ratio[spread], inverse_place[spread] = np.exp(value), 1 / psi
    scale[spread] = np.cbrt(second / (_SPACING * psi) ** 2 / 2)
    return Edges(mean, ratio, scale, inverse_place, above)


def _broad_minimum(variance: float) -> float:
    """Where z is least if every step is close to the identity: log S = −Vψ, so ψ(1 + ψ) = 1/ΣV."""
    return float((np.sqrt(1 + 4 / variance) - 1) / 2)


def _laws(profile: Profile) -> StepLaws:
    configuration = profile.configuration
    steps = [step for block in profile.blocks for step in block]
    gains = np.array([path_gains(step) for step in steps])
    factors: list[Factor] = []
    for step in steps:
        factor = step.maps.factor(step.pre_activation, configuration.expansion)
        assert factor is not None
        factors.append(factor)
    return StepLaws(gains[:, 0], gains[:, 1], factors)


def _minima(rows: Array) -> tuple[Array, Array, Array]:
    """(place, value, second derivative) of the minimum of each row, in units of the spacing, by a local polynomial.

    Raises:
        ArithmeticError: a minimum at an end of a row.
    """
    best = rows.argmin(axis=1)
    if best.min() < -_STENCIL[0] or best.max() >= rows.shape[1] - _STENCIL[-1]:
        raise ArithmeticError("the edge lies outside the interval in which it was looked for")
    near = np.take_along_axis(rows, best[:, None] + _STENCIL, axis=1)
    series = np.linalg.solve(polynomial.polyvander(_STENCIL, len(_STENCIL) - 1), near.T)
    first, second = polynomial.polyder(series), polynomial.polyder(series, 2)
    place = np.zeros(len(rows))
    for _ in range(8):
        rise, bend = (polynomial.polyval(place, part, tensor=False) for part in (first, second))
        place = np.clip(place - rise / bend, -1.0, 1.0)
    return best + place, polynomial.polyval(place, series, tensor=False), polynomial.polyval(place, second, tensor=False)
