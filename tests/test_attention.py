"""Attention's second-moment maps: quadrature, algebra at a pattern, whole layers, limits, symmetries.

References are written here and share nothing with the maps: Laplace's formula for the softmax of Gaussian logits, plain sums,
and layers simulated in torch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from math import exp, sqrt

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from empirical.ensemble import Ensemble
from empirical.measurement import Cell
from theory.configuration import Configuration
from theory.errors import InvalidInput
from theory.quantities import quantity
from theory.sublayers import Applied, Surroundings, Weights, sublayer
from theory.sublayers.patterns import Patterns
from theory.variants import registry

ATTENTION = sublayer("attention")
UNIT = Weights(ATTENTION.scales(1.0, 1.0))


def _exchangeable(n: int, diagonal: float, cosine: float) -> np.ndarray:
    return diagonal * ((1 - cosine) * np.eye(n) + cosine * np.ones((n, n)))


def _off_diagonal(matrix: np.ndarray) -> float:
    return float((matrix.sum() - np.trace(matrix)) / (len(matrix) * (len(matrix) - 1)))


# The quadrature over patterns.


def _expected_square(n: int, variance: float) -> float:
    """E Σ_j a_j² for a softmax a of n independent N(0, v): n ∫₀^∞ t E[e^{2z} e^{−t e^z}] (E e^{−t e^z})^{n−1} dt.

    From 1/(Σ e^z)² = ∫ t e^{−tΣ} dt; t = e^s, and the inner expectations by Gauss–Hermite quadrature.
    """
    points, weights = np.polynomial.hermite_e.hermegauss(160)
    weights, exponentials = weights / sqrt(2 * np.pi), np.exp(sqrt(variance) * points)

    def integrand(s: float) -> float:
        t = exp(s)
        decay = np.exp(-t * exponentials)
        return float(n * t * t * (weights @ (exponentials**2 * decay)) * (weights @ decay) ** (n - 1))

    return quad(integrand, -30, 20, limit=400, points=[-5, 0, 5])[0]


@pytest.mark.parametrize(("n", "variance"), [(2, 1.0), (4, 0.3), (8, 1.0), (8, 3.0), (16, 1.0), (32, 6.0)])
def test_a_rows_squared_weights_are_laplaces_integral(n: int, variance: float) -> None:
    """Independent tokens at infinite width: the diagonal of the output is E Σ_j a_ij², within four standard errors."""
    around = Surroundings(depth=8)
    weights = replace(UNIT, variances=UNIT.variances | {"WQ": variance})
    found = np.diagonal(ATTENTION.apply(np.eye(n), weights, around).output)
    samples = around.points(n) * n  # rows of one point are independent: their queries are
    logits = sqrt(variance) * np.random.default_rng(1).normal(size=(20_000, n))
    rows = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    error = (rows**2).sum(axis=1).std() / sqrt(samples)
    assert found.mean() == pytest.approx(_expected_square(n, variance), abs=4 * error)
    assert error < 0.01 * found.mean()


@pytest.mark.parametrize("cosine", [0.3, 0.8])
def test_a_rows_squared_weights_of_alike_tokens(cosine: float) -> None:
    """Exchangeable tokens: logits differ by N(0, 1 − c) each; c + (1 − c) E Σ a². A query's bias b adds b (1 − c)."""
    n, bias = 8, 0.7
    for variance, weights in ((1 - cosine, UNIT), ((1 + bias) * (1 - cosine), replace(UNIT, biases={"WQ": bias}))):
        found = ATTENTION.apply(_exchangeable(n, 1.0, cosine), weights, Surroundings()).output
        expected = cosine + (1 - cosine) * _expected_square(n, variance)
        assert np.diagonal(found).mean() == pytest.approx(expected, abs=0.002)


