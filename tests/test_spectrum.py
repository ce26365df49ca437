"""The worst case: exact edges, an independent simulation, moments of the law, its growth and its finite-width shift."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from theory.configuration import Configuration
from theory.errors import InvalidInput
from theory.finite_width.paths import derived
from theory.finite_width.variance import path_gains, singular_variance
from theory.laws.law import derive
from theory.moments import ACTIVATIONS
from theory.prediction import profile
from theory.quantities import quantity
from theory.spectrum import derivation
from theory.spectrum.edge import Edges, edges
from theory.spectrum.slopes import slope_transform
from theory.spectrum.step import StepLaws
from theory.sublayers import SUBLAYERS, TokenWise
from theory.variants import registry

SINGLE = [name for name, variant in registry().items() if derived(variant)]
TOKENWISE = [name for name, maps in SUBLAYERS.items() if isinstance(maps, TokenWise)]


@lru_cache(maxsize=256)
def edges_of(name: str, branch: str, depth: int, **axes: float) -> Edges:
    return edges(profile(Configuration(registry()[name], (branch,), depth, **axes), 1, infinite_width=True))  # type: ignore[arg-type]


def test_linear_sublayers_exact_edges() -> None:
    """σ² = 1 (THEORY.md, section 3): 27/8 exactly, and five more."""
    found = edges_of("post-rmsnorm", "linear", 33).infinite_width[::-1]
    np.testing.assert_allclose(found[1], 27 / 8, rtol=1e-8)
    np.testing.assert_allclose(found[[2, 4, 8, 16, 32]], [5.46, 9.58, 17.76, 34.08, 66.70], atol=0.005)


@pytest.mark.parametrize(("depth", "ratio"), [(16, 13.58), (64, 20.87), (256, 28.4), (1024, 36.0)])
def test_pre_ln_edge_over_mean(depth: int, ratio: float) -> None:
    assert edges_of("pre-ln", "linear", depth).ratio[0] == pytest.approx(ratio, abs=0.05)


@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_products_of_square_gaussian_matrices(blocks: int) -> None:
    """Without residual: the Fuss–Catalan edge (m + 1)^(m + 1)/m^m (Alexeev, Götze & Tikhomirov 2010)."""
    found = edges_of("no-residual", "linear", blocks).infinite_width[0]
    assert found == pytest.approx((blocks + 1) ** (blocks + 1) / blocks**blocks, rel=1e-8)


def test_the_shift_of_a_square_wishart_matrix() -> None:
    """Johnstone 2001: centre 4, scale 4^(2/3) d^(−2/3), and his −1/2 in each dimension (Ma 2012)."""
    found = edges_of("no-residual", "linear", 1)
    assert 4 * found.scale[0] == pytest.approx(4 ** (2 / 3), rel=1e-6)
    assert 1 / found.inverse_place[0] == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("gain", [0.1, 1.0, 4.0])
def test_the_notes_cubic_gives_the_same_transform(gain: float) -> None:
    """THEORY.md 3: S = M/ψ, (1 + ψ)(1 − σ²M)² = 1 + (1 − σ²)M."""
    psi = np.geomspace(1e-3, 1e2, 40)
    laws = StepLaws(np.array([1.0]), np.array([gain]), [SUBLAYERS["linear"].factor(1.0, 1)])  # type: ignore[list-item]
    m = psi * np.exp(laws.log_transforms(psi)[0]) / (1 + gain)
    np.testing.assert_allclose((1 + psi) * (1 - gain * m) ** 2, 1 + (1 - gain) * m, rtol=1e-9)


def test_the_symbolic_linear_transform_is_the_numeric_one() -> None:
    psi = np.geomspace(1e-3, 1e2, 40)
    formula = sympy.lambdify((derivation.A, derivation.B, derivation.psi), derivation.linear_transform())
    laws = StepLaws(np.array([2.0]), np.array([3.0]), [SUBLAYERS["linear"].factor(1.0, 1)])  # type: ignore[list-item]
    np.testing.assert_allclose(np.exp(laws.log_transforms(psi)[0]), 5 * formula(2.0, 3.0, psi), rtol=1e-9)


def _matrix(draw: np.random.Generator, branch: str, width: int, expansion: int) -> np.ndarray:
    """J_F of one sublayer with slopes at independent N(0, 1) pre-activations: an independent construction."""
    two, slope = len(SUBLAYERS[branch].matrices) == 2, ACTIVATIONS[branch].derivative
    hidden = width * expansion if two else width
    first = draw.normal(size=(hidden, width)) / width**0.5
    gated = slope(draw.normal(size=hidden))[:, None] * first
    return draw.normal(size=(width, hidden)) @ gated / hidden**0.5 if two else gated


@pytest.mark.parametrize(
    ("branch", "expansion"), [("linear", 1), ("tanh", 1), ("relu", 1), ("relu", 4), ("gelu", 2), ("silu", 1)]
)
def test_the_edge_of_simulated_products(branch: str, expansion: int) -> None:
    """Three Post-LN blocks of width 160, 24 products: mean of the largest squared singular value within 3 % and 4 errors."""
    draw, width, blocks = np.random.default_rng(7), 160, 3
    square, gain = ACTIVATIONS[branch].moments(1.0)
    largest = []
    for _ in range(24):
        product = np.eye(width)
        for _ in range(blocks):
            product = product + _matrix(draw, branch, width, expansion) @ product
        largest.append(np.linalg.norm(product, 2) ** 2 / (1 + square) ** blocks)
    predicted = edges_of("post-rmsnorm", branch, blocks, expansion=expansion).at(width)[0]
    error = np.std(largest) / 24**0.5
    assert abs(np.mean(largest) - predicted) < 0.03 * predicted + 4 * error
    assert abs(np.mean(largest) - predicted) < 0.1 * predicted


def test_the_edge_of_a_simulated_pre_ln_stack() -> None:
    """Sixteen shrinking linear branches, the sizes of THEORY.md 3, at width 160."""
    draw, width, depth = np.random.default_rng(3), 160, 16
    ratios = []
    for _ in range(16):
        product = np.eye(width)
        for j in range(depth):
            product = product + draw.normal(size=(width, width)) @ product / (width * (1 + j)) ** 0.5
        ratios.append(np.linalg.norm(product, 2) ** 2 / (1 + depth))
    found = edges_of("pre-ln", "linear", depth)
    predicted = (found.at(width) / found.mean)[0]
    assert np.mean(ratios) == pytest.approx(predicted, rel=0.04, abs=4 * np.std(ratios) / 4)


@settings(deadline=None, max_examples=40)
@given(
    name=st.sampled_from(SINGLE),
    branch=st.sampled_from(TOKENWISE),
    gain=st.floats(0.05, 4),
    depth=st.integers(1, 24),
    expansion=st.integers(1, 4),
)
def test_the_edge_is_above_the_mean_and_below_the_product_of_edges(
    name: str, branch: str, gain: float, depth: int, expansion: int
) -> None:
    """mean ≤ Λ; norms are submultiplicative, so Λ(l) ≤ Λ(l + 1)·Λ of one block; the mean is the walk's gradient."""
    configuration = Configuration(registry()[name], (branch,), depth, gain=gain, expansion=expansion)
    found = edges(profile(configuration, 1))
    np.testing.assert_allclose(found.mean, quantity("stream-gradient").predicted(configuration), rtol=1e-12)
    assert np.all(found.ratio >= 1) and found.ratio[-1] == 1
    assert np.all(np.diff(found.ratio) < 0) or (name == "rezero" and np.all(found.ratio == 1))
    assert np.all(found.scale >= 0)
    if name.startswith("post") or name.startswith("no-residual-"):
        single = found.ratio[-2]
        assert np.all(found.ratio[1:-1] <= found.ratio[2:] * single * (1 + 1e-9))


