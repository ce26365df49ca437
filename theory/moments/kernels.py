"""E φ(u)φ(v) for jointly Gaussian pre-activations, element by element on a matrix of second moments."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import lgamma, log, sqrt

import numpy as np

from theory.moments.activations import _NODES, _WEIGHTS, Activation

Array = np.ndarray
_ORDER = 120  # terms of Mehler's series; smooth activations' coefficients are below 1e-15 long before


def value_kernel(activation: Activation, moments: Array) -> Array:
    """E φ(u_i)φ(u_j) for u ~ N(0, moments); shape (tokens, tokens)."""
    return _kernel(activation, moments, derivative=False)


def slope_kernel(activation: Activation, moments: Array) -> Array:
    """E φ'(u_i)φ'(u_j) for u ~ N(0, moments); shape (tokens, tokens)."""
    return _kernel(activation, moments, derivative=True)


def squared_slope_kernel(activation: Activation, moments: Array) -> Array:
    """E φ'(u_i)²φ'(u_j)² for u ~ N(0, moments); shape (tokens, tokens)."""
    return _kernel(_squared_slope(activation), moments, derivative=True)


@lru_cache(maxsize=32)
def _squared_slope(activation: Activation) -> Activation:
    """An activation whose slope is φ'²; its value is never asked for."""
    return replace(
        activation,
        name=f"({activation.name}')²",
        derivative=lambda z: activation.derivative(z) ** 2,
        slopes=None if activation.slopes is None else (activation.slopes[0] ** 2, activation.slopes[1] ** 2),
        polynomial=None,
    )


def _kernel(activation: Activation, moments: Array, derivative: bool) -> Array:
    variance = np.diagonal(moments)
    scale = np.sqrt(np.multiply.outer(variance, variance))
    cosine = np.clip(moments / scale, -1.0, 1.0)
    if activation.slopes is not None:
        return _piecewise_kernel(activation, scale, cosine, derivative)
    distinct, which = _distinct(variance)
    coefficients = np.stack([_hermite(activation, float(v), derivative) for v in distinct])
    off_diagonal = _mehler(coefficients, which, cosine)
    exact = np.array([activation.moments(float(v))[int(derivative)] for v in distinct])[which]
    np.fill_diagonal(off_diagonal, exact)
    return off_diagonal


def _piecewise_kernel(activation: Activation, scale: Array, cosine: Array, derivative: bool) -> Array:
    """Arc-cosine kernels (Cho & Saul 2009, eqs. 6, 7): φ(u) = b u + (a − b) relu(u), slopes b below 0, a above."""
    assert activation.slopes is not None
    b, a = (float(slope) for slope in activation.slopes)
    angle = np.arccos(cosine)
    if derivative:
        step = (np.pi - angle) / (2 * np.pi)
        return b * b + b * (a - b) + (a - b) ** 2 * step  # E[step] = ½ twice
    relu = (np.sqrt(np.clip(1 - cosine**2, 0, None)) + (np.pi - angle) * cosine) / (2 * np.pi)
    return scale * (b * b * cosine + b * (a - b) * cosine + (a - b) ** 2 * relu)  # E[u relu(v)] = c/2 twice


@lru_cache(maxsize=4096)
def _hermite(activation: Activation, variance: float, derivative: bool) -> Array:
    """Coefficients of z ↦ f(√variance z) in the orthonormal Hermite polynomials, so E f(u)f(v) = Σ a_k b_k c^k."""
    function = activation.derivative if derivative else activation.value
    weighted = _WEIGHTS * function(sqrt(variance) * _NODES)
    basis = _hermite_basis()
    return basis @ weighted


@lru_cache(maxsize=1)
def _hermite_basis() -> Array:
    rows = [np.ones_like(_NODES), _NODES]
    for k in range(1, _ORDER):
        rows.append((_NODES * rows[k] - sqrt(k) * rows[k - 1]) / sqrt(k + 1))
    # High orders overflow the weight's tail only where the weight is below 1e-30: bounded by (13²)^k/k!.
    assert _ORDER * log(169) - lgamma(_ORDER + 1) < 300
    return np.stack(rows)


def _distinct(values: Array) -> tuple[Array, Array]:
    """The distinct values and which of them each entry is; behind a norm there is one, and nothing to sort."""
    if np.all(values == values[0]):
        return values[:1], np.zeros(len(values), dtype=int)
    return np.unique(values, return_inverse=True)


def _mehler(coefficients: Array, which: Array, cosine: Array) -> Array:
    """Σ_k a_k(i) a_k(j) c_ij^k by Horner's rule, without the orders whose squares no double can see."""
    order = int(np.nonzero(np.abs(coefficients).max(axis=0) > 1e-10)[0].max(initial=0)) + 1
    total = np.zeros_like(cosine)
    for k in range(order - 1, -1, -1):
        of_order = coefficients[:, k]
        total *= cosine
        total += of_order[0] ** 2 if len(of_order) == 1 else np.multiply.outer(of_order[which], of_order[which])
    return total
