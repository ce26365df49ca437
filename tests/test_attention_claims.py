"""The claims about whole Transformers come out the other way on other data: each check, on data made up for it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tests.claims.sources  # noqa: F401 - registers the claims
from empirical.estimands import departure, log_over_bound, log_relative_by_matrix, median_error
from empirical.measurement import Cell, boundaries, measure
from empirical.sources import source
from empirical.statistics import estimate
from empirical.verdicts import Verdict
from tests.claims.declaration import BUILDERS, PROFILES, REFUTED, SUPPORTED, Check, Claim
from tests.claims.ends import predicted
from tests.claims.sources import kedia_2024
from theory.configuration import Configuration
from theory.errors import InvalidInput
from theory.laws.attention.dropout import dropout_law
from theory.laws.crossing import blocks, constant, crossing, gain
from theory.variants import load

MEMBERS, SCATTER = 256, 0.05


class MadeUp(dict):
    """A cell's readings: theory's rows, times ``distortion`` of the row's place, with scatter between networks."""

    def __init__(self, cell: Cell, distortion) -> None:
        super().__init__()
        self.cell, self.distortion = cell, distortion

    def __missing__(self, name: str) -> np.ndarray:
        rows = predicted(self.cell, name)
        place = np.linspace(0, 1, len(rows))
        noise = np.exp(np.random.default_rng(5).normal(0, SCATTER, (MEMBERS, 1)))
        self[name] = rows * self.distortion(place) * noise
        return self[name]


class Recording(dict):
    """Means that note which quantities a statistic reads."""

    def __init__(self, rows: MadeUp) -> None:
        super().__init__()
        self.rows = rows

    def __missing__(self, name: str) -> np.ndarray:
        return self.rows[name].mean(axis=0)


def verdict(claim: Claim, check: Check, distortion) -> Verdict:
    samples = {label: MadeUp(claim.cells[label], distortion) for label in check.cells}
    check.statistic({label: Recording(rows) for label, rows in samples.items()})  # fills in what is read
    return check.verdict(estimate(check.statistic, samples))


def ramp(height: float):
    return lambda place: 1 + (height - 1) * (1 - place)


@pytest.fixture(scope="module")
def claims() -> dict[str, Claim]:
    names = ("transformer-profile", "loss-coherence", "two-thirds-decay", "post-ln-growth-bound")
    return {name: BUILDERS[name](PROFILES["quick"]) for name in names}


@pytest.mark.parametrize("height", [0.5, 2.0])
def test_a_profile_that_leans_otherwise_refutes_the_prediction(claims: dict[str, Claim], height: float) -> None:
    claim = claims["transformer-profile"]
    for check in claim.checks:
        assert verdict(claim, check, ramp(1.0)) is SUPPORTED, check.name
        assert verdict(claim, check, ramp(height)) is REFUTED, check.name


def test_profiles_of_the_other_coherence_refute_the_direction(claims: dict[str, Claim]) -> None:
    claim = claims["loss-coherence"]
    falls, grows = claim.checks[:2]
    for check, other in ((falls, grows), (grows, falls)):
        exchanged = claim.cells[other.cells[0]]
        samples = {check.cells[0]: MadeUp(exchanged, ramp(1.0))}
        check.statistic({label: Recording(rows) for label, rows in samples.items()})
        assert check.verdict(estimate(check.statistic, samples)) is REFUTED
        assert verdict(claim, check, ramp(1.0)) is SUPPORTED


def test_a_decay_by_two_thirds_would_be_supported(claims: dict[str, Claim]) -> None:
    claim = claims["two-thirds-decay"]
    for check in claim.checks[:3]:
        (label,) = check.cells
        depth = claim.cells[label].configuration.depth
        decay = (2 / 3) ** np.arange(depth, -1.0, -1)
        rows = decay * np.exp(np.random.default_rng(7).normal(0, SCATTER, (MEMBERS, 1)))
        assert check.verdict(estimate(check.statistic, {label: {"stream-gradient": rows}})) is SUPPORTED, check.name
        assert verdict(claim, check, ramp(1.0)) is REFUTED, check.name


def test_a_linear_gradient_keeps_the_bound_and_a_flat_one_has_no_rate(claims: dict[str, Claim]) -> None:
    claim = claims["post-ln-growth-bound"]
    statements = [check for check in claim.checks if check.of == "statement"]
    assert {check.expected for check in statements} == {SUPPORTED, REFUTED}
    for check in statements:
        wrong = 1e6 if check.expected is SUPPORTED else 1e-12
        assert verdict(claim, check, ramp(1.0)) is check.expected, check.name
        assert verdict(claim, check, ramp(wrong)) is not check.expected, check.name
    for check in claim.checks[len(statements) :]:
        flat = {label: MadeUp(claim.cells[label], lambda place: 1.0) for label in check.cells}
        readings = np.ones((MEMBERS, 65)) * np.exp(np.random.default_rng(7).normal(0, SCATTER, (MEMBERS, 1)))
        assert check.verdict(estimate(check.statistic, {label: {"stream-gradient": readings} for label in flat})) is REFUTED


