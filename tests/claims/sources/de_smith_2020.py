"""Claim of De & Smith 2020 (SkipInit): gates of 1/√L keep a stack without norms of order one."""

from __future__ import annotations

import numpy as np

from empirical.estimands import log_ratio, log_reading, minus
from empirical.verdicts import Verdict
from tests.claims.checks import VARIANT, follows_law, law_band, upper
from tests.claims.declaration import REFUTED, SUPPORTED, Check, Claim, Profile, Whose, claim
from tests.claims.figures import against_depth
from tests.claims.sweeps import Sweep, cells_of
from tests.claims.texts import ISOTROPIC, SECOND_HAND

SMITH = "De & Smith, Batch Normalization Biases Residual Blocks Towards the Identity Function in Deep Networks, arXiv 2002.10444 (2020)"
MOMENT, GRADIENT = "stream-moment", "stream-gradient"
SQUARE = 0.5  # s² = κ² of ReLU


def _bounded(sweep: Sweep, expected: Verdict, of: Whose) -> tuple[Check, ...]:
    """The stream behind the last block, and the gradient at the input over the output's, at most e^{s²}, twice."""
    depth = sweep.depths[-1]
    limit = upper(2 * float(np.exp(SQUARE)), "of order one at any depth: twice the limit e^(s²) at most")
    forward, back = log_reading(sweep.deepest, MOMENT, -1), log_ratio(sweep.deepest, GRADIENT, 0, -1)
    return tuple(
        Check(f"{what}, L={depth}, {sweep.name}", statistic, (sweep.deepest,), limit, of, expected, logarithm=True)
        for what, statistic in (("second moment of the last stream", forward), ("squared gradient at layer 0 over layer L", back))
    )


def limits(sweep: Sweep) -> tuple[Check, ...]:
    """The same two over e^{s²}."""
    depth, band = sweep.depths[-1], law_band(sweep, sweep.depths[-1])
    forward, back = log_reading(sweep.deepest, MOMENT, -1), log_ratio(sweep.deepest, GRADIENT, 0, -1)
    return tuple(
        Check(
            f"{what} over e^(s²), L={depth}, {sweep.name}",
            minus(statistic, SQUARE),
            (sweep.deepest,),
            band,
            "law",
            logarithm=True,
        )
        for what, statistic in (("second moment of the last stream", forward), ("squared gradient at layer 0 over layer L", back))
    )


@claim
def skipinit_order_one(profile: Profile) -> Claim:
    """Supported: both tend to e^{s²}."""
    gated, bare = (Sweep(variant, "relu", profile.depths, profile.seed) for variant in ("skipinit", "residual-only"))
    return Claim(
        id="skipinit-order-one",
        group="variants",
        title="Gates of 1/√L keep stream and gradient of order one: both tend to e^(s²)",
        statement="Without norms, branches scaled by 1/√L keep the forward signal and the gradient of order one at any depth.",
        source=f"{SMITH}, {SECOND_HAND}",
        reading=f"ReLU, {profile.depths[-1]} blocks: second moment of the last stream, and squared gradient at the input over the output's, below 2e^(s²); "
        "the same without the gates.",
        law={
            "latex": r"q_L = \left(1 + \tfrac{s^2}{L}\right)^L \to e^{s^2},\qquad G(0 \to L) = \left(1 + \tfrac{\kappa^2}{L}\right)^L \to e^{\kappa^2}",
            "text": "s² = κ² = 1/2 for ReLU: √e = 1.65 either way. Without gates (1 + s²)^L.",
        },
        cells=cells_of(gated, bare),
        checks=(
            *_bounded(gated, SUPPORTED, "statement"),
            *_bounded(bare, REFUTED, "law"),
            *limits(gated),
            follows_law(gated, GRADIENT, resolution=VARIANT),
        ),
        expected=SUPPORTED,
        assumptions=ISOTROPIC,
        derived=("skipinit", "relu"),
        figures=(
            against_depth("Squared gradient at the input against depth", "squared stream gradient", [gated, bare], GRADIENT, 0),
        ),
    )
