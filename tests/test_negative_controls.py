"""Each variant's law is refuted on every other variant's data wherever the two laws differ, and not on its own.

The same judgement as the generic claims': ratio of measured to predicted at every layer, in the law's own band.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from empirical.ensemble import Ensemble
from empirical.estimands import log_relative
from empirical.measurement import device_named
from empirical.statistics import Estimate, estimate
from empirical.verdicts import Verdict
from tests.claims.checks import follows_law
from tests.claims.declaration import Check
from tests.claims.sweeps import Sweep
from theory.variants import registry

DEPTH, MEMBERS, GRADIENT = 24, 768, "stream-gradient"
SUBLAYERS = ("relu", "gelu")


def depth_of(*variants: str) -> int:
    """Less deep where blocks share their weights: single networks scatter with the depth squared."""
    return 6 if any(registry()[variant].tied for variant in variants) else DEPTH


def sweep(variant: str, sublayers: str, depth: int) -> Sweep:
    return Sweep(variant, sublayers, (depth,), base_seed=11)


@lru_cache(maxsize=128)
def readings(variant: str, sublayers: str, depth: int) -> dict[str, np.ndarray]:
    of = sweep(variant, sublayers, depth)
    return Ensemble(of.cells[of.deepest], device_named("cpu")).extend(MEMBERS).values


@lru_cache(maxsize=256)
def law_of(variant: str, sublayers: str, depth: int) -> tuple[np.ndarray, Check]:
    """Predicted rows, and the generic claims' check against them."""
    of = sweep(variant, sublayers, depth)
    return of.predicted(GRADIENT, depth), follows_law(of, GRADIENT)


def against(law: str, data: str, sublayers: str) -> Estimate:
    """Data of one variant over the law of another."""
    depth = depth_of(law, data)
    statistic = log_relative("data", GRADIENT, law_of(law, sublayers, depth)[0])
    return estimate(statistic, {"data": readings(data, sublayers, depth)})


def distinguishable() -> list[tuple[str, str, str]]:
    """(law, data, sublayers) whose laws differ by more than both finite-size bands at some layer."""
    found = []
    for sublayers in SUBLAYERS:
        for law in registry():
            for data in registry():
                depth = depth_of(law, data)
                (mine, check), (other, control) = law_of(law, sublayers, depth), law_of(data, sublayers, depth)
                if np.abs(np.log(mine / other)).max() > 1.5 * np.log(check.band.high * control.band.high):
                    found.append((law, data, sublayers))
    return found


@pytest.mark.parametrize(("law", "data", "sublayers"), distinguishable())
def test_a_law_is_refuted_on_the_data_of_another(law: str, data: str, sublayers: str) -> None:
    _, check = law_of(law, sublayers, depth_of(law, data))
    assert check.verdict(against(law, data, sublayers)) is Verdict.REFUTED


@pytest.mark.parametrize("sublayers", SUBLAYERS)
@pytest.mark.parametrize("variant", registry())
def test_a_law_is_not_refuted_on_its_own_data(variant: str, sublayers: str) -> None:
    _, check = law_of(variant, sublayers, depth_of(variant))
    assert check.verdict(against(variant, variant, sublayers)) is not Verdict.REFUTED


def test_there_are_controls_for_every_variant() -> None:
    pairs = distinguishable()
    assert {law for law, _, _ in pairs} == set(registry()) == {data for _, data, _ in pairs}