@pytest.mark.parametrize(("chi", "bound"), [(1.05, 1.0), (1.24, 1.0), (1.24, 5.0), (1.02, 2.0)])
def test_the_crossing_is_found_by_bisection_too(chi: float, bound: float) -> None:
    low, high = 2 / np.log(chi), 1e6  # the difference is smallest at 2/log χ
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        below = (middle - 1) / 2 * np.log(chi) < np.log(bound * middle)
        low, high = (middle, high) if below else (low, middle)
    assert crossing().at(chi, bound) == pytest.approx(low, rel=1e-6)
    assert crossing().at(1.0) == np.inf
    assert {gain, constant, blocks} >= crossing().depth.free_symbols


def test_without_dropout_the_fitted_rate_is_refuted_and_a_made_up_rate_decides() -> None:
    claim = BUILDERS["fitted-rate"](PROFILES["quick"])
    depth = np.arange(33.0)
    noise = np.exp(np.random.default_rng(7).normal(0, SCATTER, (MEMBERS, 1)))

    def verdicts(with_dropout: float, without: float) -> list[Verdict]:
        data = [{"squared gradient": rate ** (2 * depth) * noise} for rate in (with_dropout, without)]
        samples = dict(zip(claim.cells, data, strict=True))
        return [
            check.verdict(estimate(check.statistic, {label: samples[label] for label in check.cells})) for check in claim.checks
        ]

    assert verdicts(1.024, 1.0) == [SUPPORTED, REFUTED]
    assert verdicts(1.0, 1.0) == [REFUTED, REFUTED]
    assert verdicts(1.05, 1.024) == [SUPPORTED, SUPPORTED]


@pytest.mark.parametrize(("dropout", "values", "square"), [(0.1, 32 / 17, 0.32), (0.1, 1.0, 0.5), (0.3, 1.0, 0.5)])
def test_the_dropout_law_is_the_fixed_point_of_plain_numbers(dropout: float, values: float, square: float) -> None:
    alike, raised = 0.5, square / (1 - dropout)
    for _ in range(2000):
        mixed = (1 + values) * alike / (1 + values * alike / (1 - dropout))
        angle = np.arccos(mixed)
        alike = (mixed + square * (np.sin(angle) + (np.pi - angle) * mixed) / np.pi) / (1 + raised)
    coherent = (1 + values) / (1 + values * alike / (1 - dropout)) * (1 + square * (np.pi - angle) / np.pi) / (1 + raised)
    found = dropout_law(load("post-ln")).at(dropout, values, square)
    assert found == pytest.approx((alike, coherent**-0.5), rel=1e-6)
    assert dropout_law(load("post-ln")).at(0.0, values, square) == pytest.approx((1.0, 1.0), abs=1e-4)


def test_the_dropout_networks_are_the_suites_own_without_dropout() -> None:
    """The simulation's blocks against `empirical.blocks` at unit gains."""
    unit = kedia_2024._simulate(0.0, 3, 64, gains=(1.0, 1.0, 1.0))
    network = Configuration(
        load("post-ln"), ("attention", "relu"), kedia_2024.DEPTH, kedia_2024.WIDTH, kedia_2024.TOKENS, kedia_2024.HEADS
    )
    own = measure(Cell(network, "coherent:1", seed=8, dtype="float32"), range(192), torch.device("cpu")).values["stream-gradient"]
    for layer in (20, 28, 31):
        one, other = unit[:, layer], own[:, layer]
        error = np.hypot(*(part.std() / np.sqrt(len(part)) / part.mean() for part in (one, other)))
        assert abs(np.log(one.mean() / other.mean())) < 4 * error < 1.2


NETWORK = Configuration(load("post-ln"), ("attention", "relu"), 2, 64, 8, 2)


def test_coherent_gradients_have_their_cosine_and_unit_square() -> None:
    cell = Cell(NETWORK, "coherent:0.3", seed=4)
    (end,) = boundaries(cell, range(1), torch.device("cpu"))
    assert end.gradients == pytest.approx(0.7 * np.eye(8) + 0.3)
    assert end.inputs == pytest.approx(np.eye(8))
    values = measure(cell, range(512), torch.device("cpu")).values
    assert values["gradient-cosine"].mean(axis=0)[-1] == pytest.approx(0.3, abs=0.02)
    assert values["stream-gradient"].mean(axis=0)[-1] == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("name", ["coherent", "coherent:", "coherent:2", "coherent:nan", "coherent:x"])
def test_a_cosine_out_of_range_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="cosine"):
        source(name)


def test_estimands_of_made_up_means() -> None:
    law = np.array([1.0, 2.0, 4.0, 8.0])
    means = {"a": {"x": law * np.array([1.0, 1.1, 1.0, 1.21])}}
    assert median_error("a", "x", law)(means) == pytest.approx([np.log(1.1) / 2])
    assert log_relative_by_matrix("a", "x", law, 2)(means) == pytest.approx([0, np.log(1.1 * 1.21) / 2])
    assert departure("a", "x", law)(means) == pytest.approx([0, 0.2, 0, 1.68])
    assert log_over_bound([(1, "a")], "x", 1, np.array([2.0]), 0.5)(means) == pytest.approx(
        [0.5 * np.log(2.2 / 9.68) - np.log(2)]
    )
