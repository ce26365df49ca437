"""The claims on the papers' variants: each check is what theory's own rows say, and comes out the other way on other data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from scipy.integrate import quad

import tests.claims.sources  # noqa: F401 - registers the claims
from empirical.estimands import growth_of_logarithm, growth_of_logarithm_along
from empirical.measurement import Cell
from empirical.statistics import estimate
from empirical.verdicts import Verdict
from tests.claims.declaration import BUILDERS, PROFILES, REFUTED, SUPPORTED, Check, Claim
from tests.claims.ends import predicted
from tests.claims.sources import alekseev_2026
from tests.claims.sources.xie_2023 import dual_part, printed
from tests.claims.sweeps import Sweep
from theory.quantities import quantity
from theory.variants import load

MEMBERS, SCATTER = 64, 0.02
Rows = Callable[[Cell, str], np.ndarray]


def instead(**variants: str) -> Rows:
    """Theory's rows of another variant in place of the cell's own; names with underscores for hyphens."""
    names = {old.replace("_", "-"): new for old, new in variants.items()}

    def rows(cell: Cell, name: str) -> np.ndarray:
        configuration = cell.configuration
        other = load(names.get(configuration.variant.name, configuration.variant.name))
        return predicted(replace(cell, configuration=replace(configuration, variant=other)), name)

    return rows


def made_up(row: Callable[[np.ndarray, int], np.ndarray]) -> Rows:
    """Rows from the block or layer and the depth."""

    def rows(cell: Cell, name: str) -> np.ndarray:
        first, depth = quantity(name).first_layer, cell.configuration.depth
        return np.asarray(row(np.arange(first, depth + 1.0), depth) * np.ones(depth + 1 - first))

    return rows


OWN = instead()
_FORMULA = made_up(lambda k, depth: np.array([printed(min(int(block), depth - 1), depth) ** 2 for block in k]))
_FALLING = made_up(lambda k, depth: 0.5 ** (depth - k))
CONTROLS: dict[str, list[tuple[tuple[int, ...], Rows]]] = {
    "residual-gradient-bound": [((0, 1, 2), instead(residual="keel"))],
    "residual-printed-gradient": [((0, 1, 2), _FORMULA)],
    "residual-output-change": [
        ((0, 6), instead(residual="pre-ln")),
        ((1, 5), instead(pre_ln="post-ln")),
        ((2,), made_up(lambda k, _: k**-2.0)),
        ((3,), instead(post_ln="pre-ln")),
        ((4,), made_up(lambda k, _: (2 - 2 / 1.5**0.5) ** 2)),
    ],
    "curse-of-depth-variance": [
        ((0, 1, 5, 6), instead(pre_ln="layernorm-scaling")),
        ((2, 3), instead(pre_ln="residual-only")),
        ((4,), made_up(lambda k, _: (1 + k / 2) ** 2)),
    ],
    "layernorm-scaling-variance": [
        ((0,), instead(layernorm_scaling="residual-only")),
        ((1, 2, 3), instead(layernorm_scaling="pre-ln")),
    ],
    "layernorm-scaling-contribution": [
        ((0, 1), instead(layernorm_scaling="pre-ln", pre_ln="layernorm-scaling")),
        ((2, 3), instead(layernorm_scaling="pre-ln")),
    ],
    "diminished-gradients": [
        ((0, 1, 5), instead(pre_ln="post-ln")),
        ((2, 3), _FALLING),
        ((4,), instead(post_ln="pre-ln")),
    ],
    "mix-ln-evens-gradients": [
        ((0,), instead(mix_ln="pre-ln", pre_ln="mix-ln")),
        ((1, 2), instead(mix_ln="post-ln", post_ln="mix-ln")),
        ((3,), instead(mix_ln="post-ln")),
    ],
    "peri-ln-variance": [((0, 1, 2), instead(peri_ln="pre-ln"))],
    "peri-ln-gradient-order": [
        ((0, 1), instead(post_ln="pre-ln", pre_ln="post-ln")),
        ((2, 3), instead(pre_ln="peri-ln", peri_ln="pre-ln")),
        ((4, 6, 7, 9), instead(post_ln="pre-ln", peri_ln="post-ln")),
        ((5, 8), instead(pre_ln="post-ln")),
    ],
    "admin-output-change": [((0,), instead(post_ln="pre-ln")), ((1, 2, 3, 4), instead(admin="post-ln"))],
    "norm-as-source-of-vanishing": [
        ((0,), _FALLING),
        ((1, 3, 4), instead(post_ln="pre-ln")),
        ((2,), made_up(lambda _, depth: np.array(1 / depth))),
    ],
    "b2t-keeps-gradient": [((0, 2), instead(b2t="post-ln")), ((1,), instead(post_ln="b2t"))],
    "keel-thousand-layers": [
        ((0, 1, 3), instead(keel="pre-ln")),
        ((2,), made_up(lambda k, depth: 0.25 ** (depth - k))),
    ],
    "keel-weights-gradient": [((0, 1, 3), instead(keel="post-ln")), ((2,), instead(post_ln="keel"))],
    "rezero-identity": [((0, 2), instead(rezero="skipinit")), ((1,), made_up(lambda k, _: 1.05 + 0 * k))],
    "skipinit-order-one": [
        ((0, 1, 4, 5, 6), instead(skipinit="residual-only")),
        ((2, 3), instead(residual_only="skipinit")),
    ],
    "pre-ln-power-law": [(tuple(range(6)), instead(pre_ln="post-ln"))],
    "dynamic-tanh-stretched-exponential": [
        ((0, 1, 3), instead(dynamic_tanh="pre-ln")),
        ((2,), instead(pre_ln="dynamic-tanh")),
    ],
    "hyper-connections-start-as-pre-ln": [(tuple(range(5)), instead(hyper_connections="post-ln"))],
    "product-against-sum": [
        ((0, 3), instead(post_ln="keel")),
        ((1, 4), instead(post_ln="pre-ln")),
        ((2, 5), instead(pre_ln="residual-only")),
    ],
    "pre-ln-early-layers": [(tuple(range(4)), instead(pre_ln="post-ln"))],
    "rank-collapse-of-queries-and-keys": [(tuple(range(4)), instead(post_ln="skipinit", skipinit="post-ln"))],
}
"""Claim → (checks, data on which they come out the other way)."""


@lru_cache(maxsize=64)
def claim(name: str) -> Claim:
    return BUILDERS[name](PROFILES["quick"])


class Values(dict):
    """A cell's readings: rows, with a scatter between networks that all rows share."""

    def __init__(self, cell: Cell, rows: Rows) -> None:
        super().__init__()
        self.cell, self.rows = cell, rows

    def __missing__(self, name: str) -> np.ndarray:
        noise = np.exp(np.random.default_rng(5).normal(0, SCATTER, (MEMBERS, 1)))
        self[name] = self.rows(self.cell, name) * noise
        return self[name]


