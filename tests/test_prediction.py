"""Numeric predictions against recursions, sums and published numbers that are written out here."""

from __future__ import annotations

from math import exp, sqrt

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from theory.configuration import Configuration
from theory.errors import InvalidInput
from theory.laws.closed import depth, layer, q0
from theory.laws.law import derive
from theory.quantities import QUANTITIES, quantity
from theory.sublayers import sublayer
from theory.variants import registry

MOMENTS = {"linear": (1.0, 1.0), "relu": (0.5, 0.5), "tanh": (0.3942945, 0.4644029)} | {
    "gelu": (1 / 3 + sqrt(3) / (6 * np.pi), 1 / 3 + 2 * sqrt(3) / (9 * np.pi))
}
"""(s², κ²) at a normalised input: neural-tangents' and Kedia's formulas at unit variance; tanh by quadrature."""


def _cell(name: str, *sublayers: str, **axes: object) -> Configuration:
    return Configuration(registry()[name], sublayers, **({"depth": 6, "width": 64, "tokens": 4} | axes))  # type: ignore[arg-type]


def _predicted(name: str, cell: Configuration) -> np.ndarray:
    return quantity(name).predicted(cell)


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


CLOSED = [name for name in registry() if name not in ("residual", "deepnorm")]


@pytest.mark.parametrize("branch", ["linear", "relu", "gelu"])
@pytest.mark.parametrize("name", CLOSED)
def test_the_closed_form_equals_the_numeric_recursion(name: str, branch: str) -> None:
    if branch == "gelu" and not name.startswith(("post", "pre", "no-residual-")):
        with pytest.raises(Exception, match="not homogeneous"):
            derive(registry()[name], 1, homogeneous=False)
        return
    law, (s, k) = derive(registry()[name], 1, branch != "gelu"), MOMENTS[branch]
    values = {law.moments[0].square: s, law.moments[0].gain: k, q0: 1}
    closed = [float(law.gradient.subs(values | {depth: 6, layer: at})) for at in range(7)]
    streams = [float(sympy.sympify(law.stream).subs(values | {layer: at})) for at in range(7)]
    np.testing.assert_allclose(_predicted("stream-gradient", _cell(name, branch)), closed, rtol=2e-6)
    np.testing.assert_allclose(_predicted("stream-moment", _cell(name, branch)), streams, rtol=2e-6)


def _exchangeable(n: int, diagonal: float, cosine: float) -> np.ndarray:
    return diagonal * ((1 - cosine) * np.eye(n) + cosine * np.ones((n, n)))


@settings(deadline=None, derandomize=True, max_examples=20)
@given(st.integers(2, 12), st.floats(0, 0.99), st.floats(0, 0.99), st.floats(0.1, 3))
def test_attention_at_exchangeable_tokens(n: int, c: float, gamma: float, g: float) -> None:
    """THEORY.md, section 4, with the other n − 1 tokens kept in the softmax's denominator."""
    attention = sublayer("attention")
    unit = attention.variances(1.0, 1.0)
    own, other = exp(1 - c), exp(c * (1 - c))
    share, cross_share = own / (own + n - 1), other / (other + n - 1)
    forward = attention.forward(_exchangeable(n, 1.0, c), unit, causal=False)
    np.testing.assert_allclose(np.diagonal(forward), c + (1 - c) * share, rtol=1e-9)
    np.testing.assert_allclose(forward[0, 1], c + (1 - c) * cross_share, rtol=1e-9)
    backward = attention.backward(_exchangeable(n, 1.0, c), _exchangeable(n, g, gamma), unit, causal=False)
    row = g * share * ((1 - c) * (1 - share)) ** 2
    np.testing.assert_allclose(np.diagonal(backward), g * share + (n - 1) * g * gamma * cross_share + 2 * row, rtol=1e-9)
    np.testing.assert_allclose(backward[0, 1], g * share / own + (n - 1) * g * gamma * cross_share / other, rtol=1e-9)


def test_attention_at_many_tokens_has_the_printed_leading_order() -> None:
    """THEORY.md, section 4, as printed (n → ∞): relative error 1/n."""
    n, c, gamma, tau = 400, 0.3, 0.2, 0.7
    attention = sublayer("attention")
    unit = attention.variances(1.0, 1.0)
    forward = attention.forward(_exchangeable(n, 1.0, c), unit, causal=False)
    assert forward[0, 0] == pytest.approx(c + (1 - c) * exp(tau) / n, rel=3e-4)
    assert forward[0, 1] == pytest.approx(c + (1 - c) * exp(c * tau) / n, rel=3e-4)
    incoherent = attention.backward(_exchangeable(n, 1.0, c), np.eye(n), unit, causal=False)
    assert incoherent[0, 0] == pytest.approx((1 + 2 * tau**2) * exp(tau) / n, rel=2e-2)
    coherent = attention.backward(_exchangeable(n, 1.0, c), _exchangeable(n, 1.0, gamma), unit, causal=False)
    printed = exp(tau) / n + (1 - 1 / n) * exp(c * tau) * gamma + 2 * tau**2 * exp(tau) / n
    # exp(cτ²)γ as printed counts the whole row; its denominator e^{cτ²} + n − 1 leaves γ at leading order.
    assert coherent[0, 1] == pytest.approx(1 / n + (1 - 1 / n) * gamma, rel=2e-2)
    assert gamma < coherent[0, 0] < printed


