"""Claims of Chen & Wei 2026 (KEEL): Post-LN's vanishing gradient, and KEEL's at a thousand layers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from empirical.estimands import local_exponents, slope_on
from empirical.verdicts import Band, Verdict
from tests.claims.checks import VARIANT, follows_law, ratio_of_rows
from tests.claims.declaration import BY_CONDITION, REFUTED, SUPPORTED, Check, Claim, Profile, Whose, claim
from tests.claims.figures import Line, across_layers, against_depth
from tests.claims.sweeps import Sweep, cells_of
from tests.claims.texts import ISOTROPIC, SECOND_HAND

CHEN = "Chen & Wei, Post-LayerNorm Is Back, arXiv 2601.19895 (2026)"
GRADIENT, PARAMETER, DEEP = "stream-gradient", "output-matrix-gradient", 1000

_ENDS = (
    ("stream's gradient, layer 0 over layer L", GRADIENT, (0, DEEP)),
    ("gradient of W₂, block 1 over block L", PARAMETER, (0, -1)),
)


def _halving(depth: int) -> Line:
    """The statement's square over the last blocks."""
    return "statement for Post-LN: (1/2)^(L−l) in norm", range(depth - 12, depth + 1), [0.25**m for m in range(12, -1, -1)]


@claim
def keel_thousand_layers(profile: Profile) -> Claim:
    """By condition: KEEL flat over 1,000 blocks; Post-LN's (1/2)^L refuted token by token."""
    deep = Sweep("keel", "relu", (DEEP,), profile.seed, 64, 1)
    post = Sweep("post-ln", "relu", profile.depths, profile.seed)
    flat = Band(
        1 / 1.1, 1.1, "flat: the norms at both ends within 10 %; finite width (1/d of the square at d = 64) takes under 2 % of it"
    )
    down = -np.arange(post.depths[-1] + 1.0)
    return Claim(
        id="keel-thousand-layers",
        group="variants",
        title="KEEL's gradients are flat over 1,000 blocks; so are Post-LN's, token by token",
        statement="Post-LN's product of norm Jacobians is O((1/2)^L), its gradient vanishes; KEEL, x = LN(αx + F(LN(x))) with α = L, keeps it over more "
        "than 1,000 layers.",
        source=f"{CHEN}: vanishing and 1,000 layers in the abstract; the rate and the rule {SECOND_HAND}",
        reading="ReLU blocks. KEEL at L = 1,000: norm of the stream's gradient at the first layer over the last layer's, and of the first block's W₂ over "
        f"the last one's, are 1. Post-LN at L = {post.depths[-1]}: the square falls by 1/4 per block (1/2 in norm).",
        law={
            "latex": r"\chi_{\text{KEEL}} = \frac{\alpha^2 + \kappa^2}{\alpha^2 + s^2},\qquad \chi_{\text{Post-LN}} = \frac{1+\kappa^2}{1+s^2}",
            "text": "Both are 1 for ReLU. For κ² ≠ s² α = L leaves e^((κ²−s²)/L) over the whole stack, where Post-LN has χ^L.",
        },
        cells=cells_of(deep, post),
        checks=(
            *(
                ratio_of_rows(deep, f"norm of the {what}", name, rows, flat, "statement", SUPPORTED, 0.5)
                for what, name, rows in _ENDS
            ),
            Check(
                f"factor on the square per block, downwards, all layers of L={post.depths[-1]}, {post.name}",
                slope_on(post.deepest, GRADIENT, down),
                (post.deepest,),
                Band(0.25 / 1.05, 0.25 * 1.05, "(1/2)^L in norm: a quarter per block in square; 5 % is resolution"),
                "statement",
                REFUTED,
                logarithm=True,
            ),
            replace(
                follows_law(deep, GRADIENT, rows=slice(0, None, 100), resolution=VARIANT),
                name=f"{GRADIENT}, measured over predicted, every hundredth layer of L={DEEP}, {deep.name}",
            ),
        ),
        expected=BY_CONDITION,
        assumptions=(*ISOTROPIC, "KEEL: d = 64, one token"),
        derived=("keel", "gelu"),
        figures=(
            across_layers(
                "KEEL over 1,000 blocks, Post-LN over its own: squared stream gradient",
                "square over the output's",
                [deep, post],
                GRADIENT,
                relative=True,
                lines=[_halving(post.depths[-1])],
            ),
        ),
        first_look=128,
    )


@claim
def keel_weights_gradient(profile: Profile) -> Claim:
    """Refuted: what α = L keeps from the stream it takes from the weights."""
    keel, post = (Sweep(variant, "relu", profile.depths, profile.seed) for variant in ("keel", "post-ln"))
    ends = keel.labels[-2:]  # one doubling
    kept = Band(-0.1, 0.1, "kept at every depth: exponent 0; the rest is resolution")
    shallow, deep = (float(post.predicted(PARAMETER, depth)[0]) for depth, _ in ends)
    finite = 0.5 * float(np.log2(deep / shallow))
    stays = Band(
        -0.1,
        0.1 + finite,
        f"exponent 0; finite width adds {finite:.3f} (V/d a block in square, theory/finite_width); the rest is resolution",
    )
    falls = Band(-1.1, -0.9, "1/√(L² + s²) has exponent −1 to within s²/L²; the rest is resolution")

    def exponent(sweep: Sweep, band: Band, of: Whose, expected: Verdict) -> Check:
        return Check(
            f"exponent in L of W₂'s gradient (norm), block 1, L = {ends[0][0]} to {ends[1][0]}, {sweep.name}",
            local_exponents(sweep.labels[-2:], PARAMETER, 0, 0.5),
            tuple(label for _, label in sweep.labels[-2:]),
            band,
            of,
            expected,
        )

    return Claim(
        id="keel-weights-gradient",
        group="variants",
        title="KEEL's weights get gradients that fall as 1/L at initialisation",
        statement="KEEL's highway-like residual removes Post-LN's vanishing gradient.",
        source=CHEN + ", abstract",
        reading=f"Read for the weights, with α = L ({SECOND_HAND}): norm of W₂'s gradient in the first block does not fall with the depth.",
        law={
            "latex": r"E\|\partial\mathcal L/\partial W_2\|_F^2 \propto \frac{1}{\alpha^2 + s^2} = \frac{1}{L^2 + s^2}",
            "text": "A gradient reaches every block's weights undiminished from above, but a branch is only one part in α of what its norm divides. The "
            "whole stack moves the stream by s/√L: at initialisation KEEL is near the identity. Post-LN's stay (exponent 0).",
        },
        cells=cells_of(keel, post),
        checks=(
            exponent(keel, kept, "statement", REFUTED),
            exponent(keel, falls, "law", SUPPORTED),
            exponent(post, stays, "law", SUPPORTED),
            follows_law(keel, PARAMETER, resolution=VARIANT),
        ),
        expected=REFUTED,
        assumptions=ISOTROPIC,
        derived=("keel", "relu"),
        figures=(
            against_depth(
                "Norm of the first block's W₂ gradient against depth", "Frobenius norm", [keel, post], PARAMETER, 0, 0.5
            ),
        ),
    )
