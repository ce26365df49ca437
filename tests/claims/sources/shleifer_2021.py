"""Claim of Shleifer et al. 2021 (NormFormer): Pre-LN's gradients are much larger at early layers than at later ones."""

from __future__ import annotations

import numpy as np

from empirical.estimands import slope_on
from empirical.verdicts import Band
from tests.claims.checks import VARIANT, follows_law, lower, ratio_of_rows
from tests.claims.declaration import SUPPORTED, Check, Claim, Profile, claim
from tests.claims.figures import across_layers
from tests.claims.laws import gradient_law
from tests.claims.sweeps import Sweep, cells_of, short_transformer
from tests.claims.texts import ROUNDED

SHLEIFER = "Shleifer et al., NormFormer: Improved Transformer Pretraining with Extra Normalization, arXiv 2110.09456 (2021)"
PARAMETER = "output-matrix-gradient"


@claim
def pre_ln_early_layers(profile: Profile) -> Claim:
    """Supported: the weights' gradient norm falls as 1/√q_l along the blocks."""
    tokenwise, attention = Sweep("pre-ln", "relu", profile.depths, profile.seed), short_transformer("pre-ln", profile.seed)
    depth = tokenwise.depths[-1]
    much = lower(2.0, "much larger: at least twice the norm")
    return Claim(
        id="pre-ln-early-layers",
        group="variants",
        title="Pre-LN's early layers get much larger gradients than its later ones, by √(q_L/q_l)",
        statement="In Pre-LN gradients at early layers are much larger than at later layers (where Xiong et al. 2020 have them the same for any layer).",
        source=SHLEIFER + ", abstract",
        reading=f"Norm of W₂'s gradient in the first block over the last block's: {depth} token-wise ReLU blocks, and 12 of attention and ReLU. (Whether "
        "NormFormer's own norms reduce it is not in this claim.)",
        law=gradient_law(
            "pre-ln",
            "W₂ of block l reads inputs of unit moment and a gradient of square 1/q_l: exponent −1/2 of the norm in q_l.",
            homogeneous=True,
        ),
        cells=cells_of(tokenwise, attention),
        checks=(
            *(
                ratio_of_rows(
                    sweep, "norm of W₂'s gradient, first block over last", PARAMETER, (0, -1), much, "statement", SUPPORTED, 0.5
                )
                for sweep in (tokenwise, attention)
            ),
            Check(
                f"exponent of the norm of W₂'s gradient in q_l, all blocks of L={depth}, {tokenwise.name}",
                slope_on(tokenwise.deepest, PARAMETER, np.log(tokenwise.predicted("stream-moment", depth)[1:]), power=0.5),
                (tokenwise.deepest,),
                Band(
                    -0.55,
                    -0.45,
                    "exponent −1/2; finite width adds 2 ΣV/d over the stack, 0.02 in the exponent; the rest is resolution",
                ),
                "law",
            ),
            follows_law(tokenwise, PARAMETER, resolution=VARIANT),
        ),
        expected=SUPPORTED,
        assumptions=ROUNDED,
        derived=("pre-ln", "relu"),
        figures=(
            across_layers(
                "Pre-LN: norm of W₂'s gradient across the blocks",
                "norm over the last block's",
                [tokenwise, attention],
                PARAMETER,
                0.5,
                relative=True,
                scales=("log", "log"),
                file="parameters",
            ),
        ),
    )
