"""Negative controls: each statement's checks are refuted on the other placement's data, and not on their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from empirical.ensemble import Ensemble
from empirical.measurement import device_named
from empirical.statistics import estimate
from empirical.verdicts import Verdict
from tests.claims.declaration import BUILDERS, PROFILES, Check
from tests.claims.sources.sensitivity import SENSITIVITY, proportional
from tests.claims.sources.underflow import gradients_below, stack, survives
from tests.claims.sources.wang_2022 import ADAM, BOUNDED, SGD, exponent, stacks
from tests.claims.sweeps import Sweep

SUPPORTED, REFUTED = Verdict.SUPPORTED, Verdict.REFUTED
SEED = 12


@lru_cache(maxsize=32)
def readings(sweep: Sweep, members: int) -> tuple[tuple[str, Mapping[str, np.ndarray]], ...]:
    cpu = device_named("cpu")
    return tuple((label, Ensemble(cell, cpu).extend(members).values) for label, cell in sweep.cells.items())


def verdict_on(check: Check, of: Sweep, data: Sweep, members: int) -> Verdict:
    """The check of one sweep on the networks of another of the same depths."""
    values = dict(zip(of.names, (v for _, v in readings(data, members)), strict=True))
    return check.verdict(estimate(check.statistic, {label: values[label] for label in check.cells}))


POST, PRE = (Sweep(variant, "relu", (32,), SEED) for variant in ("post-ln", "pre-ln"))


def test_in_proportion_to_the_blocks_is_refuted_for_pre_ln_only() -> None:
    assert verdict_on(proportional(POST), POST, POST, 512) is SUPPORTED
    assert verdict_on(proportional(POST), POST, PRE, 512) is REFUTED


DEPTHS = replace(PROFILES["quick"], depths=(4, 8, 16, 32), seed=SEED)


@pytest.mark.parametrize(("of", "data", "expected"), [(0, 0, SUPPORTED), (0, 1, REFUTED), (1, 1, SUPPORTED), (1, 0, REFUTED)])
def test_theta_of_l_and_theta_of_log_l_exclude_each_other(of: int, data: int, expected: Verdict) -> None:
    """Check 1 and 2 of the claim are Post-LN's and Pre-LN's increments."""
    sweeps = [Sweep(variant, "relu", DEPTHS.depths, SEED) for variant in ("post-ln", "pre-ln")]
    check = BUILDERS["output-sensitivity-in-depth"](DEPTHS).checks[1 + of]
    assert check.name.startswith("increment of the sensitivity") and sweeps[of].name in check.name
    assert verdict_on(check, sweeps[of], sweeps[data], 2048) is expected


@pytest.mark.parametrize(
    ("variant", "name", "expected"), [("deepnorm", SGD, SUPPORTED), ("post-ln", SGD, REFUTED), ("deepnorm", ADAM, REFUTED)]
)
def test_bounded_is_refuted_for_post_ln_and_for_adam(variant: str, name: str, expected: Verdict) -> None:
    profile = replace(PROFILES["quick"], depths=(2, 4, 8), seed=SEED)
    deep, data = stacks("deepnorm", profile), stacks(variant, profile)
    assert verdict_on(exponent(deep, name, BOUNDED, "statement"), deep, data, 256) is expected


@pytest.mark.parametrize("data", ["float32", "float16"])
def test_one_formats_depth_is_refuted_on_another(data: str) -> None:
    of = stack("float32", SEED)
    other = replace(of, dtype=data)
    check = survives(of)
    found = estimate(check.statistic, {of.deepest: gradients_below(other, 32)})
    assert check.verdict(found) is (SUPPORTED if data == "float32" else REFUTED)


def test_sensitivity_of_the_output_layer_is_exactly_zero() -> None:
    assert np.all(readings(POST, 512)[0][1][SENSITIVITY][:, -1] == 0)