class Recording(dict):
    """Means that note which quantities a statistic reads."""

    def __init__(self, values: Values) -> None:
        super().__init__()
        self.values_of = values

    def __missing__(self, name: str) -> np.ndarray:
        return self.values_of[name].mean(axis=0)


def verdict(of: Claim, check: Check, rows: Rows) -> Verdict:
    samples = {label: Values(of.cells[label], rows) for label in check.cells}
    check.statistic({label: Recording(values) for label, values in samples.items()})  # fills in what is read
    return check.verdict(estimate(check.statistic, samples))


@pytest.mark.parametrize("name", CONTROLS)
def test_every_check_is_what_theory_says(name: str) -> None:
    for check in claim(name).checks:
        if "operator norm" not in check.name:  # no law for a step without a branch
            assert verdict(claim(name), check, OWN) is check.expected, check.name


@pytest.mark.parametrize("name", CONTROLS)
def test_every_check_comes_out_the_other_way_on_other_data(name: str) -> None:
    checks = claim(name).checks
    assert sorted(index for some, _ in CONTROLS[name] for index in some) == list(range(len(checks)))
    for some, rows in CONTROLS[name]:
        for index in some:
            other = REFUTED if checks[index].expected is SUPPORTED else SUPPORTED
            assert verdict(claim(name), checks[index], rows) is other, checks[index].name


def test_admin_is_pre_ln_exactly_at_infinite_width() -> None:
    for sublayers in ("relu", "gelu"):
        admin, pre = (Sweep(variant, sublayers, (12,), 0) for variant in ("admin", "pre-ln"))
        for name in ("output-sensitivity", "output-matrix-gradient"):
            one, other = (sweep.predicted(name, 12, infinite_width=True) for sweep in (admin, pre))
            np.testing.assert_allclose(one, other, rtol=1e-12)


