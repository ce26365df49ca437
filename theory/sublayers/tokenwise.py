"""Token-wise sublayers: φ(W a), or W₂ φ(W₁ a) with a second matrix."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache

import numpy as np
import sympy

from theory.moments import Activation, activation, mean_value, slope_kernel, value_kernel
from theory.moments import q as variance
from theory.pairs import cosines, lengths
from theory.spectrum.slopes import LogTransform, slope_transform
from theory.sublayers.base import (
    NO_NORMS,
    Applied,
    Array,
    Factor,
    Fluctuations,
    Inner,
    Matrix,
    Role,
    SublayerMaps,
    Surroundings,
    Weights,
)


class TokenWise(SublayerMaps):
    """A feed-forward sublayer.

    At infinite width the pre-activations W₁a + b₁ are Gaussian with the moments of a, scaled and shifted by those of
    W₁ and b₁, so both maps are Gaussian kernels (Cho & Saul 2009; Poole et al. 2016, eq. 3; Schoenholz et al. 2017, eq. 5).
    A norm in the middle divides W₂'s input φ by √E φ² (RMSNorm) or by its standard deviation over the hidden units, after taking
    E φ off (LayerNorm); its projections are of order 1/width. Where there is one matrix it divides the argument.
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

    def exact_moments(self, inner: Inner = NO_NORMS) -> tuple[sympy.Expr, sympy.Expr] | None:
        phi = self.activation
        square, slope, mean = phi.second_moment, phi.derivative_moment, phi.first_moment
        if square is None or slope is None or mean is None:
            return None
        s, kappa, mean = (sympy.simplify(moment.subs(variance, 1)) for moment in (square, slope, mean))
        kind = self._middle(inner)
        divided = s - mean**2 if kind == "layer" else s
        return (s, kappa) if kind is None else (sympy.Integer(1), sympy.simplify(kappa / divided))

    def numeric_moments(self, inner: Inner = NO_NORMS) -> tuple[float, float]:
        """(s², κ²) as in `exact_moments`, by quadrature where there is no closed form."""
        square, slope = self.activation.moments(1.0)
        kind = self._middle(inner)
        return (square, slope) if kind is None else (1.0, slope / (square - _level(self.activation, 1.0, kind) ** 2))

    def _middle(self, inner: Inner) -> str | None:
        """Kind of the norm between the two matrices."""
        return inner.get("middle") if len(self.matrices) == 2 else None

    def pre_activation(self, moments: Array, weights: Weights, inner: Inner = NO_NORMS) -> float:
        divided = "middle" in inner and len(self.matrices) == 1
        return super().pre_activation(cosines(moments) if divided else moments, weights)

    def apply(self, moments: Array, weights: Weights, around: Surroundings) -> AppliedTokenWise:
        return AppliedTokenWise(self, moments, weights, around)

    def fluctuations(self, variance: float, expansion: int, inner: Inner = NO_NORMS) -> Fluctuations:
        """|u|² sums independent hidden units; a Gaussian output matrix adds 2 to its relative variance.

        Given u = W₂φ, the row W₂ᵀh is fixed along φ to (u·h)/|φ|, else fresh; with slopes D behind it, the part along φ
        weighs E[φ²φ'²]. Without W₂ it is h itself whose coordinates shrink where φ is large. |Jᵀh|² sums D²(W₂ᵀh)² (or D²h²),
        fourth powers of Gaussian coordinates: 3; the inner matrix adds 2.
        """
        if (kind := self._middle(inner)) is not None:
            return _normed_fluctuations(self.activation, float(variance), expansion, kind)
        return _fluctuations(self.activation, float(variance), expansion if len(self.matrices) == 2 else 0)

    def factor(self, variance: float, expansion: int) -> Factor:
        """S-transforms multiply: 1/(1 + t) of the outer Gaussian matrix (not in g), the slopes', 1/(1 + t) of the inner.

        Behind W₂ the inner two act in the hidden layer, c times as wide, where t counts as t/c.
        """
        slopes = slope_transform(self.activation, variance)
        return _behind_output_matrix(slopes, expansion) if len(self.matrices) == 2 else slopes


@lru_cache(maxsize=4096)
def _fluctuations(phi: Activation, variance: float, expansion: int) -> Fluctuations:
    square, slope = phi.moments(variance)
    fourth = phi.expectation(lambda z: phi.value(z) ** 4, variance) / square**2
    mixed = phi.expectation(lambda z: (phi.value(z) * phi.derivative(z)) ** 2, variance) / (square * slope)
    along = phi.expectation(lambda z: phi.value(z) * phi.derivative(z) * z, variance)
    moved = phi.expectation(lambda z: (phi.derivative(z) * z) ** 2, variance)
    slopes = phi.slope_ratio(variance)
    of_argument = (along / square, moved / square, moved / (variance * slope))
    if expansion:
        length, coupling, conditioned = 2 + (fourth - 1) / expansion, (mixed - 1) / expansion, mixed / expansion
        gradient = 2 + (3 * slopes - 1) / expansion
        parameters = {"W1": (coupling, conditioned), "W2": ((fourth - 1) / expansion, 0.0)}
        return Fluctuations(length, coupling, conditioned, *of_argument, gradient, slopes / expansion - 1, parameters)
    own, gradient = (mixed - 1, mixed - 1), 2 + 3 * (slopes - 1)
    return Fluctuations(fourth - 1, *own, *of_argument, gradient, slopes - 2, {"W": own})