def test_more_points_change_nothing_but_the_error() -> None:
    """A fixed generator makes a prediction reproducible; another one moves it by less than a percent."""
    gradients = [
        ATTENTION.apply(np.eye(8), UNIT, Surroundings(generator=np.random.default_rng(seed))).backward(np.eye(8))
        for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(gradients[0], gradients[1])
    np.testing.assert_allclose(np.diagonal(gradients[0]), np.diagonal(gradients[2]), rtol=0.03)
    assert np.trace(gradients[0]) == pytest.approx(np.trace(gradients[2]), rel=0.01)


def test_large_n_and_small_logits_have_the_printed_leading_order() -> None:
    """THEORY.md, section 4, with logits of variance v (1 − c): relative error of 1/n and v."""
    n, c, v, g = 48, 0.3, 0.02, 1.7
    own, other = exp(v * (1 - c)), exp(v * c * (1 - c))
    weights = replace(UNIT, variances=UNIT.variances | {"WQ": v})
    maps = ATTENTION.apply(_exchangeable(n, 1.0, c), weights, Surroundings(depth=4))
    assert np.diagonal(maps.output).mean() == pytest.approx(c + (1 - c) * own / n, rel=1e-3)
    assert _off_diagonal(maps.output) == pytest.approx(c + (1 - c) * other / n, rel=1e-3)
    incoherent = maps.backward(g * np.eye(n))
    assert np.diagonal(incoherent).mean() == pytest.approx(g * (own + 2 * v * (1 - c) ** 2 * own) / n, rel=2e-2)
    assert _off_diagonal(incoherent) == pytest.approx(g / n, rel=2e-2)
    coherent = maps.backward(_exchangeable(n, g, 0.2))
    assert _off_diagonal(coherent) == pytest.approx(g * (1 / n + (1 - 1 / n) * 0.2), rel=1e-2)


@settings(deadline=None, derandomize=True, max_examples=20)
@given(st.integers(2, 9), st.booleans(), st.floats(0, 0.99), st.sampled_from([None, 32]))
def test_rows_of_the_mean_pattern_sum_to_one(n: int, causal: bool, cosine: float, width: int | None) -> None:
    around = Surroundings(causal, width, head_width=8, depth=64)
    pattern = ATTENTION.apply(_exchangeable(n, 1.0, cosine), UNIT, around).pattern
    assert pattern is not None
    np.testing.assert_allclose(pattern.sum(axis=1), 1.0, rtol=1e-12)
    assert np.all(pattern >= 0) and (not causal or not np.triu(pattern, 1).any())


@pytest.mark.parametrize("width", [None, 32])
def test_the_first_token_of_a_causal_mask_reads_itself(width: int | None) -> None:
    around = Surroundings(True, width, head_width=8, depth=64)
    maps = ATTENTION.apply(_exchangeable(5, 1.0, 0.4), UNIT, around)
    assert maps.pattern is not None
    np.testing.assert_array_equal(maps.pattern[0], [1, 0, 0, 0, 0])
    assert maps.output[0, 0] == pytest.approx(1.0, rel=1e-12)
    alone = maps.parameter_gradients(np.diag([1.0, 0, 0, 0, 0]))
    assert alone["WQ"] == pytest.approx(0, abs=1e-12) and alone["WK"] == pytest.approx(0, abs=1e-12)
    assert alone["WV"] == pytest.approx(1.0, rel=1e-12) and alone["WO"] == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("causal", [True, False])
def test_tokens_of_one_direction_are_read_as_one(causal: bool) -> None:
    """C = 1 everywhere: whatever the pattern, the output is the token, and no gradient reaches queries and keys."""
    gradient = np.diag(np.arange(1.0, 7.0))
    maps = ATTENTION.apply(np.ones((6, 6)), UNIT, Surroundings(causal, depth=64))
    np.testing.assert_allclose(maps.output, 1.0, rtol=1e-12)
    found = maps.parameter_gradients(gradient)
    assert found["WQ"] == pytest.approx(0, abs=1e-9) and found["WK"] == pytest.approx(0, abs=1e-9)
    # Aᵀ Γ A sums to 1ᵀ Γ 1: every row of A sums to 1. The patterns' tokens differ by 1e-7, as far as they are told apart.
    assert found["WV"] == pytest.approx(21.0, rel=3e-7) and found["WO"] == pytest.approx(21.0, rel=1e-12)
    assert maps.backward(gradient).sum() == pytest.approx(21.0, rel=3e-7)


@settings(deadline=None, derandomize=True, max_examples=20)
@given(st.floats(0.2, 3), st.floats(0.2, 3), st.floats(0.2, 3), st.floats(0.2, 3), st.booleans())
def test_gains_scale_as_they_should(q: float, k: float, v: float, o: float, causal: bool) -> None:
    """Value and output variances are factors; the logits depend on v_q·v_k alone."""
    gradient = _exchangeable(4, 1.0, 0.2)

    def maps(*gains: float) -> Applied:
        weights = Weights(dict(zip(("WQ", "WK", "WV", "WO"), gains, strict=True)))
        return ATTENTION.apply(_exchangeable(4, 1.0, 0.3), weights, Surroundings(causal, 32, 8, depth=256))

    found, plain, mirrored = maps(q, k, v, o), maps(q, k, 1, 1), maps(k, q, v, o)
    np.testing.assert_allclose(found.output, v * o * plain.output, rtol=1e-9)
    np.testing.assert_allclose(found.backward(gradient), v * o * plain.backward(gradient), rtol=1e-9)
    np.testing.assert_allclose(found.output, mirrored.output, rtol=1e-9)
    np.testing.assert_allclose(found.backward(gradient), mirrored.backward(gradient), rtol=1e-9)
    factors = {"WQ": v * o, "WK": v * o, "WV": o, "WO": v}
    of_plain, of_mirrored = plain.parameter_gradients(gradient), mirrored.parameter_gradients(gradient)
    for name, value in found.parameter_gradients(gradient).items():
        assert value == pytest.approx(factors[name] * of_plain[name], rel=1e-9)
        if name in ("WQ", "WK"):  # v_q ∂/∂W_Q depends on the product only
            assert value * {"WQ": q, "WK": k}[name] == pytest.approx(of_mirrored[name] * {"WQ": k, "WK": q}[name], rel=1e-9)


def test_the_heads_width_matters() -> None:
    """Logits q·k/√d_h of d_h = 1 are products of two Gaussians, with heavier tails than the Gaussians of d_h → ∞."""
    draw, n, draws, squares = np.random.default_rng(5), 8, 50_000, {}
    weights = replace(UNIT, variances=UNIT.variances | {"WQ": 4.0})
    for head_width in (1, 256):
        query = draw.normal(size=(draws, 1)) if head_width == 1 else np.ones((draws, 1))
        rows = np.exp(2 * query * draw.normal(size=(draws, n)))
        squares[head_width] = ((rows / rows.sum(axis=1, keepdims=True)) ** 2).sum(axis=1).mean()
        around = Surroundings(False, 4096, head_width, depth=1)
        found = np.diagonal(ATTENTION.apply(np.eye(n), weights, around).output).mean()
        # 12,288 points of 8 rows: a standard error of 0.4 %.
        assert found == pytest.approx(squares[head_width], rel=0.02)
    assert abs(squares[1] / squares[256] - 1) > 0.05


def test_moments_that_overflow_are_refused() -> None:
    with pytest.raises(InvalidInput, match="attention's moments overflow: use a smaller gain"):
        ATTENTION.apply(np.full((2, 2), np.inf), UNIT, Surroundings())


# The algebra at a given pattern.


def _patterns(seed: int, n: int) -> Patterns:
    """One random pattern with Gram matrices of tokens, queries and keys, all without symmetries between tokens."""
    draw = np.random.default_rng(seed)
    a = draw.dirichlet(np.ones(n), size=n)
    x, k = draw.normal(size=(n, n + 1)), draw.normal(size=(n, 2))
    return Patterns(a[None], (x @ x.T)[None], (1.3 * x @ x.T + 0.4)[None], (k @ k.T)[None])


def test_the_algebra_at_a_pattern_equals_plain_sums() -> None:
    """E P_ij P_i'k = a_ij a_i'k Γ_ii' (C_jk − (AC)_ik − (AC)_i'j + (ACAᵀ)_ii'), contracted index by index."""
    n = 4
    p, gamma = _patterns(3, n), np.cov(np.random.default_rng(4).normal(size=(n, 9)))
    a, c, queries, keys = p.attention[0], p.gram[0], p.queries[0], p.keys[0]
    values, at_queries, at_keys, mixed = (np.zeros((n, n)) for _ in range(4))
    for i in range(n):
        for i2 in range(n):
            for j in range(n):
                for k in range(n):
                    values[j, k] += a[i, j] * a[i2, k] * gamma[i, i2]
                    mixed[i, i2] += a[i, j] * a[i2, k] * c[j, k]
                    h = c[j, k]
                    for m in range(n):
                        h -= a[i, m] * c[m, k] + a[i2, m] * c[m, j]
                        for m2 in range(n):
                            h += a[i, m] * a[i2, m2] * c[m, m2]
                    both = a[i, j] * a[i2, k] * gamma[i, i2] * h
                    at_queries[i, i2] += both * keys[j, k]
                    at_keys[j, k] += both * queries[i, i2]
    np.testing.assert_allclose(p.values(gamma)[0], values, rtol=1e-10)
    np.testing.assert_allclose(p.mixed(), mixed, rtol=1e-10)
    np.testing.assert_allclose(p.at_queries(gamma)[0], at_queries, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(p.at_keys(gamma)[0], at_keys, rtol=1e-9, atol=1e-12)


def test_the_logits_gradients_are_those_of_gaussian_values() -> None:
    """P_ij = a_ij δ_i·(v_j − Σ_k a_ik v_k) over drawn values and output gradients, within five standard errors."""
    n, width, draws = 3, 4, 200_000
    p, draw = _patterns(5, n), np.random.default_rng(6)
    a, c, queries, keys = p.attention[0], p.gram[0], p.queries[0], p.keys[0]
    gamma = np.cov(draw.normal(size=(n, 7)))
    root = {name: np.linalg.cholesky(matrix) for name, matrix in (("c", c), ("gamma", gamma))}
    v = root["c"] @ draw.normal(size=(draws, n, width))
    delta = root["gamma"] @ draw.normal(size=(draws, n, width)) / sqrt(width)
    logits = a * (delta @ np.swapaxes(v - 0, 1, 2) - (delta * (a @ v)).sum(axis=2)[:, :, None])
    for found, samples in (
        (p.at_queries(gamma)[0], np.einsum("sij,skl,jl->sik", logits, logits, keys)),
        (p.at_keys(gamma)[0], np.einsum("sij,skl,ik->sjl", logits, logits, queries)),
    ):
        assert np.all(np.abs(samples.mean(axis=0) - found) < 5 * samples.std(axis=0) / sqrt(draws))


# Whole layers at finite width.


@dataclass(frozen=True)
class Layer:
    """Second moments over simulated layers, means and standard errors."""

    output: tuple[np.ndarray, np.ndarray]
    gradient: tuple[np.ndarray, np.ndarray]
    parameters: dict[str, tuple[np.ndarray, np.ndarray]]


N, WIDTH, HEADS = 8, 64, 4


@cache
def _simulated(causal: bool, normalised: bool, members: int = 3000) -> Layer:
    """Fresh layers on Gaussian tokens of cosine 0.3 and isotropic-in-width gradients of cosine 0.2 between tokens."""
    draw = torch.Generator().manual_seed(11)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draw)

    root = torch.linalg.cholesky(torch.tensor(_exchangeable(N, 1.0, 0.3), dtype=torch.float32))
    outputs, gradients, parameters = [], [], []
    for _ in range(members // 500):
        x = root @ normal(500, N, WIDTH)
        if normalised:
            x = x / x.square().mean(dim=2, keepdim=True).sqrt()
        x.requires_grad_()
        w = {name: (normal(500, WIDTH, WIDTH) / sqrt(WIDTH)).requires_grad_() for name in ("WQ", "WK", "WV", "WO")}
        q, k, v = ((x @ w[name]).unflatten(2, (HEADS, -1)).transpose(1, 2) for name in ("WQ", "WK", "WV"))
        read = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        output = read.transpose(1, 2).flatten(2) @ w["WO"]
        upstream = torch.linalg.cholesky(torch.tensor(_exchangeable(N, 1.0, 0.2), dtype=torch.float32)) @ normal(500, N, WIDTH)
        below, *squares = torch.autograd.grad((output * upstream).sum(), [x, *w.values()])
        outputs.append((output @ output.mT / WIDTH).detach().double().numpy())
        gradients.append((below @ below.mT / WIDTH).double().numpy())
        parameters.append(np.stack([s.square().sum(dim=(1, 2)).double().numpy() for s in squares], axis=1))

    def mean(batches: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        samples = np.concatenate(batches)
        return samples.mean(axis=0), samples.std(axis=0) / sqrt(len(samples))

    found, error = mean(parameters)
    return Layer(mean(outputs), mean(gradients), {name: (found[k], error[k]) for k, name in enumerate(("WQ", "WK", "WV", "WO"))})


def _within(found: float, law: float, error: float, remainder: float) -> None:
    assert abs(found - law) < 4 * error + remainder * abs(law)


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_a_layers_maps_are_those_of_simulated_layers(causal: bool, normalised: bool) -> None:
    """d = 64, four heads; summed over tokens and over pairs, within four standard errors and 1 % (the quadrature's points).

    With lengths normalised, the tokens' cosines are those that Gaussian tokens of this width have (`fixed_lengths`).
    """
    simulated = _simulated(causal, normalised)
    maps = ATTENTION.apply(_exchangeable(N, 1.0, 0.3), UNIT, Surroundings(causal, WIDTH, WIDTH // HEADS, normalised))
    upstream = _exchangeable(N, 1.0, 0.2)
    for (found, error), law in ((simulated.output, maps.output), (simulated.gradient, maps.backward(upstream))):
        # Errors of the entries of one network are correlated: their sum is a bound.
        _within(np.trace(found), np.trace(law), np.trace(error), 0.01)
        _within(_off_diagonal(found), _off_diagonal(law), _off_diagonal(error), 0.01)
        np.testing.assert_array_less(np.abs(found - law), 5 * error + 0.03 * np.abs(law).max())
    for name, law in maps.parameter_gradients(upstream).items():
        found, error = simulated.parameters[name]
        _within(float(found), law * WIDTH**2, float(error), 0.01)


def test_attention_behind_a_raw_stream_is_predicted() -> None:
    """No norm at all: the stream's length grows and sharpens the logits; three blocks, within four standard errors and 3 %."""
    cell = Configuration(registry()["residual-only"], ("attention",), depth=3, width=WIDTH, tokens=N, heads=HEADS)
    values = Ensemble(Cell(cell, dtype="float32"), torch.device("cpu")).extend(400).values
    for name in ("stream-moment", "stream-gradient", "token-cosine"):
        law, found = quantity(name).predicted(cell), values[name].mean(axis=0)
        error = values[name].std(axis=0) / sqrt(400)
        assert np.all(np.abs(found - law) < 4 * error + 0.03 * np.abs(law)), (name, found, law, error)


def test_collapsed_tokens_keep_their_scaling() -> None:
    """Differences of squared size ε give W_Q and W_K gradients ∝ ε², far below what double precision tells apart in C."""
    found = {}
    for size in (1e-4, 1e-11):
        applied = ATTENTION.apply(_exchangeable(6, 1.0, 1 - size), UNIT, Surroundings(False, None, depth=16))
        found[size] = applied.parameter_gradients(np.eye(6))
        assert applied.output[0, 0] - applied.output[0, 1] == pytest.approx(0.0, abs=size**1.5)
    for matrix in ("WQ", "WK"):
        assert found[1e-11][matrix] / found[1e-4][matrix] == pytest.approx(1e-14, rel=0.02)
    for matrix in ("WV", "WO"):
        assert found[1e-11][matrix] == pytest.approx(found[1e-4][matrix], rel=1e-3)
