"""Intervals, exponents and verdicts against textbook formulas, noiseless laws and simulated coverage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student

from empirical import estimands
from empirical.statistics import Estimate, estimate, extrapolate, mean_interval, slope
from empirical.verdicts import Band, Verdict, judge

readings = st.lists(st.floats(-100, 100), min_size=3, max_size=12).map(lambda v: np.array(v)[:, None])


def _cells(rows: dict[str, np.ndarray], members: int = 4) -> dict[str, dict[str, np.ndarray]]:
    """Noiseless members: every one reads the law itself."""
    return {cell: {"g": np.tile(np.atleast_1d(row), (members, 1))} for cell, row in rows.items()}


@settings(deadline=None, derandomize=True, max_examples=40)
@given(readings, st.floats(0.5, 0.999))
def test_the_jackknife_of_a_mean_is_the_classic_standard_error(sample: np.ndarray, level: float) -> None:
    found = estimate(estimands.reading("a", "g", 0), {"a": {"g": sample}}, level)
    count = len(sample)
    error = sample[:, 0].std(ddof=1) / np.sqrt(count)
    half = student.ppf((1 + level) / 2, count - 1) * error
    np.testing.assert_allclose(found.value, sample.mean(), atol=1e-9)
    np.testing.assert_allclose([found.low[0], found.high[0]], [sample.mean() - half, sample.mean() + half], atol=1e-7)
    classic = mean_interval(sample, level)
    np.testing.assert_allclose([classic.low[0], classic.high[0]], [found.low[0], found.high[0]], atol=1e-7)


def test_independent_cells_add_their_variances() -> None:
    """The difference of two cells' means has the variance of Welch's test."""
    draw = np.random.default_rng(0)
    one, other = draw.normal(size=(20, 1)), draw.normal(scale=3, size=(30, 1))
    found = estimate(
        lambda means: means["a"]["g"][..., :1] - means["b"]["g"][..., :1], {"a": {"g": one}, "b": {"g": other}}, 0.95
    )
    half = student.ppf(0.975, 19) * np.sqrt(one.var(ddof=1) / 20 + other.var(ddof=1) / 30)
    assert found.high[0] - found.value[0] == pytest.approx(half, rel=1e-9)


def test_layers_of_one_network_may_be_correlated() -> None:
    """A log ratio of two rows that move together has no spread at all."""
    row = np.random.default_rng(1).lognormal(size=(10, 1))
    found = estimate(estimands.log_ratio("a", "g", 1, 0), {"a": {"g": np.hstack([row, 3 * row])}})
    np.testing.assert_allclose([found.low[0], found.value[0], found.high[0]], np.log(3), atol=1e-12)


def test_several_components_share_the_level() -> None:
    """Bonferroni: ten components at 99 % are as wide as one at 99.9 %."""
    sample = np.tile(np.random.default_rng(2).normal(size=(12, 1)), (1, 10))
    joint = estimate(lambda means: means["a"]["g"], {"a": {"g": sample}}, 0.99)
    single = estimate(estimands.reading("a", "g", 0), {"a": {"g": sample}}, 0.999)
    np.testing.assert_allclose(joint.high, single.high[0], rtol=1e-12)


def test_the_interval_of_a_log_ratio_covers_the_truth_as_often_as_it_says() -> None:
    """1,000 simulated experiments of 40 log-normal networks: 90 % ± four standard errors of the count, and 3 % for the skew."""
    draw, hits = np.random.default_rng(20240101), 0
    for _ in range(1000):
        common = draw.normal(size=(40, 1))
        sample = np.exp(0.5 * common + 0.6 * draw.normal(size=(40, 2)) + [0.0, np.log(2)])
        found = estimate(estimands.log_ratio("a", "g", 1, 0), {"a": {"g": sample}}, 0.9)
        hits += bool(found.low[0] <= np.log(2) <= found.high[0])
    assert hits / 1000 == pytest.approx(0.9, abs=4 * np.sqrt(0.09 / 1000) + 0.03)


def test_one_member_gives_no_interval() -> None:
    with pytest.raises(ValueError, match="at least two members"):
        estimate(estimands.reading("a", "g", 0), {"a": {"g": np.ones((1, 1))}})


@settings(deadline=None, derandomize=True, max_examples=30)
@given(st.floats(-3, 3), st.floats(-3, 3))
def test_lines_are_recovered(rise: float, start: float) -> None:
    x = np.array([0.0, 1.0, 2.5, 4.0])
    assert float(slope(x, start + rise * x)) == pytest.approx(rise, abs=1e-12)
    assert float(extrapolate(x, start + rise * x, 9.0)) == pytest.approx(start + 9 * rise, abs=1e-11)


DEPTHS = [(4, "L4"), (8, "L8"), (16, "L16"), (64, "L64")]


@settings(deadline=None, derandomize=True, max_examples=30)
@given(st.floats(-2, 2), st.floats(0.1, 10), st.sampled_from([1.0, 0.5]))
def test_an_exponent_in_depth_is_recovered(exponent: float, scale: float, power: float) -> None:
    cells = _cells({label: np.array([7.0, scale * depth**exponent]) for depth, label in DEPTHS})
    found = estimate(estimands.depth_exponent(DEPTHS, "g", 1, power), cells)
    np.testing.assert_allclose([found.low[0], found.value[0], found.high[0]], power * exponent, atol=1e-10)


@settings(deadline=None, derandomize=True, max_examples=20)
@given(st.floats(-2, 2), st.floats(0.5, 2))
def test_the_held_out_depth_is_compared_with_the_others_power_law(exponent: float, factor: float) -> None:
    """The deepest cell is off by ``factor``: that, and nothing of the fit, is found."""
    cells = _cells({label: np.array([3 * depth**exponent * (factor if depth == 64 else 1)]) for depth, label in DEPTHS})
    assert estimate(estimands.held_out(DEPTHS, "g", 0), cells).value[0] == pytest.approx(np.log(factor), abs=1e-9)


@settings(deadline=None, derandomize=True, max_examples=20)
@given(st.floats(0.5, 2), st.floats(0.1, 3), st.integers(0, 2))
def test_an_excess_exponent_is_recovered(exponent: float, constant: float, row: int) -> None:
    """Row over last row = 1 + constant·(L − l)^exponent."""
    cells = _cells({label: 5 * (1 + constant * (depth - np.arange(depth + 1.0)) ** exponent) for depth, label in DEPTHS})
    assert estimate(estimands.excess_exponent(DEPTHS, "g", row), cells).value[0] == pytest.approx(exponent, abs=1e-8)


@settings(deadline=None, derandomize=True, max_examples=20)
@given(st.floats(-2, 2), st.sampled_from([1.0, 0.5]))
def test_a_slope_over_layers_is_recovered(exponent: float, power: float) -> None:
    layers = np.arange(1, 9.0)
    cells = _cells({"a": np.concatenate([[1e9], 4 * layers**exponent])})
    found = estimate(estimands.slope_on("a", "g", np.log(layers), slice(1, None), power), cells)
    assert found.value[0] == pytest.approx(power * exponent, abs=1e-10)
    rate = estimate(estimands.slope_on("a", "g", layers, power=power), _cells({"a": 4 * np.exp(exponent * layers)}))
    assert rate.value[0] == pytest.approx(power * exponent, abs=1e-10)


def test_readings_ratios_and_counts() -> None:
    cells = _cells({"a": np.array([8.0, 4.0, 2.0, 0.0])})
    assert estimate(estimands.reading("a", "g", 1), cells).value.tolist() == [4.0]
    assert estimate(estimands.log_ratio("a", "g", 0, 2, power=0.5), cells).value[0] == pytest.approx(np.log(2))
    assert estimate(estimands.count_positive("a", "g"), cells).value.tolist() == [3.0]
    relative = estimate(estimands.log_relative("a", "g", np.array([4.0, 4.0, 4.0, 1.0]), slice(0, 3)), cells)
    np.testing.assert_allclose(relative.value, np.log([2.0, 1.0, 0.5]), atol=1e-12)


def _interval(low: float, high: float, level: float = 0.99) -> Estimate:
    return Estimate(np.array([(low + high) / 2]), np.array([low]), np.array([high]), level)


BAND = Band(-0.1, 0.1, "finite width")
VERDICTS = {
    "inside": (-0.05, 0.05, Verdict.SUPPORTED),
    "the band itself": (-0.1, 0.1, Verdict.SUPPORTED),
    "sticking out above": (-0.05, 0.1001, Verdict.INCONCLUSIVE),
    "sticking out below": (-0.1001, 0.05, Verdict.INCONCLUSIVE),
    "wider than the band": (-1.0, 1.0, Verdict.INCONCLUSIVE),
    "touching from above": (0.1, 0.2, Verdict.INCONCLUSIVE),
    "touching from below": (-0.2, -0.1, Verdict.INCONCLUSIVE),
    "outside above": (0.1001, 0.2, Verdict.REFUTED),
    "outside below": (-0.2, -0.1001, Verdict.REFUTED),
    "NaN": (float("nan"), float("nan"), Verdict.INCONCLUSIVE),
    "half NaN": (0.5, float("nan"), Verdict.INCONCLUSIVE),
    "infinite": (float("-inf"), float("inf"), Verdict.INCONCLUSIVE),
}


@pytest.mark.parametrize("place", VERDICTS)
def test_verdicts_at_the_borders(place: str) -> None:
    low, high, expected = VERDICTS[place]
    assert judge(_interval(low, high), BAND) is expected


def test_one_component_outside_refutes_and_one_sticking_out_leaves_open() -> None:
    inside, out, across = (0.0, 0.05), (0.3, 0.4), (0.05, 0.2)
    for second, expected in ((inside, Verdict.SUPPORTED), (out, Verdict.REFUTED), (across, Verdict.INCONCLUSIVE)):
        low, high = np.array([inside[0], second[0]]), np.array([inside[1], second[1]])
        assert judge(Estimate((low + high) / 2, low, high, 0.99), BAND) is expected


def test_half_open_bands() -> None:
    above = Band(1.0, float("inf"), "the statement's own direction")
    assert judge(_interval(1.5, 900.0), above) is Verdict.SUPPORTED
    assert judge(_interval(0.5, 0.9), above) is Verdict.REFUTED


@pytest.mark.parametrize(
    ("low", "high", "reason"), [(0.0, 1.0, "  "), (1.0, 1.0, "why"), (2.0, 1.0, "why"), (float("nan"), 1.0, "why")]
)
def test_a_band_needs_ends_and_a_reason(low: float, high: float, reason: str) -> None:
    with pytest.raises(ValueError, match="a band needs low < high and a reason"):
        Band(low, high, reason)
