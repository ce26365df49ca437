"""Each variant's law is refuted on every other variant's data wherever the two laws differ, and not on its own.

The same judgement as the generic claims': ratio of measured to predicted at every layer, in the law's own band. Each variant's
networks are measured once, and held against all laws.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from empirical.ensemble import Ensemble
from empirical.estimands import log_relative
from empirical.measurement import device_named
from empirical.statistics import estimate
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


@lru_cache(maxsize=256)
def law_of(variant: str, sublayers: str, depth: int) -> tuple[np.ndarray, Check]:
    """Predicted rows, and the generic claims' check against them."""
    of = sweep(variant, sublayers, depth)
    return of.predicted(GRADIENT, depth), follows_law(of, GRADIENT)


@lru_cache(maxsize=8192)
def differ(one: str, other: str, sublayers: str) -> bool:
    """Whether two laws differ by more than both finite-size bands at some layer (twins, such as admin and deepnorm's do not)."""
    depth = depth_of(one, other)
    (mine, check), (others, control) = law_of(one, sublayers, depth), law_of(other, sublayers, depth)
    return bool(np.abs(np.log(mine / others)).max() > 1.5 * np.log(check.band.high * control.band.high))


def _measured(variant: str, sublayers: str, depth: int) -> dict[str, np.ndarray]:
    of = sweep(variant, sublayers, depth)
    return {GRADIENT: Ensemble(of.cells[of.deepest], device_named("cpu")).extend(MEMBERS).values[GRADIENT]}


@pytest.mark.parametrize("sublayers", SUBLAYERS)
@pytest.mark.parametrize("variant", registry())
def test_data_refute_every_other_law_and_not_their_own(variant: str, sublayers: str) -> None:
    readings = {depth: _measured(variant, sublayers, depth) for depth in {depth_of(variant, law) for law in registry()}}
    verdicts = {}
    for law in registry():
        depth = depth_of(variant, law)
        predicted, check = law_of(law, sublayers, depth)
        verdicts[law] = check.verdict(estimate(log_relative("data", GRADIENT, predicted), {"data": readings[depth]}))
    assert verdicts[variant] is not Verdict.REFUTED
    survivors = [law for law in verdicts if differ(law, variant, sublayers) and verdicts[law] is not Verdict.REFUTED]
    assert not survivors


def test_there_are_controls_for_every_variant() -> None:
    """As the law and, the relation being symmetric, as the data."""
    lonely = [v for v in registry() if not any(differ(v, other, s) for other in registry() for s in SUBLAYERS)]
    assert not lonely
