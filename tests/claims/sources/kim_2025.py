"""Claims of Kim et al. 2025 (Peri-LN): growth by a constant a block, and the order of the placements' gradients."""

from __future__ import annotations

import numpy as np

from empirical.estimands import log_over_cell, log_ratio_of_sums, log_relative
from empirical.verdicts import Verdict
from tests.claims.checks import VARIANT, follows_law, law_band, lower
from tests.claims.declaration import BY_CONDITION, REFUTED, SUPPORTED, Check, Claim, Profile, claim
from tests.claims.figures import across_layers
from tests.claims.sweeps import Sweep, cells_of
from tests.claims.texts import ISOTROPIC, SECOND_HAND

KIM = "Kim et al., Peri-LN: Revisiting Layer Normalization in the Transformer Architecture, arXiv 2502.02732 (2025)"
MOMENT, PARAMETERS = "stream-moment", "parameter-gradient"


@claim
def peri_ln_variance(profile: Profile) -> Claim:
    """Supported: one unit a block, whatever the weights."""
    depth = profile.depths[-1]
    unit, large = (Sweep("peri-ln", "gelu", (depth,), profile.seed, gain=gain) for gain in (1.0, 4.0))
    pre = Sweep("pre-ln", "gelu", (depth,), profile.seed, gain=4.0)
    band = law_band(unit, depth)
    return Claim(
        id="peri-ln-variance",
        group="variants",
        title="Peri-LN's stream grows by one unit a block, whatever the weights",
        statement="Peri-LN: Var(x_{l+1}) ≈ Var(x_l) + β₀ with a constant β₀, at any size of the weights.",
        source=f"{KIM}, {SECOND_HAND}",
        reading="Second moment of the stream 1 + l at every layer, GELU, weights of variance 1/fan_in and of four times that; the same whichever of "
        "the two. Pre-LN with the larger weights is shown beside it.",
        law={
            "latex": r"q_l = 1 + l",
            "text": "The branch ends in a norm: its output has unit second moment exactly. Embedding norm: q_0 = 1. β₀ = 1.",
        },
        cells=cells_of(unit, large, pre),
        checks=(
            *(
                Check(
                    f"second moment over 1 + l, every layer of L={depth}, {sweep.name}",
                    log_relative(sweep.deepest, MOMENT, 1 + np.arange(depth + 1.0)),
                    sweep.names,
                    band,
                    "statement",
                    logarithm=True,
                )
                for sweep in (unit, large)
            ),
            Check(
                f"second moment, gain 4 over gain 1, every layer of L={depth}, {unit.name}",
                log_over_cell(large.deepest, unit.deepest, MOMENT, slice(1, None)),
                (large.deepest, unit.deepest),
                band,
                "statement",
                logarithm=True,
            ),
        ),
        expected=SUPPORTED,
        assumptions=ISOTROPIC,
        derived=("peri-ln", "gelu"),
        figures=(
            across_layers(
                "Second moment of the stream",
                "second moment",
                [unit, large, pre],
                MOMENT,
                scales=("linear", "log"),
                file="moment",
            ),
        ),
    )


def larger(above: Sweep, below: Sweep, expected: Verdict) -> Check:
    """Squared gradient of all weights, one variant's over another's."""
    return Check(
        f"squared gradient of all weights, {above.name} over {below.name}",
        log_ratio_of_sums(above.deepest, below.deepest, PARAMETERS),
        (above.deepest, below.deepest),
        lower(1.0, "the first has the larger gradient"),
        "statement",
        expected,
        logarithm=True,
    )


@claim
def peri_ln_gradient_order(profile: Profile) -> Claim:
    """By condition: Post-LN above Pre-LN always, Pre-LN above Peri-LN where a branch's output exceeds unit size."""
    small, large = (
        {name: Sweep(name, "relu", (16,), profile.seed, gain=gain) for name in ("post-ln", "pre-ln", "peri-ln")}
        for gain in (1.0, 2.0)
    )
    every = (*small.values(), *large.values())
    return Claim(
        id="peri-ln-gradient-order",
        group="variants",
        title="Pre-LN's gradients exceed Peri-LN's only where the branch's s² exceeds 1",
        statement="Gradient norms at initialisation: Post-LN > Pre-LN > Peri-LN.",
        source=f"{KIM}, figure 7, {SECOND_HAND}",
        reading="Squared gradient of all weights together, 16 ReLU blocks, weights of variance 1/fan_in (s² = 1/2) and 2/fan_in (s² = 2).",
        law={
            "latex": r"\frac{E\|\partial\mathcal L/\partial W_l\|^2_{\text{Peri}}}{E\|\partial\mathcal L/\partial W_l\|^2_{\text{Pre}}} = "
            r"\frac{1 + s^2 l}{s^2 (1 + l)}",
            "text": "Block l of Peri-LN divides by its output's size s and adds one unit, Pre-LN's adds s²; the ratio is below 1 at every block exactly "
            "when s² > 1. Post-LN: 1/(1+s²) at every block, above Pre-LN's 1/(1+s²l).",
        },
        cells=cells_of(*every),
        checks=(
            larger(small["post-ln"], small["pre-ln"], SUPPORTED),
            larger(large["post-ln"], large["pre-ln"], SUPPORTED),
            larger(large["pre-ln"], large["peri-ln"], SUPPORTED),
            larger(small["pre-ln"], small["peri-ln"], REFUTED),
            *(follows_law(sweep, "output-matrix-gradient", resolution=VARIANT) for sweep in every),
        ),
        expected=BY_CONDITION,
        assumptions=ISOTROPIC,
        derived=("peri-ln", "relu"),
        figures=(
            across_layers(
                "Squared gradient of W₂ across the blocks",
                "squared Frobenius norm",
                every,
                "output-matrix-gradient",
                file="parameters",
            ),
        ),
        erratum={
            "printed": "Post-LN > Pre-LN > Peri-LN, without conditions",
            "right": "Pre-LN > Peri-LN for s² > 1, Peri-LN > Pre-LN for s² < 1",
            "why": "the norm behind the branch divides the branch's gradient by the size of its output, which multiplies where that is below 1",
        },
    )
