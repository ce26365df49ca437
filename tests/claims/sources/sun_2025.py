"""Claims of Sun et al. 2025 (The Curse of Depth): how Pre-LN's variance grows, and what scaling its norms by 1/√l does."""

from __future__ import annotations

import numpy as np

from empirical.estimands import growth_of_logarithm, log_increments, log_over_cell, log_ratio_over_cell
from empirical.verdicts import Band, Verdict
from tests.claims.checks import VARIANT, follows_law, lower
from tests.claims.declaration import BY_CONDITION, REFUTED, SUPPORTED, Check, Claim, Profile, Whose, claim
from tests.claims.figures import across_layers, against_depth
from tests.claims.laws import stream_law
from tests.claims.sweeps import Sweep, cells_of
from tests.claims.texts import ISOTROPIC, SECOND_HAND

SUN = "Sun et al., The Curse of Depth in Large Language Models, arXiv 2502.05795 (2025)"
MOMENT, STEP, PARAMETER = "stream-moment", "relative-step", "output-matrix-gradient"


def increments(sweep: Sweep, band: Band, of: Whose, expected: Verdict) -> Check:
    """The stream's growth from L/2 to L over its growth from L/4 to L/2: 2^p for L^p, 1 for a logarithm."""
    return Check(
        f"increment of the stream's second moment over the last doubling of L against the one before, {sweep.name}",
        log_increments(sweep.labels, MOMENT, -1),
        tuple(label for _, label in sweep.labels[-3:]),
        band,
        of,
        expected,
        logarithm=True,
    )


def power_of_depth(sweep: Sweep, power: float, what: str, of: Whose, expected: Verdict) -> Check:
    """`increments` within half a power of L^p."""
    band = Band(2 ** (power - 0.5), 2 ** (power + 0.5), f"{what}: 2^p for a power L^p, p within a half of {power:g}")
    return increments(sweep, band, of, expected)


def exponential(sweep: Sweep) -> Check:
    """ln q from L/2 to L over ln q from L/4 to L/2: 2 for an exponential, 1 for a power law."""
    return Check(
        f"increment of the logarithm of the stream's second moment over the last doubling of L against the one before, {sweep.name}",
        growth_of_logarithm(sweep.labels, MOMENT, -1),
        tuple(label for _, label in sweep.labels[-3:]),
        lower(2**0.5, "an exponential's logarithm grows twice as much, a power law's the same: nearer to an exponential"),
        "statement",
        REFUTED,
        logarithm=True,
    )


@claim
def curse_of_depth_variance(profile: Profile) -> Claim:
    """By condition: Θ(L), the lower end, at initialisation; neither exponential nor quadratic."""
    relu, gelu = (Sweep("pre-ln", name, profile.depths, profile.seed) for name in ("relu", "gelu"))
    depths = list(profile.depths)
    return Claim(
        id="curse-of-depth-variance",
        group="forward",
        title="Pre-LN's variance at initialisation is linear in depth, not exponential",
        statement="Pre-LN's output variance grows exponentially with depth; Θ(L) ≤ σ²_{x_L} ≤ Θ(e^L), by σ²_{x_l} = σ²_{x_1} Θ(∏_{k<l} (1 + 1/σ_{x_k})).",
        source=f"{SUN}: exponential in the abstract; the bounds and the recursion (lemma 3.2) {SECOND_HAND}",
        reading="Second moment of the stream behind L blocks at initialisation, ReLU and GELU: growth like L (the lower bound), like e^L, and "
        "like L²/4, which the recursion gives when it is solved. (What training does to the variance is not in this claim.)",
        law=stream_law(
            "pre-ln",
            "A block adds s², whatever the stream: exactly linear, the lower bound. The recursion as quoted divides by σ where independent "
            "branches divide by σ²: dσ²/dl = σ gives l²/4, not e^l.",
        ),
        cells=cells_of(relu, gelu),
        checks=(
            *(power_of_depth(sweep, 1, "Θ(L)", "statement", SUPPORTED) for sweep in (relu, gelu)),
            *(exponential(sweep) for sweep in (relu, gelu)),
            power_of_depth(relu, 2, "the recursion as quoted, l²/4", "statement", REFUTED),
            *(follows_law(sweep, MOMENT, resolution=VARIANT) for sweep in (relu, gelu)),
        ),
        expected=BY_CONDITION,
        assumptions=ISOTROPIC,
        derived=("pre-ln", "relu"),
        figures=(
            against_depth(
                "Pre-LN: second moment of the stream behind the last block",
                "second moment",
                [relu, gelu],
                MOMENT,
                -1,
                lines=[
                    ("e^L, from the first depth on", depths[:4], [float(np.exp(depth - depths[0])) * 2 for depth in depths[:4]]),
                    ("the recursion as quoted: (1 + L/2)²", depths, [(1 + depth / 2) ** 2 for depth in depths]),
                ],
            ),
        ),
        erratum={
            "printed": "σ²_{x_l} = σ²_{x_1} ∏ (1 + 1/σ_{x_k}), so up to e^L",
            "right": "σ²_{x_l} = σ²_{x_1} ∏ (1 + s²/σ²_{x_k}) = q_0 + s² l at initialisation",
            "why": "a branch behind a norm adds s² to the square, so the relative increase is s²/σ²",
        },
    )


