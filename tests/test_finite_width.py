"""Terms of first order in 1/width against simulations in numpy, Wishart algebra and a random walk written here."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.configuration import Configuration
from theory.finite_width.allowance import allowance
from theory.finite_width.lengths import Lengths
from theory.finite_width.variance import singular_variance
from theory.quantities import quantity
from theory.stack import profile
from theory.variants import registry

LARGE = 2.0**20


def _cell(name: str, branch: str, **axes: object) -> Configuration:
    return Configuration(registry()[name], (branch,), **({"depth": 3, "width": 64, "tokens": 1} | axes))  # type: ignore[arg-type]


def _excess(cell: Configuration, name: str = "stream-gradient") -> np.ndarray:
    """width · log(to first order / infinite width), layer by layer."""
    finite, limit = (quantity(name).predicted(cell, infinite_width=infinite) for infinite in (False, True))
    return cell.width * np.log(finite / limit)


def _per_step(branch: str, gain: float = 1.0, **axes: object) -> float:
    """What one RMSNorm step adds between norms: from layer 2 to layer 1 of three."""
    excess = _excess(_cell("post-rmsnorm", branch, width=int(LARGE), gain=gain, **axes))
    return float(excess[1] - excess[2])


def _singular(name: str, branch: str, gain: float = 1.0, **axes: object) -> float:
    cell = _cell(name, branch, gain=gain, **axes)
    return singular_variance(cell, profile(cell, 1, infinite_width=True).blocks[1][-1])


@settings(deadline=None, derandomize=True, max_examples=25)
@given(st.floats(0.05, 5))
def test_a_linear_step_adds_the_variance_of_its_singular_values(gain: float) -> None:
    """V = (2σ²+σ⁴)/(1+σ²)² (THEORY.md, sections 2 and 3), both as a stack's excess and from the block's free probability."""
    variance = (2 * gain + gain**2) / (1 + gain) ** 2
    assert _per_step("linear", gain) == pytest.approx(variance, rel=1e-3)
    assert _singular("post-rmsnorm", "linear", gain) == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize("expansion", [1, 3])
def test_a_relu_step_adds_the_variance_of_its_singular_values(expansion: int) -> None:
    """Of 1 + W₂DW₁ with 600 rows, D switching half of the units off: within 5 %."""
    draw, width = np.random.default_rng(0), 600
    hidden = width * expansion
    first, second = draw.normal(size=(hidden, width)) / sqrt(width), draw.normal(size=(width, hidden)) / sqrt(hidden)
    gates = draw.random(hidden) < 0.5
    squares = np.linalg.svd(np.eye(width) + second @ (gates[:, None] * first), compute_uv=False) ** 2
    simulated = squares.var() / squares.mean() ** 2
    assert _singular("post-rmsnorm", "relu", expansion=expansion) == pytest.approx(simulated, rel=0.05)
    assert _per_step("relu", expansion=expansion) == pytest.approx(simulated, rel=0.05)


@dataclass(frozen=True)
class Activation:
    """φ, φ', E φ², E φ'² at unit variance (the integrals by scipy.integrate.quad)."""

    value: object
    slope: object
    square: float
    gain: float


TANH = Activation(np.tanh, lambda z: 1 - np.tanh(z) ** 2, 0.39429449039784126, 0.4644029024482683)
LINEAR = Activation(lambda z: z, np.ones_like, 1.0, 1.0)


def _simulated_excess(phi: Activation, width: int, steps: int, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """width · (‖J‖_F²/d / χ^m − 1) of m = 1 … steps steps x ↦ RMS(x + φ(Wx)), mean and standard error.

    Every draw is averaged over W → −W of each step, and the fluctuation of ‖W‖_F² is regressed out.
    """
    draw, chi = np.random.default_rng(3), (1 + phi.gain) / (1 + phi.square)
    start = draw.normal(size=(draws, width))
    start /= np.sqrt((start**2).mean(axis=1, keepdims=True))
    weights = draw.normal(size=(steps, draws, width, width)) / sqrt(width)
    total = np.zeros((steps, draws))
    for signs in product((1, -1), repeat=steps):
        x, jacobians = start, []
        for sign, w in zip(signs, weights, strict=True):
            z = sign * (w @ x[:, :, None])[:, :, 0]
            y = x + phi.value(z)  # type: ignore[operator]
            length = np.sqrt((y**2).mean(axis=1))
            x = y / length[:, None]
            step = np.eye(width) + sign * phi.slope(z)[:, :, None] * w  # type: ignore[operator]
            jacobians.append((step - x[:, :, None] * (x[:, None, :] @ step) / width) / length[:, None, None])
        above = np.broadcast_to(np.eye(width), (draws, width, width))
        for m, jacobian in enumerate(reversed(jacobians)):
            above = above @ jacobian
            total[m] += (above**2).sum(axis=(1, 2)) / width / chi ** (m + 1) / 2**steps
    controls = np.vstack([np.ones(draws), (weights**2).sum(axis=(2, 3)) / width - 1]).T
    fitted, *_ = np.linalg.lstsq(controls, total.T, rcond=None)
    return width * (fitted[0] - 1), width * (total.T - controls @ fitted).std(axis=0) / sqrt(draws)


@pytest.mark.parametrize(("branch", "phi"), [("linear", LINEAR), ("tanh", TANH)])
def test_the_steps_below_an_isotropic_gradient_are_those_of_simulated_steps(branch: str, phi: Activation) -> None:
    """tanh's excess is not V = 0.592: −0.47 and 0.46 for the first and the second step below the output.

    The gradient along the argument is a quarter of what a homogeneous sublayer has, E(φ'z)²/E φ'² = 0.23. Within four standard
    errors and 2/d, the next order.
    """
    width = 32
    found, error = _simulated_excess(phi, width, 2, 2500)
    # x enters the lowest step at its exact length, as in the simulation, from the second block on.
    law = np.diff(-_excess(_cell("post-rmsnorm", branch, width=int(LARGE)))[::-1]).cumsum() * -1
    assert np.all(np.abs(found - law[:2]) < 4 * error + 2 / width), (found, law, error)
    if branch == "tanh":
        assert _singular("post-rmsnorm", "tanh") == pytest.approx(0.592, abs=0.001)
        assert abs(found[1] - (law[0] + 0.592)) > 0.1  # V in place of the second step's own would be 0.13 off


def _walked(width: int, depth: int, gain: float, draws: int = 400_000) -> tuple[np.ndarray, np.ndarray]:
    """Pre-RMSNorm, linear: E of the gradient at layers 0..L, mean and standard error, from the scalar process of q = |x|²/d.

    q' = q + 2√(q σ²/d) z + σ²/d χ²_d with u = Wx̂ a Gaussian vector; ∂𝓛/∂x has a fresh branch in the d − 1 directions off x:
    |g|² = (1 − 1/d)/q_L · Π_j (1 + σ² (1 − 1/d)/q_j).
    """
    draw = np.random.default_rng(7)
    q, walk = draw.chisquare(width, draws) / width, []
    for _ in range(depth):
        walk.append(q)
        along = draw.normal(size=draws)  # u's component along x, which its length contains
        rest = draw.chisquare(width - 1, draws)
        q = q + 2 * np.sqrt(q * gain / width) * along + gain / width * (along**2 + rest)
    gradient = [(1 - 1 / width) / q]
    for before in reversed(walk):
        gradient.append(gradient[-1] * (1 + gain * (1 - 1 / width) / before))
    values = np.array(gradient[::-1])
    return values.mean(axis=1), values.std(axis=1) / sqrt(draws)


@pytest.mark.parametrize(("gain", "depth"), [(1.0, 6), (0.3, 3), (2.5, 12)])
def test_the_pre_norm_linear_stack_is_its_random_walk(gain: float, depth: int) -> None:
    """The excess agrees within the terms of order 1/width²: (Σ V/d)², a tenth of the first order at d = 64."""
    cell = _cell("pre-rmsnorm", "linear", depth=depth, gain=gain)
    exact, error = _walked(64, depth, gain)
    law, limit = (quantity("stream-gradient").predicted(cell, infinite_width=infinite) for infinite in (False, True))
    terms = allowance(cell)
    assert terms is not None
    second = np.log(law / limit) ** 2 + 4 / 64**2
    assert np.all(np.abs(exact / law - 1) < second + 4 * error / law)
    assert np.all(np.abs(exact / limit - 1) > 3 * np.abs(exact / law - 1))


def test_a_pre_norm_branch_receives_the_streams_gradient() -> None:
    """Linear, one block: E‖∂𝓛/∂W‖² = d² (1 − 1/d) E[1/q_1], and y = x + u is Gaussian of variance 2: E[1/q] = d/(d − 2)/2."""
    for width in (32, 256):
        found = quantity("parameter-gradient").predicted(_cell("pre-rmsnorm", "linear", depth=1, width=width))[0]
        exact = width**2 * (1 - 1 / width) * width / (width - 2) / 2
        assert abs(found / exact - 1) < 8 / width**2


# Lengths.


def _moments(seed: int, tokens: int) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(tokens, tokens + 3))
    return rows @ rows.T / (tokens + 3)


def test_gaussian_lengths_are_wishart() -> None:
    """Cov(M_ij, M_kl) = (Σ_ik Σ_jl + Σ_il Σ_jk)/d for M = XXᵀ/d, over 40,000 draws within five standard errors."""
    width, moments = 24, _moments(1, 3)
    x = np.linalg.cholesky(moments) @ np.random.default_rng(2).normal(size=(40_000, 3, width))
    wishart = x @ np.swapaxes(x, 1, 2) / width
    centred = wishart - moments
    lengths = Lengths.gaussian(moments, width)
    for i, j in product(range(3), repeat=2):
        squares, products = centred[:, i, i] * centred[:, j, j], centred[:, i, j] * centred[:, i, i]
        assert abs(squares.mean() - lengths.squares[i, j]) < 5 * squares.std() / 200
        assert abs(products.mean() - lengths.products[i, j]) < 5 * products.std() / 200
        assert lengths.squares[i, j] == pytest.approx(2 * moments[i, j] ** 2 / width, rel=1e-12)
        assert lengths.products[i, j] == pytest.approx(2 * moments[i, j] * moments[i, i] / width, rel=1e-12)


@pytest.mark.parametrize("common", [0.2, 0.9])
def test_a_norm_lowers_the_mean_cosine_of_gaussian_tokens(common: float) -> None:
    """x and u with common parts of their own, y = x + 0.7u: the mean cosine, within four standard errors + 3/d²."""
    width, n, draw = 32, 3, np.random.default_rng(4)
    of_x, of_u = (1 - common) * np.eye(n) + common, 0.5 * ((1 - 0.4) * np.eye(n) + 0.4)
    x, u = (np.linalg.cholesky(m) @ draw.normal(size=(60_000, n, width)) for m in (of_x, of_u))
    unit = x + 0.7 * u
    unit /= np.linalg.norm(unit, axis=2, keepdims=True)
    cosines = (unit[:, 0] * unit[:, 1]).sum(axis=1)
    moments = of_x + 0.49 * of_u
    found = Lengths.gaussian(moments, width).normalised(moments)
    np.testing.assert_allclose(np.diagonal(found), 1.0)
    assert abs(cosines.mean() - found[0, 1]) < 4 * cosines.std() / sqrt(60_000) + 3 / width**2
    # Exact to this order for Gaussian pairs: c (1 − (1 − c²)/2d).
    c = moments[0, 1] / moments[0, 0]
    assert found[0, 1] == pytest.approx(c * (1 - (1 - c * c) / (2 * width)), rel=1e-12)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(st.integers(2, 6), st.integers(0, 1000))
def test_tokens_of_one_direction_keep_it(n: int, seed: int) -> None:
    """All cosines 1: whatever the lengths do together, a norm leaves 1."""
    scales = np.random.default_rng(seed).uniform(0.5, 2, n)
    moments = np.outer(scales, scales)
    np.testing.assert_allclose(Lengths.gaussian(moments, 32).normalised(moments), 1.0, rtol=1e-12)


# The limit of large widths.

CELLS = [
    (name, branch)
    for name in ("post-ln", "pre-ln", "deepnorm", "residual-only", "no-residual-rmsnorm")
    for branch in ("relu", "tanh")
]


@pytest.mark.parametrize("name", ["stream-gradient", "parameter-gradient", "token-cosine"])
@pytest.mark.parametrize(("variant", "branch"), CELLS)
def test_the_excess_falls_as_one_over_width(variant: str, branch: str, name: str) -> None:
    def departure(width: int) -> np.ndarray:
        cell = _cell(variant, branch, width=width, tokens=3)
        finite, limit = (quantity(name).predicted(cell, infinite_width=infinite) for infinite in (False, True))
        scale = float(width) ** 2 if name == "parameter-gradient" else 1.0
        return (finite - limit) / scale

    near, far, limit = departure(2**12), departure(2**14), departure(2**40)
    np.testing.assert_allclose(near, 4 * far, rtol=0.02, atol=1e-9)
    np.testing.assert_allclose(limit, 0.0, atol=1e-10)


def test_attentions_excess_falls_too() -> None:
    """Its quadrature has points of its own at infinite width, so the difference falls to their error."""
    small, large = (np.abs(_excess(_cell("post-ln", "attention", depth=12, width=w, tokens=6))).max() / w for w in (32, 1024))
    assert large < 0.03 < 0.3 < small


def test_what_is_left_out_of_several_streams_is_not_known() -> None:
    assert allowance(_cell("residual", "relu")) is None


def test_the_allowance_is_the_square_of_the_first_order() -> None:
    """Linear under RMSNorm: V/d of 0.75/64 a step."""
    found = allowance(_cell("post-rmsnorm", "linear", depth=24))
    assert found is not None
    steps = np.sqrt(found - 1 / 64)[1:-1]
    np.testing.assert_allclose(np.abs(np.diff(steps))[:-1], 0.75 / 64, rtol=0.05)


def test_attention_without_residual_or_norm_has_no_excess_where_tokens_are_alike() -> None:
    """Behind the first block the stream is all but 0 and every row reads the mean: W_O W_V of fresh Gaussian matrices.

    E|Jᵀv|² of their product is exactly the product of their gains, at any width.
    """
    excess = _excess(_cell("no-residual", "attention", depth=6, width=128, tokens=16, gain=0.1))
    assert np.abs(excess[1:]).max() / 128 < 0.02
