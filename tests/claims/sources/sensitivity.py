"""Claims on the output's sensitivity to its weights: the review's growth law read that way, and Liu et al. 2020."""

from __future__ import annotations

import numpy as np

from empirical.estimands import log_increments, log_proportion
from empirical.verdicts import Band
from tests.claims.checks import exponent_in_depth, follows_law
from tests.claims.declaration import SUPPORTED, Check, Claim, Profile, claim
from tests.claims.figures import across_layers, against_depth
from tests.claims.summaries import GROWTH, Summary, along_layers
from tests.claims.sweeps import Sweep, cells_of
from tests.claims.texts import ISOTROPIC, LIU, REVIEW
from theory.laws.sensitivity import printed, sensitivity, sensitivity_steps
from theory.variants import load

SENSITIVITY = "output-sensitivity"
_ALL_BUT_OUTPUT = slice(0, -1)
"""No block lies above the last layer, and nothing is perturbed there."""


def _law(variant: str, text: str) -> dict[str, str]:
    shown = printed(sensitivity(load(variant)).total)
    return {"latex": rf"\frac1{{d\,\delta^2}} E|\delta y|^2 = {shown}", "text": text}


def proportional(sweep: Sweep) -> Check:
    """Sensitivity over the number of perturbed blocks, at every layer, against the last block's alone."""
    depth = sweep.depths[-1]
    blocks = depth - np.arange(depth + 1.0)
    finite = 1 + float(sweep.finite_terms(depth).max())
    return Check(
        f"sensitivity over L − l (the blocks perturbed), relative to the last block's, every layer of L={depth}, {sweep.name}",
        log_proportion(sweep.deepest, SENSITIVITY, blocks, _ALL_BUT_OUTPUT, depth - 1),
        (sweep.deepest,),
        Band(
            1 / (1.05 * finite),
            1.05 * finite,
            f"proportional means 1; finite width lets the gradient below exceed its law by {finite - 1:.3f} (terms of order "
            "1/width, theory/finite_width) at most; plus 5 % resolution",
        ),
        "statement",
        logarithm=True,
    )


@claim
def post_ln_growth_sensitivity(profile: Profile) -> Claim:
    """Supported: every block adds the same, so the last m blocks together add m times that."""
    depth = min(64, profile.depths[-1])
    post = [Sweep("post-ln", name, (depth,), profile.seed) for name in ("linear", "relu")]
    pre = Sweep("pre-ln", "relu", (depth,), profile.seed)
    slope = float(post[1].predicted(SENSITIVITY, depth)[-2])
    return Claim(
        id="post-ln-growth-sensitivity",
        group="gradients",
        title="Post-LN's output is as sensitive to the blocks l … L as there are of them: L − l + 1",
        statement="Post-LN: O(L − l + 1) (stated of ∂𝓛/∂x_l relative to ∂𝓛/∂x_L).",
        source=REVIEW,
        reading="The law read for the output's sensitivity: the squared change of the output when all weights of the blocks l … L are perturbed by a "
        "relative variance δ² → 0 is proportional to their number. (Blocks l … L, the source's index, are the blocks above layer l − 1 here.)",
        law=_law(
            "post-ln", "Every block moves the output by the same s²M/(1+s²) in square: linear in the number of blocks perturbed."
        ),
        cells=cells_of(*post, pre),
        checks=(
            *(proportional(sweep) for sweep in post),
            *(follows_law(sweep, SENSITIVITY, rows=_ALL_BUT_OUTPUT) for sweep in (*post, pre)),
        ),
        expected=SUPPORTED,
        assumptions=ISOTROPIC,
        steps=tuple(sensitivity_steps(load("post-ln"))),
        summary=Summary(
            GROWTH,
            "output's sensitivity",
            "in proportion to the number of blocks perturbed",
            along_layers("output's sensitivity", post[1], quantity=SENSITIVITY),
        ),
        figures=(
            across_layers(
                "Output's sensitivity to the weights of the blocks above layer l",
                "squared change of the output over δ²",
                [*post, pre],
                SENSITIVITY,
                scales=("linear", "linear"),
                lines=[("statement: in proportion to L − l", [0, depth], [slope * depth, 0.0])],
            ),
        ),
    )


def increments(sweep: Sweep, band: Band) -> Check:
    """Growth from L/2 to L over growth from L/4 to L/2, the whole network perturbed."""
    return Check(
        f"increment of the sensitivity over the last doubling of L against the one before, {sweep.name}",
        log_increments(sweep.labels, SENSITIVITY, 0),
        tuple(label for _, label in sweep.labels[-3:]),
        band,
        "statement",
        logarithm=True,
    )


def linear_increments(sweep: Sweep) -> Check:
    """Θ(L)."""
    excess = float(sweep.finite_terms(sweep.depths[-1]).max())
    return increments(
        sweep,
        Band(
            2**0.5,
            2**1.5 * (1 + excess),
            "a power L^p multiplies the increment by 2^p when L doubles: p within a half of 1; finite width adds up to "
            f"{excess:.2f} (terms of order 1/width, theory/finite_width)",
        ),
    )


def logarithmic_increments(sweep: Sweep) -> Check:
    """Θ(log L)."""
    return increments(
        sweep,
        Band(
            2**-0.5,
            2**0.5,
            "a logarithm adds the same over every doubling, a power L^p 2^p times as much: below p = 1/2, half-way to a linear law",
        ),
    )


@claim
def output_sensitivity_in_depth(profile: Profile) -> Claim:
    """Supported: Θ(L) and Θ(log L)."""
    post, pre = (Sweep(variant, "relu", profile.depths, profile.seed) for variant in ("post-ln", "pre-ln"))
    return Claim(
        id="output-sensitivity-in-depth",
        group="gradients",
        title="Perturbed weights move Post-LN's output by Θ(L), Pre-LN's by Θ(log L)",
        statement="The output change of an L-layer network under a perturbation of its weights is O(L) for Post-LN and O(log L) for Pre-LN.",
        source=LIU + " (as secondary accounts and the README of its code state it)",
        reading="Squared change of the output per coordinate and per relative variance δ² → 0 of every weight, as a function of L: a power L^1 for "
        "Post-LN; equal steps for every doubling of L for Pre-LN.",
        law=_law(
            "pre-ln", "Block l adds s²M/q_l: the sum of 1/l, ψ(L + 1 + q₀/s²) − ψ(1 + q₀/s²) ~ log L. Post-LN: M s²L/(1 + s²)."
        ),
        cells=cells_of(post, pre),
        checks=(
            exponent_in_depth(
                post,
                SENSITIVITY,
                0,
                Band(
                    0.9,
                    1.1,
                    "Θ(L) has exponent 1; finite width adds its terms of order 1/width, under 0.05 in the exponent; the rest is resolution",
                ),
                "statement",
            ),
            linear_increments(post),
            logarithmic_increments(pre),
            *(follows_law(sweep, SENSITIVITY, rows=_ALL_BUT_OUTPUT) for sweep in (post, pre)),
        ),
        expected=SUPPORTED,
        assumptions=ISOTROPIC,
        steps=tuple(sensitivity_steps(load("pre-ln"))),
        figures=(
            against_depth(
                "Output's sensitivity to all weights against depth",
                "squared change of the output over δ²",
                [post, pre],
                SENSITIVITY,
                0,
            ),
        ),
    )
