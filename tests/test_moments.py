"""Gaussian moments and kernels against integrals that scipy computes, the table of the theory and published formulas."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import erf

from theory.errors import InvalidInput
from theory.moments import ACTIVATIONS, activation, gaussian_expectation, q, slope_kernel, value_kernel
from theory.moments.gaussian import cdf, pdf, x

Scalar = Callable[[float], float]


def _phi(z: float) -> float:
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def _cdf(z: float) -> float:
    return 0.5 * (1 + erf(z / math.sqrt(2)))


def _sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


# Value and derivative, written here from the textbooks' definitions.
FUNCTIONS: dict[str, tuple[Scalar, Scalar]] = {
    "linear": (lambda z: z, lambda z: 1.0),
    "relu": (lambda z: max(z, 0.0), lambda z: float(z > 0)),
    "leaky-relu": (lambda z: z if z > 0 else 0.01 * z, lambda z: 1.0 if z > 0 else 0.01),
    "gelu": (lambda z: z * _cdf(z), lambda z: _cdf(z) + z * _phi(z)),
    "tanh": (math.tanh, lambda z: 1 / math.cosh(z) ** 2),
    "silu": (lambda z: z * _sigmoid(z), lambda z: _sigmoid(z) + z * _sigmoid(z) * (1 - _sigmoid(z))),
}


def _gaussian_mean(function: Scalar, variance: float) -> float:
    """E function(z), z ~ N(0, variance), by adaptive quadrature on the two half lines (kinks sit at 0)."""
    scale = math.sqrt(variance)
    return _integral(lambda u: function(scale * u) * _phi(u), -12, 0) + _integral(lambda u: function(scale * u) * _phi(u), 0, 12)


def _integral(function: Scalar, low: float, high: float) -> float:
    return float(quad(function, low, high, epsabs=1e-13, epsrel=1e-12, limit=200)[0])


def _mean_square(function: Scalar, variance: float) -> float:
    return _gaussian_mean(lambda z: function(z) ** 2, variance)


@pytest.mark.parametrize("variance", [0.01, 0.5, 1.0, 3.7, 25.0])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_moments_equal_adaptive_quadrature(name: str, variance: float) -> None:
    value, slope = FUNCTIONS[name]
    expected = (_mean_square(value, variance), _mean_square(slope, variance))
    assert activation(name).moments(variance) == pytest.approx(expected, abs=1e-10, rel=1e-10)


@pytest.mark.parametrize("variance", [0.25, 1.0, 9.0])
@pytest.mark.parametrize("name", ["linear", "relu", "leaky-relu", "gelu"])
def test_exact_moments_equal_adaptive_quadrature(name: str, variance: float) -> None:
    function, derivative = FUNCTIONS[name]
    square, slope = ACTIVATIONS[name].second_moment, ACTIVATIONS[name].derivative_moment
    assert square is not None and slope is not None
    assert float(square.subs(q, variance)) == pytest.approx(_mean_square(function, variance), rel=1e-11)
    assert float(slope.subs(q, variance)) == pytest.approx(_mean_square(derivative, variance), rel=1e-11)


@pytest.mark.parametrize("name", ["tanh", "silu"])
def test_what_has_no_closed_form_says_so(name: str) -> None:
    assert ACTIVATIONS[name].second_moment is None and ACTIVATIONS[name].derivative_moment is None


@pytest.mark.parametrize(
    ("name", "square", "slope"),
    [("linear", 1.0, 1.0), ("relu", 0.5, 0.5), ("gelu", 0.425221, 0.455851), ("tanh", 0.394294, 0.464403)],
)
def test_the_table_of_the_theory(name: str, square: float, slope: float) -> None:
    """THEORY.md, section 2, to its six digits."""
    assert activation(name).moments(1.0) == pytest.approx((square, slope), abs=5e-7)


@pytest.mark.parametrize("k", [0.1, 1.0, 7.0])
def test_gelu_equals_neural_tangents(k: float) -> None:
    """LITERATURE.md, section 6 (neural-tangents, `elementwise.py`)."""
    root = math.sqrt(1 + 2 * k)
    expected = k * (0.25 + (k / ((1 + k) * root) + 0.5 * math.atan(k / root)) / math.pi)
    square = ACTIVATIONS["gelu"].second_moment
    assert square is not None and float(square.subs(q, k)) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("k", [0.3, 1.0, 4.0])
def test_gelus_slope_equals_kedias(k: float) -> None:
    """Kedia et al. 2024 (LITERATURE.md, section 4): σ_g'² of GELU."""
    a = k / (1 + k)
    expected = 0.5 + (-math.acos(a) + a * (5 * k + 3) / (1 + 2 * k) ** 1.5) / (2 * math.pi)
    slope = ACTIVATIONS["gelu"].derivative_moment
    assert slope is not None and float(slope.subs(q, k)) == pytest.approx(expected, rel=1e-13)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(0, 6), st.integers(0, 3), st.integers(0, 2), st.floats(0.1, 5))
