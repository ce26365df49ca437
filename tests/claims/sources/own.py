"""Claims of this suite itself: how well its predictions hold."""

from __future__ import annotations

from empirical.estimands import log_relative
from empirical.verdicts import Band
from tests.claims.declaration import SUPPORTED, Check, Claim, Profile, claim
from tests.claims.figures import across_layers
from tests.claims.laws import gradient_law
from tests.claims.sweeps import Sweep, cells_of
from tests.claims.texts import ISOTROPIC

GRADIENT, DEPTH = "stream-gradient", 24


@claim
def tokenwise_profile(profile: Profile) -> Claim:
    """Supported: every layer within 10 %, interval included."""
    band = Band(
        1 / 1.1,
        1.1,
        "10 % at every layer, the accuracy that the suite sets itself; finite width (V ≤ 0.78) takes up to 7.6 % of it at d = 256",
    )
    sweeps = [Sweep(variant, name, (DEPTH,), profile.seed) for variant in ("post-ln", "pre-ln") for name in profile.sublayers]
    return Claim(
        id="tokenwise-profile",
        group="gradients",
        title="Token-wise stacks: every layer's gradient predicted within 10 %",
        statement="The squared stream gradient of Post-LN and Pre-LN stacks of token-wise sublayers is predicted from the expression alone.",
        source="this suite",
        reading="Measured over predicted within 10 % at every layer, the simultaneous interval included; d = 256, L = 24.",
        law=gradient_law("pre-ln", "Post-LN: χ^(L−l); Pre-LN: a ratio of Gamma functions."),
        cells=cells_of(*sweeps),
        checks=tuple(
            Check(
                f"{GRADIENT}, measured over predicted, every layer of L={DEPTH}, {sweep.name}",
                log_relative(sweep.deepest, GRADIENT, sweep.predicted(GRADIENT, DEPTH)),
                sweep.names,
                band,
                "statement",
                logarithm=True,
            )
            for sweep in sweeps
        ),
        expected=SUPPORTED,
        assumptions=ISOTROPIC,
        derived=("pre-ln", "gelu"),
        figures=(across_layers("Squared stream gradient across the layers", "squared stream gradient", sweeps, GRADIENT),),
        first_look=2048,
        budget=32768,
    )
