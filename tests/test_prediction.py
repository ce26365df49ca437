"""Numeric predictions against recursions, sums and published numbers that are written out here.

Closed forms are laws of infinite width; `test_finite_width` has the terms of order 1/width, `test_attention` attention's maps.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from theory.algebra import L
from theory.configuration import Configuration
from theory.errors import InvalidInput, NoClosedForm
from theory.laws.closed import depth, layer, q0
from theory.laws.derivation import values_of
from theory.laws.law import Law, closed_form, derive
from theory.quantities import QUANTITIES, quantity
from theory.sublayers import Surroundings, Weights, sublayer
from theory.variants import registry

MOMENTS = {"linear": (1.0, 1.0), "relu": (0.5, 0.5), "tanh": (0.3942945, 0.4644029)} | {
    "gelu": (1 / 3 + sqrt(3) / (6 * np.pi), 1 / 3 + 2 * sqrt(3) / (9 * np.pi))
}
"""(s², κ²) at a normalised input: neural-tangents' and Kedia's formulas at unit variance; tanh by quadrature."""


def _cell(name: str, *sublayers: str, **axes: object) -> Configuration:
    return Configuration(registry()[name], sublayers, **({"depth": 6, "width": 64, "tokens": 4} | axes))  # type: ignore[arg-type]


def _predicted(name: str, cell: Configuration) -> np.ndarray:
    return quantity(name).predicted(cell, infinite_width=True)


@pytest.mark.parametrize("branch", MOMENTS)
def test_post_ln_by_hand(branch: str) -> None:
    s, k = MOMENTS[branch]
    cell = _cell("post-ln", branch)
    np.testing.assert_allclose(_predicted("stream-moment", cell), 1.0, rtol=1e-12)
    np.testing.assert_allclose(_predicted("stream-gradient", cell), ((1 + k) / (1 + s)) ** (6.0 - np.arange(7)), rtol=1e-6)
    np.testing.assert_allclose(_predicted("norm-gain", cell), 1 / sqrt(1 + s), rtol=1e-6)
    # |N(x+F) − x|² with x, F orthogonal: (1/r − 1)² + s²/r², r² = 1 + s².
    r = sqrt(1 + s)
    np.testing.assert_allclose(_predicted("relative-step", cell), (1 / r - 1) ** 2 + s / r**2, rtol=1e-6)


@pytest.mark.parametrize("branch", MOMENTS)
def test_pre_ln_by_hand(branch: str) -> None:
    s, k = MOMENTS[branch]
    cell = _cell("pre-ln", branch)
    moments = 1 + s * np.arange(7)
    gradient = [1 / moments[-1]]
    for moment in moments[-2::-1]:
        gradient.append(gradient[-1] * (1 + k / moment))
    np.testing.assert_allclose(_predicted("stream-moment", cell), moments, rtol=1e-6)
    np.testing.assert_allclose(_predicted("stream-gradient", cell), gradient[::-1], rtol=1e-6)
    np.testing.assert_allclose(_predicted("branch-variance", cell), 1.0, rtol=1e-12)
    np.testing.assert_allclose(_predicted("relative-step", cell), s / moments[:-1], rtol=1e-6)


@settings(deadline=None, derandomize=True, max_examples=15)
@given(st.floats(0.1, 4), st.integers(1, 12))
def test_residual_streams_follow_a_second_moment_matrix(gain: float, total: int) -> None:
    """ResiDual: x' = N(x + F(x)), r' = r + F(x), y = x + N(r); gradients of x and r by hand, s² = κ² = gain (linear)."""
    cell = _cell("residual", "linear", gain=gain, depth=total)
    root = sqrt(1 + gain)  # F = Wx; the norm divides by it
    xx, xr, rr = 1.0, 1 / sqrt(1 + gain * total), 1 / (1 + gain * total)
    expected = [xx]
    for _ in range(total):
        at_branch = xx / root**2 + 2 * xr / root + rr
        xx, xr = xx / root**2 + gain * at_branch, xr / root
        expected.append(xx)
    np.testing.assert_allclose(_predicted("stream-gradient", cell), expected[::-1], rtol=1e-10)
    np.testing.assert_allclose(_predicted("stream-moment", cell), 1.0, rtol=1e-12)


def test_deepnorm_by_hand() -> None:
    """α² = (2L)^(1/2), both FFN matrices scaled by β: s² = κ² = β⁴/2; GELU sees a pre-activation of variance β²."""
    cell = _cell("deepnorm", "relu", depth=8)
    alpha, beta = (16 * 1.0) ** 0.25, 64**-0.25
    np.testing.assert_allclose(_predicted("stream-gradient", cell), 1.0, rtol=1e-12)
    np.testing.assert_allclose(_predicted("norm-gain", cell), 1 / sqrt(alpha**2 + beta**4 / 2), rtol=1e-12)
    points, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / sqrt(2 * np.pi)
    u = beta * points
    density = np.exp(-u * u / 2) / sqrt(2 * np.pi)
    s = beta**2 * (weights @ (u * ndtr(u)) ** 2)
    k = beta**4 * (weights @ (ndtr(u) + u * density) ** 2)
    chi = (alpha**2 + k) / (alpha**2 + s)
    np.testing.assert_allclose(
        _predicted("stream-gradient", _cell("deepnorm", "gelu", depth=8)), chi ** (8.0 - np.arange(9)), rtol=1e-9
    )


def _law(name: str, branch: str) -> Law | NoClosedForm:
    return closed_form(registry()[name], 1, sublayer(branch).homogeneous)


BRANCHES = ("linear", "relu", "gelu")
CLOSED = [(name, b) for name, v in registry().items() for b in BRANCHES if v.gain == 1 and isinstance(_law(name, b), Law)]


def test_which_variants_have_this_closed_form() -> None:
    found = {branch: {name for name, other in CLOSED if other == branch} for branch in BRANCHES}
    assert {"post-ln", "pre-ln", "sandwich-ln", "qk-norm", "keel", "normformer", "no-residual-ln"} <= found["gelu"]
    assert {"residual-only", "skipinit", "no-residual"} <= found["relu"] - found["gelu"]  # nothing normalises the branch's input


@pytest.mark.parametrize(("name", "branch"), CLOSED)
def test_the_closed_form_equals_the_numeric_recursion(name: str, branch: str) -> None:
    law = derive(registry()[name], 1, sublayer(branch).homogeneous)
    numbers = values_of(law, (sublayer(branch),))
    assert numbers is not None
    if not law.moments[0].inner and branch in MOMENTS:
        assert [float(value) for value in numbers.values()] == pytest.approx(MOMENTS[branch], rel=1e-6)
    values = numbers | {q0: 1} | {symbol: formula.subs(L, 6) for symbol, formula in registry()[name].formulas}
    closed = [float(law.gradient.subs(values | {depth: 6, layer: at})) for at in range(7)]
    streams = [float(sympy.sympify(law.stream).subs(values | {layer: at})) for at in range(7)]
    fixed = 0 if streams[0] == 1 else 1  # a norm in the block fixes q from the first block on, whatever enters
    np.testing.assert_allclose(_predicted("stream-gradient", _cell(name, branch))[fixed:], closed[fixed:], rtol=2e-6)
    np.testing.assert_allclose(_predicted("stream-moment", _cell(name, branch))[fixed:], streams[fixed:], rtol=2e-6)


@pytest.mark.parametrize(
    ("causal", "name", "measured", "error"),
    [
        (True, "post-ln", 1.735, 0.118),
        (True, "pre-ln", 1.135, 0.020),
        (False, "post-ln", 0.670, 0.044),
        (False, "pre-ln", 0.742, 0.011),
    ],
)
def test_the_checked_table_of_full_blocks(causal: bool, name: str, measured: float, error: float) -> None:
    """THEORY.md, section 4, at l = 0 with 200 networks (matrix-free, seed 0) and their standard errors: L=24, d=256, n=32."""
    cell = _cell(name, "attention", "gelu", depth=24, width=256, tokens=32, causal=causal)
    assert abs(quantity("stream-gradient").predicted(cell)[0] - measured) < 3 * error


def test_attention_halves_an_incoherent_post_ln_gradient() -> None:
    """THEORY.md, section 4: tokens become alike, and the squared gradient halves per block below the output."""
    cell = _cell("post-ln", "attention", depth=24, tokens=64)
    gradient = _predicted("stream-gradient", cell)
    assert gradient[-2] / gradient[-1] == pytest.approx(0.5, abs=0.03)
    assert _predicted("token-cosine", cell)[-1] > 0.9


@pytest.mark.parametrize("total", [1, 4, 32])
def test_the_last_layers_gradient(total: int) -> None:
    """Theorem 1 of Xiong et al. 2020, tight (LITERATURE.md, section 1), for one token and |∂𝓛/∂x_out|² = d."""
    width = 256
    post = _predicted("output-matrix-gradient", _cell("post-ln", "relu", depth=total, width=width, tokens=1))[-1]
    pre = _predicted("output-matrix-gradient", _cell("pre-ln", "relu", depth=total, width=width, tokens=1))[-1]
    assert sqrt(post) == pytest.approx(sqrt(width / 2) * sqrt(2 / 3) * sqrt(width), rel=1e-12)
    assert sqrt(pre) == pytest.approx(sqrt(width / 2 / (1 + total / 2)) * sqrt(width), rel=1e-12)


def test_every_blocks_parameter_gradient_sums_over_tokens() -> None:
    """Independent tokens, independent unit gradients: n·(d·h)·(squared gradient at F), times the hidden moment ½ or E φ'² = ½."""
    tokens, width, hidden = 3, 64, 128
    axes = {"tokens": tokens, "width": width, "expansion": 2}
    entries = tokens * width * hidden * 0.5
    for name, at_branch in (("pre-ln", 1 / (1 + np.arange(1, 7) / 2)), ("post-ln", np.full(6, 2 / 3))):
        cell = _cell(name, "relu", **axes)
        np.testing.assert_allclose(_predicted("output-matrix-gradient", cell), entries * at_branch, rtol=1e-9)
        # ∂𝓛/∂W₁ has d rows of h entries, |δ|² at its output is shared by h units: entries/h · |δ|² = entries · d/h · …
        first, second = _predicted("parameter-gradient", cell).reshape(6, 2).T
        np.testing.assert_allclose(second, entries * at_branch, rtol=1e-9)
        np.testing.assert_allclose(first, tokens * width**2 * 0.5 * at_branch, rtol=1e-9)


