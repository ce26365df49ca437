"""The claims that train on the regression task come out the other way on other data: each check, on readings made up for it."""

from __future__ import annotations

from collections.abc import Iterable
from math import log, pi, sqrt

import numpy as np
import pytest
import torch

import tests.claims.sources  # noqa: F401 - registers the claims
from empirical.norm_costs import layer_norm, operations, rms_norm, torch_layer_norm, torch_rms_norm
from empirical.statistics import estimate, median_interval
from empirical.training import Arm, Schedule
from empirical.verdicts import Verdict
from tests.claims.declaration import BUILDERS, PROFILES, REFUTED, SUPPORTED, Check
from tests.claims.regression import SIZES, bounded_loss, late_loss, move, network, regression_arm, sweep_rate
from tests.claims.runner import Laboratory, run
from tests.claims.sources.depth_sweep import depth_check
from tests.claims.sources.stable_rate import RATE, UPDATE, checks_of, grid, largest_passing, networks, predicted_moves, scan
from tests.claims.together import Together

QUICK, FULL = PROFILES["quick"], PROFILES["full"]
SIZE = SIZES["quick"]


def made_up(*means: float, members: int = 5, scatter: float = 0.1) -> np.ndarray:
    """Readings around the means, (members, rows)."""
    noise = np.random.default_rng(len(means)).normal(0, scatter, (members, len(means)))
    return np.array(means) * np.exp(noise)


def verdict(check: Check, **readings: np.ndarray) -> object:
    return check.verdict(estimate(check.statistic, {check.cells[0]: readings}))


@pytest.mark.parametrize("profile", [QUICK, FULL], ids=["quick", "full"])
def test_the_sweep_asks_for_equality_when_shallow_and_failure_when_deep(profile) -> None:
    """On the article's own losses with made-up scatter, and on those of a Post-LN that does not fail."""
    claim = BUILDERS["depth-sweep"](profile)
    equal, *checks = claim.checks
    assert {check.band.high for check in checks} == {1.25, np.inf}
    deepest = SIZES[profile.name].depths[-1]
    shallow = made_up(0.0032, scatter=0.02)
    assert verdict(equal, **{"post-ln": shallow * 33 / 32, "pre-ln": shallow}) is SUPPORTED
    assert verdict(equal, **{"post-ln": shallow / 2, "pre-ln": shallow}) is REFUTED
    for check in checks:
        deep = check.cells[0] == f"L={deepest}"
        pre, as_said, otherwise = (0.0062, 0.0706, 0.0065) if deep else (0.0032, 0.0033, 0.006)
        paired = made_up(pre, scatter=0.02)
        assert verdict(check, **{"post-ln": paired * as_said / pre, "pre-ln": paired}) is SUPPORTED
        assert verdict(check, **{"post-ln": paired * otherwise / pre, "pre-ln": paired}) is REFUTED


def test_the_quick_sweep_moves_as_far_as_the_full_one() -> None:
    """And theory names no depth between the regimes: 32 blocks of the full sweep are shown only."""
    assert sweep_rate(SIZES["full"]) == 1e-3
    assert sweep_rate(SIZE) * move("post-ln", 32, 32) == pytest.approx(1e-3 * move("post-ln", 64, 64))
    assert [depth for depth in SIZES["full"].depths if depth_check(FULL, depth)] == [2, 8, 16, 64]


def test_a_network_that_diverged_costs_as_much_as_the_mean() -> None:
    losses = np.array([0.1, 3.0, np.inf, np.nan])
    assert bounded_loss(losses).tolist() == [0.1, 1.0, 1.0, 1.0]
    late = late_loss(np.array([[9.0, 9.0, *losses], [9.0, 9.0, 0.1, 0.2, 0.3, 0.4]]))
    np.testing.assert_allclose(late, [[3.1 / 4], [1.0 / 4]])


def test_the_norms_are_equal_or_not_and_never_by_lack_of_data() -> None:
    (check,) = BUILDERS["rms-equals-layer"](QUICK).checks
    layer = made_up(0.0045)
    assert verdict(check, **{"pre-rmsnorm": layer * made_up(0.96, scatter=0.03), "pre-ln": layer}) is SUPPORTED
    assert verdict(check, **{"pre-rmsnorm": layer * 1.5, "pre-ln": layer}) is REFUTED
    assert verdict(check, **{"pre-rmsnorm": layer * made_up(1.0, scatter=1.0), "pre-ln": layer}) is Verdict.INCONCLUSIVE