def test_steins_algebra_equals_quadrature(a: int, b: int, c: int, variance: float) -> None:
    exact = gaussian_expectation(x**a * pdf**b * cdf**c)
    expected = _gaussian_mean(lambda z: z**a * _phi(z) ** b * _cdf(z) ** c, variance)
    assert float(exact.subs(q, sympy.Float(variance, 30))) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_a_third_power_of_the_distribution_function_is_refused() -> None:
    with pytest.raises(ValueError, match="no closed form here: use quadrature"):
        gaussian_expectation(cdf**3)


def test_an_unknown_activation_is_refused() -> None:
    with pytest.raises(InvalidInput, match="unknown activation 'swish': known are linear"):
        activation("swish")


def _joint_mean(function: Scalar, variances: tuple[float, float], cosine: float) -> float:
    """E f(u)f(v) by iterated quadrature over v = c u + √(1−c²) w; the inner integral is split at its kink v = 0."""
    first, second = (math.sqrt(v) for v in variances)
    across = math.sqrt(1 - cosine**2)

    def inner(u: float) -> float:
        kink = float(np.clip(-cosine * u / across, -10, 10))

        def weighted(w: float) -> float:
            return function(second * (cosine * u + across * w)) * _phi(w)

        return _integral(weighted, -10, kink) + _integral(weighted, kink, 10)

    def outer(u: float) -> float:
        return function(first * u) * inner(u) * _phi(u)

    return _integral(outer, -9, 0) + _integral(outer, 0, 9)


@pytest.mark.parametrize(("variances", "cosine"), [((1.0, 1.0), 0.3), ((0.5, 2.0), -0.6), ((1.0, 3.0), 0.95)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_kernels_equal_double_quadrature(name: str, variances: tuple[float, float], cosine: float) -> None:
    cross = cosine * math.sqrt(variances[0] * variances[1])
    moments = np.array([[variances[0], cross], [cross, variances[1]]])
    value, slope = FUNCTIONS[name]
    for kernel, function in ((value_kernel, value), (slope_kernel, slope)):
        found = kernel(activation(name), moments)
        assert found[0, 1] == found[1, 0] == pytest.approx(_joint_mean(function, variances, cosine), abs=1e-8)
        squares = [_mean_square(function, variance) for variance in variances]
        np.testing.assert_allclose(np.diagonal(found), squares, rtol=1e-9)


def _pair(cosine: float) -> np.ndarray:
    return np.array([[1.0, cosine], [cosine, 1.0]])


@pytest.mark.parametrize(("cosine", "value", "slope"), [(0.0, 1 / (2 * math.pi), 0.25), (1.0, 0.5, 0.5), (-1.0, 0.0, 0.0)])
def test_arc_cosine_kernels_at_their_limits(cosine: float, value: float, slope: float) -> None:
    """Cho & Saul 2009, eqs. 6, 7, of orders 1 and 0 at angles π/2, 0, π, halved for unit slopes."""
    assert value_kernel(activation("relu"), _pair(cosine))[0, 1] == pytest.approx(value, abs=1e-12)
    assert slope_kernel(activation("relu"), _pair(cosine))[0, 1] == pytest.approx(slope, abs=1e-8)


@pytest.mark.parametrize("name", ["linear", "leaky-relu", "gelu", "silu", "tanh"])
def test_kernels_of_independent_inputs_factorise(name: str) -> None:
    value, slope = FUNCTIONS[name]
    assert value_kernel(activation(name), _pair(0.0))[0, 1] == pytest.approx(_gaussian_mean(value, 1.0) ** 2, abs=1e-10)
    assert slope_kernel(activation(name), _pair(0.0))[0, 1] == pytest.approx(_gaussian_mean(slope, 1.0) ** 2, abs=1e-10)


@settings(deadline=None, derandomize=True, max_examples=30)
@given(st.floats(0.05, 10), st.floats(0.05, 10), st.floats(-0.99, 0.99))
def test_gelus_kernel_equals_kedias_for_equal_variances_and_is_symmetric(first: float, second: float, cosine: float) -> None:
    """Kedia et al. 2024: covariance of GELU plus the squared mean, at equal variances."""
    gelu, k, r = activation("gelu"), first, cosine
    squared_ratio = k * (1 - r * r) + 1 + r * r
    root = math.sqrt((1 + k) ** 2 - (r * k) ** 2)
    expected = k / 4 * (r + 2 * r / math.pi * math.asin(r * k / (1 + k)) + 2 * k / math.pi * squared_ratio / ((1 + k) * root))
    assert value_kernel(gelu, k * _pair(r))[0, 1] == pytest.approx(expected, rel=1e-8, abs=1e-9)
    cross = cosine * math.sqrt(first * second)
    one = value_kernel(gelu, np.array([[first, cross], [cross, second]]))
    other = value_kernel(gelu, np.array([[second, cross], [cross, first]]))
    np.testing.assert_allclose(one, other[::-1, ::-1], rtol=1e-12)