def test_hyper_connections_are_pre_ln_exactly_at_infinite_width() -> None:
    for sublayers in ("relu", "attention,gelu"):
        hyper, pre = (Sweep(variant, sublayers, (7,), 0, 64, 4, 4) for variant in ("hyper-connections", "pre-ln"))
        for name in ("stream-moment", "relative-step", "output-matrix-gradient", "output-sensitivity", "token-cosine"):
            one, other = (sweep.predicted(name, 7, infinite_width=True) for sweep in (hyper, pre))
            np.testing.assert_allclose(one, other, rtol=2e-2 if "attention" in sublayers else 1e-12)


def test_the_dual_streams_part_is_pre_lns_last_block() -> None:
    """1/q_L of the final norm, times n d · d/2: what W₂ of Pre-LN's last block gets."""
    residual, pre = (Sweep(variant, "relu", (9,), 0) for variant in ("residual", "pre-ln"))
    assert dual_part(residual) == pytest.approx(2 * 256 * 256 / 2 / (1 + 9 / 2), rel=1e-12)
    assert dual_part(residual) == pytest.approx(pre.predicted("output-matrix-gradient", 9, infinite_width=True)[-1], rel=1e-12)


def test_mix_lns_spread_is_three_quarters_of_pre_lns() -> None:
    mix, pre = (Sweep(variant, "relu", (256,), 0, tokens=1) for variant in ("mix-ln", "pre-ln"))
    first, last = np.array([s.predicted("output-matrix-gradient", 256, infinite_width=True)[[0, -1]] for s in (mix, pre)]).T
    ratio = (first[0] / last[0]) / (first[1] / last[1])
    assert ratio == pytest.approx((1 + 3 / 4 * 128) / (1 + 128), rel=1e-9)


@pytest.mark.parametrize("gain", [0.5, 1.0, 2.0, 3.0])
def test_peri_lns_weights_against_pre_lns(gain: float) -> None:
    """(1 + s² l)/(s² (1 + l)), s² = gain²/2, at every block."""
    peri, pre = (Sweep(variant, "relu", (12,), 0, gain=gain) for variant in ("peri-ln", "pre-ln"))
    l, s2 = np.arange(1, 13.0), gain**2 / 2
    one, other = (sweep.predicted("output-matrix-gradient", 12, infinite_width=True) for sweep in (peri, pre))
    np.testing.assert_allclose(one / other, (1 + s2 * l) / (s2 * (1 + l)), rtol=1e-9)


def test_zeta_is_the_ratio_of_gain_and_square() -> None:
    tanh = [quad(lambda z, f=f: f(np.tanh(z)) * np.exp(-(z**2) / 2), -12, 12)[0] for f in (np.square, lambda t: (1 - t * t) ** 2)]
    assert alekseev_2026.zeta("tanh") == pytest.approx(tanh[1] / tanh[0], rel=1e-9)
    assert alekseev_2026.zeta("relu") == alekseev_2026.zeta("linear") == 1


def test_dynamic_tanhs_gain_behind_a_long_stream() -> None:
    """χ − 1 → (2α/3)/√(2πq) for κ² = 1/2: the rate of the stretched exponential."""
    q, alpha = 1e6, 0.5
    slope = quad(
        lambda z: np.cosh(alpha * np.sqrt(q) * z) ** -4 * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi), -0.1, 0.1, points=[0]
    )[0]
    assert 0.5 * alpha**2 * slope == pytest.approx(2 * alpha / 3 / np.sqrt(2 * np.pi * q), rel=1e-4)


@pytest.mark.parametrize(
    ("curve", "value"), [(lambda x: x**3, 1.0), (lambda x: np.exp(x**0.5), 2.0), (lambda x: np.exp(x / 9), 4.0)]
)
def test_growth_of_a_logarithm(curve: Callable[[np.ndarray], np.ndarray], value: float) -> None:
    rows = curve(np.arange(1, 513.0))
    along = growth_of_logarithm_along("a", "x", (31, 127, 511))({"a": {"x": rows}})
    cells = tuple((depth, str(depth)) for depth in (32, 128, 512))
    across = growth_of_logarithm(cells, "x", 0)({label: {"x": rows[[depth - 1]]} for depth, label in cells})
    assert np.exp([along[0], across[0]]) == pytest.approx([value, value])