def _random_correlations(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """A correlation matrix and a second-moment matrix of gradients."""
    draw = np.random.default_rng(seed)
    tokens, gradients = draw.normal(size=(n, n + 2)), draw.normal(size=(n, n + 2))
    tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    return tokens @ tokens.T, gradients @ gradients.T


def _direct(c: np.ndarray, gradient: np.ndarray, logits: float, causal: bool) -> tuple[np.ndarray, np.ndarray]:
    """THEORY.md, section 4: O_ii' = Σ_jk A_ii'jk C_jk and the backward map, as plain sums over four indices."""
    n = len(c)
    sees = [[j <= i or not causal for j in range(n)] for i in range(n)]
    a = np.zeros((n, n, n, n))
    for i in range(n):
        for k in range(n):
            pairs = [(u, v) for u in range(n) for v in range(n) if sees[i][u] and sees[k][v]]
            total = sum(exp(logits * c[u, v] * c[i, k]) for u, v in pairs)
            for u, v in pairs:
                a[i, k, u, v] = exp(logits * c[u, v] * c[i, k]) / total
    forward, backward = np.zeros((n, n)), np.zeros((n, n))
    for i in range(n):
        for k in range(n):
            for u in range(n):
                for v in range(n):
                    forward[i, k] += a[i, k, u, v] * c[u, v]
                    backward[u, v] += a[i, k, u, v] * gradient[i, k]
    for i in range(n):
        for k in range(n):
            term = logits * gradient[i, i] * a[i, i, k, k] * (1 - forward[i, i]) ** 2
            backward[i, i] += term  # through the query of row i
            backward[k, k] += term  # through the key of column k
    return forward, backward


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("gain", [1.0, 1.7])
def test_position_resolved_attention_equals_the_direct_sum(causal: bool, gain: float) -> None:
    attention = sublayer("attention")
    variances = attention.variances(gain, 0.8)
    assert variances == {"WQ": gain, "WK": gain, "WV": pytest.approx(gain * 0.64), "WO": pytest.approx(gain * 0.64)}
    output = variances["WV"] * variances["WO"]
    for seed in range(3):
        c, gradient = _random_correlations(seed, 5)
        forward, backward = _direct(c, gradient, gain**2, causal)
        np.testing.assert_allclose(attention.forward(c, variances, causal), output * forward, rtol=1e-9)
        np.testing.assert_allclose(attention.backward(c, gradient, variances, causal), output * backward, rtol=1e-9)
        values = sum(forward[i, j] * gradient[i, j] for i in range(5) for j in range(5))
        found = attention.parameter_gradients(c, gradient, variances, causal)
        assert list(found) == ["WQ", "WK", "WV", "WO"]
        assert found["WO"] == pytest.approx(variances["WV"] * values, rel=1e-9)
        assert found["WV"] == pytest.approx(variances["WO"] * values, rel=1e-9)
        # ‖M‖² of the softmax's Jacobian, diagonal in the tokens; W_Q's gradient carries W_K and the other way round.
        row = [gradient[i, i] * (1 - forward[i, i]) ** 2 for i in range(5)]
        seen = [
            [exp(gain**2) / sum(exp(gain**2 * c[u, v]) for u in _seen(i, causal) for v in _seen(i, causal)) for i in range(5)]
        ]
        logits = sum(row[i] * seen[0][i] * len(_seen(i, causal)) for i in range(5))
        assert found["WQ"] == pytest.approx(variances["WK"] * output * logits, rel=1e-9)
        assert found["WK"] == pytest.approx(variances["WQ"] * output * logits, rel=1e-9)


def _seen(row: int, causal: bool) -> range:
    return range(row + 1) if causal else range(5)


@pytest.mark.parametrize(
    ("causal", "name", "expected"),
    [
        (True, "post-ln", 1.67 / 1.02),
        (True, "pre-ln", 1.15 / 1.09),
        (False, "post-ln", 0.78 / 1.34),
        (False, "pre-ln", 0.81 / 1.15),
    ],
)
def test_the_checked_table_of_full_blocks(causal: bool, name: str, expected: float) -> None:
    """THEORY.md, section 4: measured over ratio at l = 0; attention+GELU, L=24, d=256, n=32, gradient cosine 0."""
    cell = _cell(name, "attention", "gelu", depth=24, width=256, tokens=32, causal=causal)
    assert _predicted("stream-gradient", cell)[0] == pytest.approx(expected, rel=0.03)


def test_attention_halves_an_incoherent_post_ln_gradient() -> None:
    """THEORY.md, section 4: tokens become alike, and the squared gradient halves per block below the output."""
    gradient = _predicted("stream-gradient", _cell("post-ln", "attention", depth=24, width=4096, tokens=256))
    assert gradient[-2] / gradient[-1] == pytest.approx(0.5, abs=0.03)
    assert _predicted("token-cosine", _cell("post-ln", "attention", depth=24, width=4096, tokens=256))[-1] > 0.9


def test_attention_behind_a_raw_stream_is_refused() -> None:
    with pytest.raises(InvalidInput, match="normalised input only: choose a variant that normalises"):
        _predicted("stream-gradient", _cell("residual-only", "attention", depth=3))


@pytest.mark.parametrize("total", [1, 4, 32])
def test_the_last_layers_gradient(total: int) -> None:
    """Theorem 1 of Xiong et al. 2020, tight (LITERATURE.md, section 1), for one token and |∂𝓛/∂x_out|² = d."""
    width = 256
    post = _predicted("output-matrix-gradient", _cell("post-ln", "relu", depth=total, width=width, tokens=1))[-1]
    pre = _predicted("output-matrix-gradient", _cell("pre-ln", "relu", depth=total, width=width, tokens=1))[-1]
    assert sqrt(post) == pytest.approx(sqrt(width / 2) * sqrt(2 / 3) * sqrt(width), rel=1e-12)
    assert sqrt(pre) == pytest.approx(sqrt(width / 2 / (1 + total / 2)) * sqrt(width), rel=1e-12)


def test_every_blocks_parameter_gradient_sums_over_tokens() -> None:
    """Independent tokens, independent unit gradients: n·(d·h)·(hidden moment ½)·(squared gradient at F)."""
    tokens, width, hidden = 3, 64, 128
    axes = {"tokens": tokens, "width": width, "expansion": 2}
    entries = tokens * width * hidden * 0.5
    pre = _predicted("output-matrix-gradient", _cell("pre-ln", "relu", **axes))
    np.testing.assert_allclose(pre, entries / (1 + np.arange(1, 7) / 2), rtol=1e-9)
    np.testing.assert_allclose(_predicted("output-matrix-gradient", _cell("post-ln", "relu", **axes)), entries * 2 / 3, rtol=1e-9)
    # W₁ sees half of W₂'s gradient back through the mask, at half as many hidden units a coordinate: d·d entries' worth.
    both = _predicted("parameter-gradient", _cell("post-ln", "relu", **axes)).reshape(6, 2)
    np.testing.assert_allclose(both, [[entries / 2 * 2 / 3, entries * 2 / 3]] * 6, rtol=1e-9)


def test_the_parameter_gradient_uses_both_gram_matrices() -> None:
    """Σ_ij E[relu(u_i)relu(u_j)] (δ_i·δ_j), the kernel of Cho & Saul written out."""
    c, gradient = _random_correlations(7, 4)
    expected = 0.0
    for i in range(4):
        for j in range(4):
            cosine = min(1.0, c[i, j])
            angle = np.arccos(cosine)
            expected += 1.3 * (np.sin(angle) + (np.pi - angle) * cosine) / (2 * np.pi) * gradient[i, j]
    relu = sublayer("relu")
    found = relu.parameter_gradients(c, gradient, {"W1": 1.3, "W2": 0.7}, causal=False)
    assert found["W2"] == pytest.approx(expected, rel=1e-9)
    masks = sum(c[i, j] * (np.pi - np.arccos(min(1.0, c[i, j]))) * gradient[i, j] for i in range(4) for j in range(4))
    assert found["W1"] == pytest.approx(0.7 * masks / (2 * np.pi), rel=1e-7)


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
    rows = quantity(name).predict(_cell("pre-ln", "relu"))
    layers = list(range(QUANTITIES[name].first_layer, 7))
    assert [row["layer"] for row in rows] == (sorted(2 * layers) if QUANTITIES[name].matrices else layers)
    assert all(row["low"] == row["mean"] == row["high"] for row in rows)


WRONG_AXES = {
    "depth": (0, "at least 1"),
    "width": (-4, "at least 1"),
    "tokens": (0, "at least 1"),
    "heads": (3, "do not divide the width 64: choose a divisor of 64"),
    "expansion": (0, "at least 1"),
    "gain": (0.0, "must be positive"),
    "sublayers": (("swish",), "unknown sublayer 'swish': known are linear"),
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