@settings(deadline=None, max_examples=60)
@given(
    direct=st.floats(0, 4),
    branch=st.floats(0.05, 4),
    name=st.sampled_from(TOKENWISE),
    expansion=st.integers(1, 4),
    q=st.floats(0.3, 3),
)
def test_the_first_moments_of_a_steps_law(direct: float, branch: float, name: str, expansion: int, q: float) -> None:
    """S(0) = 1 (mean one) and −S'(0) = V, from the transform and from the two-path formula of theory.finite_width.variance."""
    maps = SUBLAYERS[name]
    spread, factor = maps.spread(q, expansion), maps.factor(q, expansion)
    assert factor is not None
    psi = np.array([1e-4, 2e-4])
    logs = StepLaws(np.array([direct]), np.array([branch]), [factor]).log_transforms(psi)[0]
    variance = (2 * direct * branch + branch**2 * (spread - 1)) / (direct + branch) ** 2
    assert (logs[1] - 4 * logs[0]) / (2 * psi[0]) == pytest.approx(variance, rel=2e-3, abs=1e-6)


@settings(deadline=None, max_examples=40)
@given(z=st.floats(1e-4, 5), name=st.sampled_from(["relu", "leaky-relu", "linear"]))
def test_the_two_point_transform_inverts_its_moment_series(z: float, name: str) -> None:
    """ψ(x) = E[r x/(1 − r x)] of the two values, at x = S z/(1 + z)."""
    activation = ACTIVATIONS[name]
    log_s, slope = slope_transform(activation, 1.0)(np.array([z]))
    squares = np.array([float(s) ** 2 for s in activation.slopes])  # type: ignore[union-attr]
    ratios = squares / squares.mean()
    x = np.exp(log_s[0]) * z / (1 + z)
    assert (ratios * x / (1 - ratios * x)).mean() == pytest.approx(z, rel=1e-9)
    step = 1e-6 * z
    beside = [slope_transform(activation, 1.0)(np.array([z + h]))[0][0] for h in (-step, step)]
    assert slope[0] == pytest.approx((beside[1] - beside[0]) / (2 * step), rel=1e-4, abs=1e-6)