def test_loops_that_learn_without_a_shortcut_refute_it_and_so_do_stuck_ones_with_it() -> None:
    claim = BUILDERS["looped-blocks-trained"](QUICK)
    stuck, learned = made_up(1.04, scatter=0.01), made_up(0.02)
    assert [verdict(check, **{"final-loss": stuck}) for check in claim.checks] == [SUPPORTED, REFUTED, REFUTED, REFUTED]
    assert [verdict(check, **{"final-loss": learned}) for check in claim.checks] == [REFUTED, SUPPORTED, SUPPORTED, SUPPORTED]


def of_rates(exponent: float, others: float) -> dict[str, np.ndarray]:
    """Rates with one exponent along Post-LN's depths, and for the others the constant of Post-LN times ``others``."""
    moves, post = predicted_moves(SIZE), len(SIZE.stable)
    beside = [str(one) for one in networks(SIZE)].index(f"post-ln, L={SIZE.abreast}")
    rates = 4 / moves[beside] * (moves / moves[beside]) ** exponent
    rates[post:] = others * 4 / moves[post:]
    return {RATE: made_up(*rates), UPDATE: made_up(*(moves / 2) ** 2)}


@pytest.mark.parametrize(
    ("exponent", "others", "verdicts"),
    [
        (-1.0, 20.0, [SUPPORTED, REFUTED, REFUTED]),
        (-1.0, 1.0, [SUPPORTED, SUPPORTED, SUPPORTED]),
        (0.0, 1.0, [REFUTED, SUPPORTED, SUPPORTED]),
        (-2.0, 1.0, [REFUTED, SUPPORTED, SUPPORTED]),
    ],
)
def test_an_inverse_law_is_told_from_none_and_from_a_square(exponent: float, others: float, verdicts: list[object]) -> None:
    checks = checks_of(SIZE)
    assert [verdict(check, **of_rates(exponent, others)) for check in checks[:3]] == verdicts


def test_measured_updates_that_theory_does_not_predict_are_told() -> None:
    size, slope = checks_of(SIZE)[3:]
    moves = predicted_moves(SIZE)
    for readings, expected in (
        ((moves / 2) ** 2, [SUPPORTED, SUPPORTED]),
        ((moves * 2) ** 2, [REFUTED, SUPPORTED]),
        (np.full(len(moves), moves.min() ** 2 / 4), [REFUTED, REFUTED]),
    ):
        assert [verdict(check, **{UPDATE: made_up(*readings)}) for check in (size, slope)] == expected


def test_the_largest_passing_rate_is_each_members_own_and_no_more_is_trained() -> None:
    asked: list[float] = []

    def trials(*losses: tuple[float, list[float]]) -> Iterable[tuple[float, np.ndarray]]:
        for rate, found in losses:
            asked.append(rate)
            yield rate, np.array(found)

    table = ((8.0, [np.nan, 0.9]), (4.0, [0.9, 0.01]), (2.0, [0.01, 0.9]), (1.0, [0.01, 0.01]))
    assert largest_passing(trials(*table), 0.07).tolist() == [2.0, 4.0]
    assert asked == [8.0, 4.0, 2.0]
    np.testing.assert_equal(largest_passing(trials(*table[:2]), 0.07), [np.nan, 4.0])


def test_a_scan_reads_each_networks_own_trials() -> None:
    """Of a stand-in that passes below a rate of its own, 4/u, and whose first update is u²."""

    def stand_in(arm: Arm) -> dict[str, np.ndarray]:
        u = move(arm.configuration.variant.name, arm.configuration.depth, SIZE.width)
        loss = 0.01 if arm.schedule.peak < 4 / u else 1.0
        return {"final-loss": np.full((2, 1), loss), "first-block-update": np.full((2, 1), u**2)}

    found = scan(QUICK, SIZE).readings(stand_in)
    moves = predicted_moves(SIZE)
    np.testing.assert_allclose(found[UPDATE], [moves**2] * 2)
    largest = [max(rate for rate in grid(SIZE.finer) if rate < 4 / u) for u in moves]
    assert found[RATE].tolist() == [largest] * 2
    assert len(set(largest)) > 3


