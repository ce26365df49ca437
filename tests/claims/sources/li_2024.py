"""Claims of Li et al. 2024 (Mix-LN): where Pre-LN's and Post-LN's gradients are small, and whether mixing them evens that out."""

from __future__ import annotations

from empirical.estimands import log_ratio_over_cell
from empirical.verdicts import Band, Verdict
from tests.claims.checks import VARIANT, follows_law, ratio_of_rows, upper
from tests.claims.declaration import BY_CONDITION, REFUTED, SUPPORTED, Check, Claim, Profile, claim
from tests.claims.figures import across_layers
from tests.claims.laws import collapsed_gradient_law
from tests.claims.sweeps import Sweep, cells_of, short_transformer
from tests.claims.texts import ROUNDED, SECOND_HAND

LI = "Li et al., Mix-LN: Unleashing the Power of Deeper Layers by Combining Pre-LN and Post-LN, arXiv 2412.13795 (2024)"
PARAMETER, GRADIENT = "output-matrix-gradient", "stream-gradient"
_HALF = upper(0.5, "diminished: less than half of the other end's norm")


def _pairs(profile: Profile) -> tuple[dict[str, Sweep], dict[str, Sweep]]:
    names = ("post-ln", "pre-ln", "mix-ln")
    depth = profile.depths[-1]
    return (
        {name: Sweep(name, "relu", (depth,), profile.seed) for name in names},
        {name: short_transformer(name, profile.seed) for name in names},
    )


@claim
def diminished_gradients(profile: Profile) -> Claim:
    """By condition: Pre-LN's deep layers, yes; Post-LN's early layers only in the stream, only with attention."""
    tokenwise, attention = _pairs(profile)
    deep, early = "norm of W₂'s gradient, last block over first", "norm of W₂'s gradient, first block over last"
    top, bottom = (-1, 0), (0, -1)
    post = attention["post-ln"]
    middle, last = post.depths[-1] // 2, post.depths[-1]
    return Claim(
        id="diminished-gradients",
        group="variants",
        title="Pre-LN's deep layers get small gradients; Post-LN's early layers need not",
        statement="Pre-LN has diminished gradient norms in its deeper layers; Post-LN has larger gradient norms in deeper layers but vanishing gradients "
        "in earlier ones.",
        source=LI + ", abstract",
        reading="At initialisation: norm of W₂'s gradient of the first and the last block, token-wise ReLU blocks and blocks of attention and ReLU; for "
        "Post-LN also the stream's gradient norm at mid-stack over the output's. Diminished means less than half.",
        law=collapsed_gradient_law(
            "post-ln",
            "Pre-LN: W₂'s square falls as 1/q_l. Post-LN token by token: χ = 1, flat for ReLU. With attention the stream's gradient halves per block "
            "in square, but W₂'s sums over tokens that have become alike, and stays.",
        ),
        cells=cells_of(*(sweeps[name] for sweeps in (tokenwise, attention) for name in ("pre-ln", "post-ln"))),
        checks=(
            *(
                ratio_of_rows(sweeps["pre-ln"], deep, PARAMETER, top, _HALF, "statement", SUPPORTED, 0.5)
                for sweeps in (tokenwise, attention)
            ),
            *(
                ratio_of_rows(sweeps["post-ln"], early, PARAMETER, bottom, _HALF, "statement", REFUTED, 0.5)
                for sweeps in (tokenwise, attention)
            ),
            ratio_of_rows(
                post, "norm of the stream's gradient, L/2 over L", GRADIENT, (middle, last), _HALF, "statement", SUPPORTED, 0.5
            ),
            follows_law(tokenwise["pre-ln"], PARAMETER, resolution=VARIANT),
        ),
        expected=BY_CONDITION,
        assumptions=ROUNDED,
        derived=("post-ln", "attention,relu"),
        figures=(
            across_layers(
                "Norm of W₂'s gradient across the blocks, attention and ReLU",
                "norm over the last block's",
                [attention["post-ln"], attention["pre-ln"]],
                PARAMETER,
                0.5,
                relative=True,
                file="parameters",
            ),
        ),
    )


def evenness(mix: Sweep, other: Sweep, band: Band, expected: Verdict) -> Check:
    """First block's W₂ over the last block's in one variant, over the same in another."""

    return Check(
        f"W₂'s squared gradient, first block over last: {mix.name} over {other.variant}",
        log_ratio_over_cell(mix.deepest, other.deepest, PARAMETER, 0, -1),
        (mix.deepest, other.deepest),
        band,
        "statement",
        expected,
        logarithm=True,
    )


@claim
def mix_ln_evens_gradients(profile: Profile) -> Claim:
    """By condition: a little more even than Pre-LN token by token, three quarters at most; less even than Post-LN."""
    tokenwise, attention = _pairs(profile)
    mixes = tokenwise["mix-ln"], attention["mix-ln"]
    even = upper(1.0, "more even: the first block exceeds the last by less")
    return Claim(
        id="mix-ln-evens-gradients",
        group="variants",
        title="At initialisation Mix-LN's gradients are hardly more even than Pre-LN's, and less so than Post-LN's",
        statement="Mix-LN's gradients are more uniform across the layers than Pre-LN's and Post-LN's.",
        source=f"{LI}, {SECOND_HAND}",
        reading="W₂'s squared gradient of the first block over the last block's, Mix-LN's over Pre-LN's and over Post-LN's, at initialisation: below 1 means "
        "more even. Token-wise ReLU; attention and ReLU against Post-LN.",
        law={
            "latex": r"\frac{g_1}{g_L} = \frac{1 + \tfrac34 s^2 L}{1+s^2}\ (\text{Mix-LN})\quad\text{against}\quad "
            r"\frac{1 + s^2 L}{1+s^2}\ (\text{Pre-LN}),\quad 1\ (\text{Post-LN})",
            "text": "The Post-LN quarter is flat and hands on a stream of unit moment, from which the Pre-LN part grows for 3L/4 blocks: the spread is "
            "three quarters of Pre-LN's in square, √(3/4) in norm, at any depth.",
        },
        cells=cells_of(*tokenwise.values(), attention["mix-ln"], attention["post-ln"]),
        checks=(
            evenness(mixes[0], tokenwise["pre-ln"], even, SUPPORTED),
            evenness(mixes[0], tokenwise["post-ln"], even, REFUTED),
            evenness(mixes[1], attention["post-ln"], even, REFUTED),
            follows_law(mixes[0], PARAMETER, resolution=VARIANT),
        ),
        expected=BY_CONDITION,
        assumptions=ROUNDED,
        derived=("mix-ln", "relu"),
        figures=(
            across_layers(
                "Norm of W₂'s gradient across the blocks, token by token",
                "norm over the last block's",
                [tokenwise[name] for name in ("mix-ln", "pre-ln", "post-ln")],
                PARAMETER,
                0.5,
                relative=True,
                file="parameters",
            ),
        ),
    )
