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


def kernel_between(activation: Activation, moments: Array, variances: tuple[Array, Array], derivative: bool = False) -> Array:
    """E φ(u_i)φ(v_j), or of the derivatives, between two sets of jointly Gaussian pre-activations.

    Args:
        activation: φ.
        moments: E u_i v_j, (left, right).
        variances: E u_i², (left,), and E v_j², (right,).
        derivative: E φ'(u_i)φ'(v_j) instead.
    """
    if not moments.size:
        return np.zeros_like(moments)
    scale = np.sqrt(np.multiply.outer(*variances))
    cosine = np.clip(moments / scale, -1.0, 1.0)
    if activation.slopes is not None:
        return _piecewise_kernel(activation, scale, cosine, derivative)
    if activation.name in _CLOSED:
        return _CLOSED[activation.name](*variances, cosine, derivative)
    left, right = (_coefficients(activation, variance, derivative) for variance in variances)
    return _mehler(left, right, cosine)


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
    found = kernel_between(activation, moments, (variance, variance), derivative)
    if activation.slopes is None:
        distinct, which = _distinct(variance)
        np.fill_diagonal(found, np.array([activation.moments(float(v))[int(derivative)] for v in distinct])[which])
    return found


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


def _gelu_kernel(left: Array, right: Array, cosine: Array, derivative: bool) -> Array:
    """GELU's kernels in closed form: Stein's lemma on E uv Φ(u)Φ(v), and its derivative by the covariance c (Price's theorem).

    E Φ(u)Φ(v) = ¼ + asin(r)/2π with r = c/√((1+a)(1+b)), and D = E φ(u)φ(v) for the normal density φ.
    """
    a, b = np.asarray(left)[:, None], np.asarray(right)[None, :]
    c = np.sqrt(a * b) * cosine
    apart = a * b * (1 - cosine**2)
    determinant = 1 + a + b + apart
    density = 1 / (2 * np.pi * np.sqrt(determinant))
    both = 0.25 + np.arcsin(np.clip(c / np.sqrt((1 + a) * (1 + b)), -1.0, 1.0)) / (2 * np.pi)
    shares = 1 / (1 + a) + 1 / (1 + b)
    rest = apart + c**2 * shares
    if derivative:
        return both + c * density * (2 * shares - 1 + rest / determinant)
    return c * both + density * rest


_CLOSED = {"gelu": _gelu_kernel}
"""Kernels of smooth activations in closed form: (variances left, right, cosines, of the derivative)."""


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


def _coefficients(activation: Activation, variances: Array, derivative: bool) -> Array:
    """Hermite coefficients at each variance; one row where all are equal."""
    distinct, which = _distinct(variances)
    rows = np.stack([_hermite(activation, float(v), derivative) for v in distinct])
    return rows if len(rows) == 1 else rows[which]


def _mehler(left: Array, right: Array, cosine: Array) -> Array:
    """Σ_k a_k(i) b_k(j) c_ij^k by Horner's rule, without the orders whose squares no double can see."""
    seen = np.maximum(np.abs(left).max(axis=0), np.abs(right).max(axis=0)) > 1e-10
    total = np.zeros_like(cosine)
    for k in range(int(np.nonzero(seen)[0].max(initial=0)), -1, -1):
        total *= cosine
        total += np.multiply.outer(left[:, k], right[:, k])
    return total