def test_the_grid_goes_down_by_factors_of_two() -> None:
    assert grid(1).tolist() == [0.512 / 2**k for k in range(11)]
    np.testing.assert_allclose(grid(2)[::2], grid(1))
    np.testing.assert_allclose(grid(2)[1] / grid(2)[0], sqrt(0.5))


def test_moves_are_those_of_one_block_by_hand() -> None:
    """One Post-LN block, one token, W₂'s step alone as a floor: η E‖h‖₁ √(2/π) along the gradient, over √(1 + s²)."""
    configuration = network("post-ln", 1, 32)
    weights = configuration.weights(configuration.maps[0])
    q = weights.variances["W1"]
    z = np.random.default_rng(0).normal(0, sqrt(q), 400_000)
    from scipy.stats import norm

    hidden = z * norm.cdf(z)
    floor = 128 * np.abs(hidden).mean() * sqrt(2 / pi) / sqrt(1 + (hidden**2).mean() / 3)
    assert floor < move("post-ln", 1, 32) < 4 * floor


def test_arms_read_together_are_paired_trained_when_asked_and_gated() -> None:
    """Two variants of one function have equal losses member by member; what is not asked for is not trained."""
    arms = {name: regression_arm(QUICK, name, 1, 1e-3, steps=2, held_out=64) for name in ("post-ln", "residual-final-ln", "keel")}
    laboratory = Laboratory(torch.device("cpu"), 4)
    cell = Together(arms, lambda trained: {name: trained[name]["final-loss"] for name in ("post-ln", "residual-final-ln")})
    found = laboratory.values(cell, 3)
    np.testing.assert_allclose(found["post-ln"], found["residual-final-ln"], rtol=1e-5)
    assert [bool(laboratory.trained(arm).groups) for arm in arms.values()] == [True, True, False]
    assert isinstance(arms["keel"], Arm) and arms["keel"].schedule == Schedule(1e-3)


def test_the_hand_written_norms_are_torchs() -> None:
    x, gain, bias = torch.randn(5, 16), torch.randn(16), torch.randn(16)
    torch.testing.assert_close(layer_norm(x, gain, bias), torch_layer_norm(x, gain, bias))
    torch.testing.assert_close(rms_norm(x, gain, bias), torch_rms_norm(x, gain, bias))


def test_operations_are_counted() -> None:
    """Seven passes over the elements against four, and root and ε on one number a token."""
    assert operations(layer_norm, 3, 32)[0] == 7 + 2 / 32
    assert operations(rms_norm, 3, 32)[0] == 4 + 2 / 32
    assert operations(lambda x, gain, bias: x * gain, 3, 32)[0] == 1


def test_the_costs_verdict_hangs_on_the_count() -> None:
    claim = BUILDERS["rms-cheaper"](QUICK)
    for check in claim.checks:
        assert check.cells == ("operations",)
        what = check.name.rpartition(", ")[2]
        assert verdict(check, **{what: np.tile([7.0, 4.0], (3, 1))}) is SUPPORTED
        assert verdict(check, **{what: np.tile([4.0, 7.0], (3, 1))}) is REFUTED


def test_the_medians_interval_covers_it() -> None:
    """Of a skewed distribution, as often as it says or more."""
    draws = np.random.default_rng(0).exponential(size=(40, 4000))
    found = median_interval(draws, 0.95)
    covered = ((found.low <= log(2)) & (log(2) <= found.high)).mean()
    assert 0.95 <= covered < 0.99
    with pytest.raises(ValueError, match="no interval"):
        median_interval(draws[:4], 0.95)


def test_the_claims_record_runs_end_to_end() -> None:
    record = run(BUILDERS["rms-cheaper"](QUICK), Laboratory(torch.device("cpu"), 4))
    assert record["passed"], record["checks"]
    assert {series["label"] for series in record["figures"][0]["series"]} >= {"torch's own"}
