"""Claim of the review: the O(L − l + 1) statement as an upper bound."""

from __future__ import annotations

import numpy as np

from empirical.estimands import log_over_bound, slope_on
from empirical.verdicts import Band
from tests.claims.checks import upper
from tests.claims.declaration import BY_CONDITION, REFUTED, SUPPORTED, Check, Claim, Profile, claim
from tests.claims.figures import input_against_depth
from tests.claims.laws import relative_gradient_law
from tests.claims.summaries import GROWTH, Summary, along_layers
from tests.claims.sweeps import Sweep, cells_of
from tests.claims.texts import ISOTROPIC, REVIEW
from theory.laws.crossing import crossing

GRADIENT = "stream-gradient"
_CLEAR = 1.25  # a depth is judged when it is further than this factor from the crossing


def gain_of(sweep: Sweep) -> float:
    """χ of one block at infinite width, from the recursion."""
    depth = sweep.depths[0]
    rows = sweep.predicted(GRADIENT, depth, infinite_width=True)
    return float(rows[0] / rows[-1]) ** (1 / depth)


def _checks(sweep: Sweep) -> list[Check]:
    """The bound at the depths clearly before the crossing, and at those clearly beyond it."""
    crossed = crossing().at(gain_of(sweep)) - 1
    where = "never" if np.isinf(crossed) else f"at L = {crossed:.0f}"
    bound = upper(
        1.0, "norm at the input at most L + 1 times the output's: the constant is 1, as equality at l = L demands at least"
    )
    parts = (
        ("before", [(depth, label) for depth, label in sweep.labels if depth < crossed / _CLEAR], SUPPORTED),
        ("beyond", [(depth, label) for depth, label in sweep.labels if depth > crossed * _CLEAR], REFUTED),
    )
    return [
        Check(
            f"norm at l = 0 over (L + 1) times the output's, {sweep.name}, depths {side} the predicted crossing ({where})",
            log_over_bound(labels, GRADIENT, 0, np.array([depth + 1.0 for depth, _ in labels]), power=0.5),
            tuple(label for _, label in labels),
            bound,
            "statement",
            expected,
            logarithm=True,
        )
        for side, labels, expected in parts
        if labels
    ]


def _rate(sweep: Sweep) -> Check:
    """χ itself, which sets the crossing."""
    depth, predicted = sweep.depths[-1], gain_of(sweep)
    return Check(
        f"factor on the square per block, downwards, all layers of L={depth}, {sweep.name}",
        slope_on(sweep.deepest, GRADIENT, -np.arange(depth + 1.0)),
        (sweep.deepest,),
        Band(
            predicted / 1.01,
            predicted * 1.01,
            f"χ = {predicted:.4f} within 1 %: V/d a block is below 0.4 % at d = {sweep.width}; the rest is resolution",
        ),
        "law",
        predicted=predicted,
        logarithm=True,
    )


@claim
def post_ln_growth_bound(profile: Profile) -> Claim:
    """By condition: a bound for χ ≤ 1; overtaken for χ > 1 beyond a predicted depth."""
    flat = [Sweep("post-ln", name, profile.depths, profile.seed) for name in ("linear", "relu")]
    growing = [
        Sweep("post-ln", "gelu", profile.depths, profile.seed),
        Sweep("post-ln", "tanh", profile.depths, profile.seed),
        Sweep("post-ln", "tanh", profile.depths, profile.seed, gain=4.0),
    ]
    sweeps = [*flat, *growing]
    return Claim(
        id="post-ln-growth-bound",
        group="gradients",
        title="L − l + 1 bounds Post-LN's gradient for ReLU at every depth, for tanh up to a predicted depth",
        statement="Post-LN: ∂𝓛/∂x_l = O(L − l + 1) · ∂𝓛/∂x_L, read as an upper bound with one constant for all depths.",
        source=REVIEW,
        reading="Root mean square gradient norm at l = 0 at most L + 1 times the output's. Five blocks: χ = 1 (linear, ReLU), χ > 1 (GELU, tanh, and "
        "tanh with weights of variance 4/fan_in, whose crossing lies within reach).",
        law=relative_gradient_law(
            "post-ln",
            "χ^(L−l) in square, so χ^((L−l)/2) in norm; it overtakes L − l + 1 at "
            + ", ".join(f"L = {crossing().at(gain_of(s)) - 1:.0f} ({s.name.removeprefix('post-ln ')})" for s in growing)
            + "; never for χ = 1.",
            homogeneous=False,
        ),
        summary=Summary(
            GROWTH,
            "upper bound",
            "χ^m against C·m: below it for χ ≤ 1, beyond it from some depth for χ > 1",
            along_layers("upper bound", growing[-1], quantity=GRADIENT),
        ),
        cells=cells_of(*sweeps),
        checks=(*(check for sweep in sweeps for check in _checks(sweep)), *(_rate(sweep) for sweep in growing)),
        expected=BY_CONDITION,
        assumptions=ISOTROPIC,
        derived=("post-ln", "tanh"),
        steps=crossing().steps,
        figures=(input_against_depth(sweeps, GRADIENT, "statement: L + 1"),),
    )