@settings(deadline=None, max_examples=30)
@given(z=st.floats(1e-3, 1.5), name=st.sampled_from(["gelu", "tanh", "silu"]))
def test_the_quadratures_transform_inverts_its_moment_series(z: float, name: str) -> None:
    """Against adaptive quadrature over eight standard deviations."""
    activation = ACTIVATIONS[name]
    x = np.exp(slope_transform(activation, 1.0)(np.array([z]))[0][0]) * z / (1 + z)
    gain = activation.moments(1.0)[1]

    def term(u: float) -> float:
        ratio = float(activation.derivative(np.array([u]))[0]) ** 2 / gain
        return float(norm.pdf(u)) * ratio * x / (1 - ratio * x)

    assert quad(term, -8, 8, limit=400)[0] == pytest.approx(z, rel=2e-3)


def test_the_symbolic_variance_is_the_numeric_one() -> None:
    """V as sympy derives it from the curve, at the paths' gains of a real step."""
    configuration = Configuration(registry()["post-rmsnorm"], ("gelu",), 1)
    ((step,),) = profile(configuration, 1).blocks
    direct, branch = path_gains(step)
    spread = step.maps.spread(step.pre_activation, 1)
    value = derivation.step_variance().subs({derivation.A: direct, derivation.B: branch, derivation.spread: spread - 1})
    assert float(value) == pytest.approx(singular_variance(configuration, step), rel=1e-12)


@pytest.mark.parametrize("branch", TOKENWISE)
def test_post_ln_grows_with_slope_e_v(branch: str) -> None:
    """The exact edge's increments reach e·V, and so does the derived class."""
    found = edges_of("post-ln", branch, 400)
    assert found.ratio[0] - found.ratio[1] == pytest.approx(np.e * found.variance[-2], rel=3e-3)
    law = derive(registry()["post-ln"], 1, SUBLAYERS[branch].homogeneous)
    growth = derivation.growth(law, (derivation.spread,))
    square, gain = ACTIVATIONS[branch].moments(1.0)
    spread = SUBLAYERS[branch].spread(1.0, 1)
    values = {law.moments[0].square: square, law.moments[0].gain: gain, derivation.spread: spread - 1}
    assert growth is not None and growth.linear
    assert float(growth.slope.subs(values)) == pytest.approx(np.e * found.variance[-2], rel=1e-9)


@pytest.mark.parametrize("branch", ["linear", "relu", "gelu"])
def test_pre_ln_grows_by_a_logarithm(branch: str) -> None:
    """2e κ²/s² for each factor e in depth: the exact edge from L = 400 to 1600, and the derived class."""
    square, gain = ACTIVATIONS[branch].moments(1.0)
    slope = 2 * np.e * gain / square
    ends = [edges_of("pre-ln", branch, depth).ratio[0] for depth in (400, 1600)]
    assert (ends[1] - ends[0]) / np.log(4) == pytest.approx(slope, rel=0.02)
    law = derive(registry()["pre-ln"], 1, SUBLAYERS[branch].homogeneous)
    growth = derivation.growth(law, (derivation.spread,))
    assert growth is not None and not growth.linear
    assert float(growth.slope.subs({law.moments[0].square: square, law.moments[0].gain: gain})) == pytest.approx(slope, rel=1e-9)


def test_two_sublayers_a_block_add_their_steps() -> None:
    """A Post-LN block of two linear sublayers is two blocks of one."""
    double = edges(profile(Configuration(registry()["post-rmsnorm"], ("linear", "linear"), 4), 1, infinite_width=True))
    np.testing.assert_allclose(double.infinite_width, edges_of("post-rmsnorm", "linear", 8).infinite_width[::2], rtol=1e-7)


def test_a_thousand_blocks_follow_kargins_slope() -> None:
    """Λ(m)/m → e·V (Kargin 2008), V = 7/9 for ReLU; log corrections are left at m = 1000."""
    edge = edges_of("post-rmsnorm", "relu", 1000).ratio
    assert len(edge) == 1001
    assert (edge[0] - edge[500]) / 500 == pytest.approx(np.e * 7 / 9, rel=0.01)


@pytest.mark.parametrize(
    ("name", "branch", "hint"),
    [("residual", "relu", "of one stream"), ("post-ln", "attention", "use token-wise ones")],
)
def test_where_there_is_no_law_one_line_says_so(name: str, branch: str, hint: str) -> None:
    with pytest.raises(InvalidInput, match=hint) as caught:
        quantity("operator-norm").predict(Configuration(registry()[name], (branch,), 2))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", registry())
def test_every_variant_has_a_worst_case_derivation_or_says_why_not(name: str) -> None:
    steps = derivation.worst_case(registry()[name], (SUBLAYERS["relu"],))
    assert steps and all(step.title.startswith("Worst case") and step.reason for step in steps)
    assert (len(steps) > 5) == derived(registry()[name])