@claim
def layernorm_scaling_variance(profile: Profile) -> Claim:
    """Refuted as a power of L between one and two: logarithmic."""
    scaled, pre = (Sweep(variant, "relu", profile.depths, profile.seed) for variant in ("layernorm-scaling", "pre-ln"))
    return Claim(
        id="layernorm-scaling-variance",
        group="variants",
        title="With LayerNorm scaling the variance grows like log L, more slowly than the Θ(L^(2−ε)) that is quoted",
        statement="With norms scaled by 1/√l the output's variance grows as Θ(L^(2−ε)) in place of exponentially.",
        source=f"{SUN}, {SECOND_HAND}",
        reading="Growth of the stream's second moment over the last doubling of L against the one before: 2^p for a power, and p = 2 − ε "
        "above 1 for ε below 1.",
        law={
            "latex": r"q_l = q_0 + s^2 H_l,\qquad H_l = \textstyle\sum_{j \le l} 1/j \sim \ln l",
            "text": "Block l reads LN(x)/√l: a homogeneous branch adds s²/l. The harmonic numbers grow like ln l: 1 + H_64/2 = 3.37 where Pre-LN has 33.",
        },
        cells=cells_of(scaled, pre),
        checks=(
            increments(scaled, lower(2.0, "2^p for a power L^p: p = 2 − ε of at least 1"), "statement", REFUTED),
            power_of_depth(scaled, 0, "a logarithm", "law", SUPPORTED),
            follows_law(scaled, MOMENT, resolution=VARIANT),
            follows_law(scaled, "stream-gradient", resolution=VARIANT),
        ),
        expected=REFUTED,
        assumptions=ISOTROPIC,
        derived=("layernorm-scaling", "relu"),
        figures=(against_depth("Second moment of the stream behind the last block", "second moment", [scaled, pre], MOMENT, -1),),
    )


@claim
def layernorm_scaling_contribution(profile: Profile) -> Claim:
    """Refuted at initialisation: deep blocks move the stream less than Pre-LN's, and get less gradient."""
    depth = profile.depths[-1]
    scaled, pre = (Sweep(variant, "relu", (depth,), profile.seed) for variant in ("layernorm-scaling", "pre-ln"))
    half = slice(depth // 2 - 1, None)
    more = lower(1.0, "contributing more: above Pre-LN's")
    return Claim(
        id="layernorm-scaling-contribution",
        group="variants",
        title="At initialisation LayerNorm scaling makes deep blocks contribute less than Pre-LN's",
        statement="LayerNorm scaling lets the deeper layers contribute more than Pre-LN does, whose deep blocks are near the identity.",
        source=f"{SUN}, {SECOND_HAND}",
        reading=f"At initialisation, upper half of {depth} ReLU blocks: the stream's squared relative step, and W₂'s squared gradient relative to the "
        "first block's, over Pre-LN's. (After training it may be otherwise: this says what the scaling does by itself.)",
        law={
            "latex": r"\frac{|x_l - x_{l-1}|^2}{|x_{l-1}|^2} = \frac{s^2/l}{1 + s^2 H_{l-1}}\quad\text{against}\quad \frac{s^2}{1 + s^2 (l-1)}",
            "text": "The branch shrinks as 1/l, the stream only from l to ln l: the step is smaller than Pre-LN's by a factor of order ln l.",
        },
        cells=cells_of(scaled, pre),
        checks=(
            Check(
                f"squared relative step over Pre-LN's, blocks {depth // 2} to {depth}, {scaled.name}",
                log_over_cell(scaled.deepest, pre.deepest, STEP, half),
                (scaled.deepest, pre.deepest),
                more,
                "statement",
                REFUTED,
                logarithm=True,
            ),
            Check(
                f"W₂'s squared gradient, last block over first, over Pre-LN's ratio, {scaled.name}",
                log_ratio_over_cell(scaled.deepest, pre.deepest, PARAMETER, -1, 0),
                (scaled.deepest, pre.deepest),
                more,
                "statement",
                REFUTED,
                logarithm=True,
            ),
            follows_law(scaled, STEP, resolution=VARIANT),
            follows_law(scaled, PARAMETER, resolution=VARIANT),
        ),
        expected=REFUTED,
        assumptions=ISOTROPIC,
        derived=("layernorm-scaling", "relu"),
        figures=(
            across_layers(
                "How far each block moves the stream",
                "squared relative step",
                [scaled, pre],
                STEP,
                scales=("log", "log"),
                file="step",
            ),
        ),
    )