@lru_cache(maxsize=4096)
def _normed_fluctuations(phi: Activation, variance: float, expansion: int, kind: str) -> Fluctuations:
    """With a norm N before W₂: φ̂ = N(φ) has a fixed length, and no gradient lies along it, whatever h is to u = W₂φ̂.

    With y = (φ − m)²/Var φ (m = 0 for RMSNorm) and M = E[y φ'²]/E φ'², the mean of Σφ'²/Σ(φ − m)² exceeds the ratio of the
    means by (E y² − M)/hidden units, and the projection takes M/hidden units off. LayerNorm's mean takes one off both sums.
    """
    square, slope = phi.moments(variance)
    mean = _level(phi, variance, kind)
    width = square - mean**2
    fourth = phi.expectation(lambda z: (phi.value(z) - mean) ** 4, variance) / width**2
    mixed = phi.expectation(lambda z: ((phi.value(z) - mean) * phi.derivative(z)) ** 2, variance) / (width * slope)
    moved = phi.expectation(lambda z: (phi.derivative(z) * z) ** 2, variance)
    outward = phi.expectation(lambda z: (phi.value(z) - mean) * phi.derivative(z) * z, variance)
    shifted = phi.expectation(lambda z: phi.derivative(z) * z, variance) if kind == "layer" else 0.0
    kept = max(0.0, moved - shifted**2 - outward**2 / width)
    slopes = phi.slope_ratio(variance)
    return Fluctuations(
        length=2.0,
        coupling=0.0,
        conditioned=0.0,
        degree=0.0,
        stretch=kept / width,
        along=kept / (variance * slope),
        gradient=2 + (3 * slopes - 1 + (fourth - 1) - 2 * (mixed - 1)) / expansion,
        slopes=slopes / expansion - 1,
        parameters={"W1": (0.0, 0.0), "W2": (0.0, 0.0)},
        excess=(fourth - 2 * mixed) / expansion,
    )


def _level(phi: Activation, variance: float, kind: str) -> float:
    """What a norm of this kind subtracts from φ."""
    return mean_value(phi, variance) if kind == "layer" else 0.0


@lru_cache(maxsize=4096)
def _behind_output_matrix(slopes: LogTransform, expansion: int) -> Factor:
    def factor(t: Array) -> tuple[Array, Array]:
        log_s, rise = slopes(t / expansion)
        return log_s - np.log1p(t / expansion), rise / expansion - 1 / (expansion + t)

    return factor


class AppliedTokenWise(Applied):
    """The maps at given tokens.

    Chance cosines of different tokens scatter over networks by (1 − c²)²/ν, and kernels are curved: E K(c) is the mean over
    one standard deviation either side, to first order in 1/ν.
    """

    def __init__(self, maps: TokenWise, moments: Array, weights: Weights, around: Surroundings) -> None:
        self._divided = lengths(moments) if "middle" in around.inner and len(maps.matrices) == 1 else None
        moments = moments if self._divided is None else cosines(moments)
        self._maps, self._moments, self._weights = maps, moments, weights
        self._middle = maps._middle(around.inner)
        length = lengths(moments)
        apart = 0.0 if around.freedom is None else 1 / np.sqrt(around.freedom)
        scatter = apart * (length - moments**2 / length) * (1 - np.eye(len(moments)))
        sides = (moments + scatter, moments - scatter) if apart and len(moments) > 1 else (moments,)
        self._pre_activations = [weights.applied(maps.matrices[0].name, side) for side in sides]

    def _mean(self, kernel: Callable[[Activation, Array], Array]) -> Array:
        found = [kernel(self._maps.activation, moments) for moments in self._pre_activations]
        return sum(found[1:], start=found[0]) / len(found)

    @cached_property
    def hidden(self) -> Array:
        """E φ(u_i)φ(u_j), of N(φ) where a norm follows."""
        return self._mean(value_kernel) if self._middle is None else cosines(self._centred)

    @cached_property
    def slopes(self) -> Array:
        """E φ'(u_i)φ'(u_j), over the root mean squares of φ that a norm behind it divides by."""
        slopes = self._mean(slope_kernel)
        return slopes if self._middle is None else slopes / lengths(self._centred)

    @cached_property
    def _centred(self) -> Array:
        """Second moments of φ without what the norm behind it subtracts."""
        phi, kind = self._maps.activation, self._middle
        assert kind is not None
        means = np.array([_level(phi, float(variance), kind) for variance in np.diagonal(self._pre_activations[0])])
        return self._mean(value_kernel) - np.multiply.outer(means, means)

    @cached_property
    def output(self) -> Array:  # type: ignore[override]
        return self._weights.applied("W2", self.hidden) if len(self._maps.matrices) == 2 else self.hidden

    def backward(self, gradient: Array) -> Array:
        below = np.prod([self._weights.variances[matrix.name] for matrix in self._maps.matrices]) * self.slopes * gradient
        return below if self._divided is None else below / self._divided

    def parameter_gradients(self, gradient: Array) -> dict[str, float]:
        return {name: float((kernel * gradient).sum()) for name, kernel in self.tangent_kernels.items()}

    @cached_property
    def tangent_kernels(self) -> dict[str, Array]:
        """Each matrix's part of the sublayer's neural tangent kernel over its fan-in, (tokens, tokens).

        (a_i·a_j)/fan_in · tr(R_i R_jᵀ)/width, with R_i the Jacobian from the matrix's output at token i to F.
        """
        if len(self._maps.matrices) == 1:
            return {"W": self._moments * self.slopes}
        return {"W1": self._moments * self.slopes * self._weights.variances["W2"], "W2": self.hidden}
