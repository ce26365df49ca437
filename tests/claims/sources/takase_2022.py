"""Claims of Takase et al. 2022 (B2T): whether Post-LN's norm makes gradients vanish, and what its connection does about it."""

from __future__ import annotations

from empirical.estimands import log_over_cell
from empirical.verdicts import Band
from tests.claims.checks import VARIANT, follows_law, lower, ratio_of_rows, upper
from tests.claims.declaration import BY_CONDITION, REFUTED, SUPPORTED, Check, Claim, Profile, claim
from tests.claims.figures import across_layers
from tests.claims.laws import collapsed_gradient_law
from tests.claims.sweeps import Sweep, cells_of, short_transformer
from tests.claims.texts import ROUNDED, SECOND_HAND

TAKASE = "Takase et al., B2T Connection: Serving Stability and Performance in Deep Transformers, arXiv 2206.00330 (2022)"
ZHANG = "Zhang, Titov & Sennrich 2019 (DS-Init; documentation of their code)"
GRADIENT, NORM = "stream-gradient", "norm-gain"
ATTENTION = 0.15
"""15 % with attention, as for a variant of one's own."""
_WHAT = "norm of the stream's gradient, L/2 over L"
_VANISHING = upper(0.5, "vanishing: the norm has halved by mid-stack at least")


@claim
def norm_as_source_of_vanishing(profile: Profile) -> Claim:
    """By condition: with attention the gradient falls, token by token it does not, with the same norms in both."""
    tokenwise, attention = Sweep("post-ln", "relu", (24,), profile.seed), short_transformer("post-ln", profile.seed)
    return Claim(
        id="norm-as-source-of-vanishing",
        group="variants",
        title="Post-LN's norms divide by the same factor whether the gradient vanishes or not",
        statement="The LN in Post-LN is the main source of the vanishing gradient problem: it divides by the variance that the residual sum has raised.",
        source=f"{TAKASE}, abstract; so {ZHANG}",
        reading="Norm of the stream's gradient at mid-stack under half of the output's, independent loss gradients: 24 token-wise ReLU blocks, and 12 "
        "blocks of attention and ReLU. What the FFN's norm multiplies a gradient by is compared between the two.",
        law=collapsed_gradient_law(
            "post-ln",
            "A norm takes 1/(1+s²) off the square, a block's own gain gives 1+κ² back: χ = 1 for ReLU. With attention the norm divides by what "
            "the branch has added to the stream, and the branch hands back less gradient than that, once tokens are alike: the branch decides.",
        ),
        cells=cells_of(tokenwise, attention),
        checks=(
            ratio_of_rows(tokenwise, _WHAT, GRADIENT, (12, 24), _VANISHING, "statement", REFUTED, 0.5),
            ratio_of_rows(attention, _WHAT, GRADIENT, (6, 12), _VANISHING, "statement", SUPPORTED, 0.5),
            Check(
                "gain of the FFN's norm, with attention over token by token, last block",
                log_over_cell(attention.deepest, tokenwise.deepest, NORM, slice(-1, None)),
                (attention.deepest, tokenwise.deepest),
                Band(1 / 1.02, 1.02, "the same 1/√(1+s²): lengths fluctuate by 3/(2d) < 1.2 % at d = 128; plus resolution"),
                "law",
                logarithm=True,
            ),
            follows_law(tokenwise, GRADIENT, resolution=VARIANT),
            follows_law(attention, GRADIENT, resolution=ATTENTION),
        ),
        expected=BY_CONDITION,
        assumptions=ROUNDED,
        derived=("post-ln", "attention,relu"),
        figures=(
            across_layers(
                "Post-LN: what the last norm of each block multiplies a gradient by",
                "|N(v)| / |v|",
                [tokenwise, attention],
                NORM,
                scales=("linear", "linear"),
                file="gain",
            ),
            across_layers(
                "Post-LN: norm of the stream's gradient",
                "norm over the output's",
                [tokenwise, attention],
                GRADIENT,
                0.5,
                relative=True,
            ),
        ),
    )


@claim
def b2t_keeps_gradient(profile: Profile) -> Claim:
    """Supported: with attention, where Post-LN's gradient falls below half, B2T's stays above."""
    b2t, post = (short_transformer(variant, profile.seed) for variant in ("b2t", "post-ln"))
    return Claim(
        id="b2t-keeps-gradient",
        group="variants",
        title="B2T's gradient at mid-stack stays above half of the output's, Post-LN's does not",
        statement="A connection from a block's input to behind its other norms keeps the gradient from vanishing.",
        source=f"{TAKASE}, {SECOND_HAND}",
        reading="Norm of the stream's gradient at mid-stack over the output's, 12 blocks of attention and ReLU, independent loss gradients: above a half for "
        "B2T, below for Post-LN.",
        law={
            "latex": r"x_l = \mathrm{LN}(x_{l-1} + h + F(h)),\qquad h = \mathrm{LN}(x_{l-1} + F_A(x_{l-1}))",
            "text": "Of the block's square 2(1 + √(1/(1+a))) + s² the path that goes through no attention holds the larger part, so its gradient falls by "
            "far less than a half per block; token by token both placements are flat for ReLU.",
        },
        cells=cells_of(b2t, post),
        checks=(
            ratio_of_rows(
                b2t,
                _WHAT,
                GRADIENT,
                (6, 12),
                lower(0.5, "not vanishing: more than half is left at mid-stack"),
                "statement",
                SUPPORTED,
                0.5,
            ),
            ratio_of_rows(post, _WHAT, GRADIENT, (6, 12), _VANISHING, "statement", SUPPORTED, 0.5),
            follows_law(b2t, GRADIENT, resolution=ATTENTION),
        ),
        expected=SUPPORTED,
        assumptions=ROUNDED,
        derived=("b2t", "attention,relu"),
        figures=(
            across_layers(
                "Norm of the stream's gradient across the layers",
                "norm over the output's",
                [b2t, post],
                GRADIENT,
                0.5,
                relative=True,
            ),
        ),
    )
