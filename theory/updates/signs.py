"""How the sign step of one matrix moves its sublayer's output F, statistically.

W's output at token i moves by −η κ_i, κ_i = Σ_k a_ik sign(Σ_j a_jk δ_j) for each of its coordinates: for one token
‖a‖₁ sign(δ), for several a function of the tokens' gradients δ_1 … δ_n at that coordinate, deterministic at infinite fan-in:
κ_i(δ) = fan_in · E_a[a_i sign(a·δ)], √(2/π) fan_in (Cδ)_i/√(δᵀCδ) for Gaussian a of covariance C.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import pi, sqrt

import numpy as np
from scipy.stats import norm, qmc

from theory.configuration import Configuration
from theory.updates.path import PathStep

Array = np.ndarray
ALONG = sqrt(2 / pi)
"""E|z| of a standard normal: the part of sign(z) along z."""


@dataclass(frozen=True)
class SignStep:
    """What one matrix does to F, per coordinate and per unit of η; tokens i (moved) and j (whose gradient moves it).

    Attributes:
        aligned: (i, j), coefficient of δ_j/|δ_j|, δ at F per coordinate.
        rest: (i,), root mean square of what is left of an elementwise function of δ.
        fresh: (i,), variance of what is independent of all other matrices.
        shared: (i, j), overlap of ``aligned`` with the path through the matrix's own branch.
    """

    aligned: Array
    rest: Array
    fresh: Array
    shared: Array


def sign_steps(configuration: Configuration, step: PathStep) -> dict[str, SignStep]:
    """The matrices of one sublayer: closed forms and quadrature for one token, quasi-Monte Carlo for several."""
    return _single(configuration, step) if len(step.moments) == 1 else _several(configuration, step)


def _single(configuration: Configuration, step: PathStep) -> dict[str, SignStep]:
    """sign(a) sign(δ)ᵀ is exactly rank one."""
    activation, variance = step.maps.activation, float(step.first_variances[0, 0])
    slope, square, cube = (activation.expectation(_slope_power(step, k), variance) for k in (1, 2, 3))
    left, expansion = sqrt(1 - 2 / pi), configuration.expansion
    entering = configuration.width * ALONG * sqrt(float(step.moments[0, 0]))
    overlap = cube / (square * slope)
    if len(step.maps.matrices) == 1:
        moved = entering * slope
        return {"W": _of_one(ALONG * moved, left * moved, entering**2 * (square - slope**2), overlap)}
    output = step.variances["W2"]
    hidden = configuration.width * expansion * activation.expectation(lambda z: np.abs(activation.value(z)), variance)
    along = ALONG * entering * slope * sqrt(output * expansion)
    first = _of_one(along, 0.0, entering**2 * output * square, 1 + overlap / expansion)
    return {"W1": first, "W2": _of_one(ALONG * hidden, left * hidden, 0.0, 1.0)}


def _slope_power(step: PathStep, power: int) -> Callable[[Array], Array]:
    return lambda z: np.abs(step.maps.activation.derivative(z)) ** power


def _of_one(aligned: float, rest: float, fresh: float, shared: float) -> SignStep:
    return SignStep(np.array([[aligned]]), np.array([rest]), np.array([fresh]), np.array([[shared]]))


_INPUTS, _GRADIENTS = 4096, 1024
"""Quasi-random points for the tokens' inputs and gradients; halving either changes a prediction by under 1 %."""


def _several(configuration: Configuration, step: PathStep) -> dict[str, SignStep]:
    activation, expansion, width = step.maps.activation, configuration.expansion, configuration.width
    tokens = len(step.moments)
    lengths = np.sqrt(step.gradient) * np.abs(step.above)
    units, gradients = _normals(tokens, _GRADIENTS, 0), _normals(tokens, _GRADIENTS, 0) * lengths
    before = _normals(tokens, _GRADIENTS, 1) @ _root(step.first_variances)
    slopes = activation.derivative(before)
    if len(step.maps.matrices) == 1:
        moved = slopes * width * _gaussian_inputs(step.moments, slopes * gradients)
        aligned = moved.T @ units / len(units)
        elementwise = width * _gaussian_inputs(step.moments, gradients) * np.abs(slopes).mean(axis=0)
        rest = (elementwise**2).mean(axis=0) - ((elementwise.T @ units / len(units)) ** 2).sum(axis=1)
        total = (moved**2).mean(axis=0) - (aligned**2).sum(axis=1)
        rest = np.minimum(np.clip(rest, 0, None), total)
        return {"W": SignStep(aligned, np.sqrt(rest), total - rest, _overlap(slopes, moved / width, units))}
    output = step.variances["W2"]
    inner = slopes * width * _gaussian_inputs(step.moments, slopes * gradients)
    first = SignStep(
        sqrt(output * expansion) * inner.T @ units / len(units),
        np.zeros(tokens),
        output * (inner**2).mean(axis=0),
        1 + _overlap(slopes, inner, units) / expansion,
    )
    hidden = activation.value(_normals(tokens, _INPUTS, 2) @ _root(step.first_variances))
    moved = width * expansion * np.sign(gradients @ hidden.T) @ hidden / len(hidden)
    aligned = moved.T @ units / len(units)
    rest = np.clip((moved**2).mean(axis=0) - (aligned**2).sum(axis=1), 0, None)
    return {"W1": first, "W2": SignStep(aligned, np.sqrt(rest), np.zeros(tokens), np.ones_like(aligned))}


def _gaussian_inputs(moments: Array, gradients: Array) -> Array:
    """E_a[a_i sign(a·δ)] for a ~ N(0, moments), (points, tokens)."""
    mixed = gradients @ moments
    length = np.sqrt(np.clip((mixed * gradients).sum(axis=1, keepdims=True), 0, None))
    return ALONG * np.divide(mixed, length, out=np.zeros_like(mixed), where=length > 0)


def _overlap(slopes: Array, moved: Array, units: Array) -> Array:
    """E[φ'_i φ'_j · moved_i z_j]·… over its means' product: how far reach and branch share their slopes."""
    count = len(slopes)
    together = (slopes * moved).T @ (slopes * units) / count
    apart = (slopes.T @ slopes / count) * (moved.T @ units / count)
    return np.divide(together, apart, out=np.ones_like(apart), where=np.abs(apart) > 1e-3 * np.abs(apart).max())


def _root(moments: Array) -> Array:
    values, vectors = np.linalg.eigh(moments)
    return (vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T


@lru_cache(maxsize=64)
def _normals(tokens: int, points: int, stream: int) -> Array:
    """Scrambled Sobol points as independent standard normals."""
    uniform = qmc.Sobol(3 * tokens, scramble=True, rng=0).random(points)[:, stream * tokens : (stream + 1) * tokens]
    return norm.ppf(np.clip(uniform, 1e-12, 1 - 1e-12))