def _random_moments(seed: int, tokens: int) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(tokens, tokens + 2))
    return rows @ rows.T


def test_the_parameter_gradients_use_both_gram_matrices() -> None:
    """Σ_ij E[relu(u_i)relu(u_j)] (δ_i·δ_j) and Σ_ij C_ij E[relu'(u_i)relu'(u_j)] (δ_i·δ_j), Cho & Saul's kernels written out."""
    root = np.sqrt(np.diagonal(moments := _random_moments(7, 4)))
    c, gradient = moments / np.outer(root, root), _random_moments(8, 4)
    angle = np.arccos(np.clip(c, -1, 1))
    hidden = 1.3 * (np.sin(angle) + (np.pi - angle) * c) / (2 * np.pi)
    first = 0.7 * c * (np.pi - angle) / (2 * np.pi)
    found = sublayer("relu").apply(c, Weights({"W1": 1.3, "W2": 0.7}), Surroundings()).parameter_gradients(gradient)
    assert found == pytest.approx({"W1": (first * gradient).sum(), "W2": (hidden * gradient).sum()}, rel=1e-7)


def test_tokens_under_relu_grow_alike_as_the_kernel_says() -> None:
    """One Post-LN block at c = 0: cosine (0 + 1/2π)/(1 + ½)."""
    cosine = _predicted("token-cosine", _cell("post-ln", "relu", depth=1))
    np.testing.assert_allclose(cosine, [0.0, 1 / (2 * np.pi) / 1.5], atol=1e-12)
    assert _predicted("gradient-cosine", _cell("post-ln", "relu", depth=1)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", ["token-cosine", "gradient-cosine"])
def test_a_cosine_needs_two_tokens(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"{name} compares two tokens: give --tokens 2 or more"):
        quantity(name).predict(_cell("post-ln", "relu", tokens=1))


@pytest.mark.parametrize("name", QUANTITIES)
def test_rows_are_numbered_from_the_first_layer_to_the_last(name: str) -> None:
    rows = quantity(name).predict(_cell("pre-ln", "relu", tokens=2 if QUANTITIES[name].tokens == 2 else 1))
    layers = range(QUANTITIES[name].first_layer, 7)
    labels = [(layer, f"relu.{matrix}") for layer in layers for matrix in ("W1", "W2")]
    expected = labels if QUANTITIES[name].matrices else [(layer, None) for layer in layers]
    assert [(row["layer"], row.get("matrix")) for row in rows] == expected
    assert all(row["low"] == row["mean"] == row["high"] for row in rows)


WRONG_AXES = {
    "depth": (0, "at least 1"),
    "width": (-4, "at least 1"),
    "tokens": (0, "at least 1"),
    "heads": (3, "do not divide the width 64: choose a divisor of 64"),
    "expansion": (0, "at least 1"),
    "gain": (0.0, "must be positive"),
    "sublayers": (("swish",), "unknown sublayer 'swish': known are linear"),
    "init": ("he-normal", "unknown initialisation 'he-normal': known are fan-in, xavier-normal, xavier-uniform, torch-linear"),
}


@pytest.mark.parametrize("axis", WRONG_AXES)
def test_an_axis_out_of_range_is_refused(axis: str) -> None:
    value, hint = WRONG_AXES[axis]
    with pytest.raises(InvalidInput, match=hint):
        Configuration(**({"variant": registry()["post-ln"], "width": 64} | {axis: value}))  # type: ignore[arg-type]


@pytest.mark.parametrize("gain", [float("inf"), float("nan")])
def test_a_gain_that_is_no_number_is_refused(gain: float) -> None:
    with pytest.raises(InvalidInput, match="gain"):
        _cell("post-ln", "relu", gain=gain)
