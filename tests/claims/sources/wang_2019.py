"""Claim of Wang et al. 2019 (DLCL): Post-LN's gradient is a product over the blocks above, Pre-LN's one plus a sum."""

from __future__ import annotations

import numpy as np

from empirical.estimands import excess_exponent, log_ratio, slope_on
from empirical.verdicts import Band, Verdict
from tests.claims.checks import VARIANT, follows_law, lower
from tests.claims.declaration import BY_CONDITION, REFUTED, SUPPORTED, Check, Claim, Profile, claim
from tests.claims.figures import across_layers
from tests.claims.laws import relative_gradient_law
from tests.claims.sweeps import Sweep, cells_of
from tests.claims.texts import ISOTROPIC, SECOND_HAND

WANG_2019 = "Wang et al., Learning Deep Transformer Models for Machine Translation, ACL 2019"
GRADIENT = "stream-gradient"


def exponential(sweep: Sweep, expected: Verdict) -> Check:
    """Whether the square differs between the ends."""
    depth = sweep.depths[-1]
    return Check(
        f"squared gradient at layer 0 over layer L={depth}, {sweep.name}",
        log_ratio(sweep.deepest, GRADIENT, 0, depth),
        (sweep.deepest,),
        lower(2.0, "vanishing or exploding: a factor 2 from end to end at least (both stacks' laws are 1 or above)"),
        "statement",
        expected,
        logarithm=True,
    )


def rate_of(sweep: Sweep, chi: float) -> Check:
    """The product's factor."""
    depth = sweep.depths[-1]
    return Check(
        f"factor on the square per block, downwards, all layers of L={depth}, {sweep.name}",
        slope_on(sweep.deepest, GRADIENT, -np.arange(depth + 1.0)),
        (sweep.deepest,),
        Band(chi / 1.01, chi * 1.01, f"χ = {chi:.4f} within 1 %: V/d a block is below 0.4 %; the rest is resolution"),
        "law",
        predicted=chi,
        logarithm=True,
    )


@claim
def product_against_sum(profile: Profile) -> Claim:
    """By condition: the sum is exact; the product need not vanish or explode."""
    steep = Sweep("post-ln", "tanh", profile.depths, profile.seed, gain=4.0)
    flat, pre = (Sweep(variant, "relu", profile.depths, profile.seed) for variant in ("post-ln", "pre-ln"))
    depth = flat.depths[-1]
    fitted = pre.labels[:-1]
    rate = float(steep.predicted(GRADIENT, depth, infinite_width=True)[0]) ** (1 / depth)
    return Claim(
        id="product-against-sum",
        group="gradients",
        title="A sum for Pre-LN, exactly; a product for Post-LN, which for ReLU is one",
        statement="Post-LN: ∂E/∂x_l is ∂E/∂x_L times a product of L − l factors, and so vanishes or explodes in deep stacks; Pre-LN: ∂E/∂x_L times one "
        "plus a sum of L − l terms, and so does not.",
        source=f"{WANG_2019}, {SECOND_HAND}",
        reading="Squared stream gradient. Post-LN at layer 0 over the output's: tanh with weights of variance 4/fan_in, and ReLU. Pre-LN: the square "
        "at l = 1 over the last layer's, less one, in proportion to the number of terms L − l.",
        law=relative_gradient_law(
            "pre-ln",
            f"Every term of the sum adds s²/q_l in square: exactly linear. The product's factors have square χ = (1+κ²)/(1+s²): {rate:.3f} for "
            "tanh at gain 4, 1 for ReLU: a product of L − l factors that neither vanishes nor explodes.",
        ),
        cells=cells_of(steep, flat, pre),
        checks=(
            exponential(steep, SUPPORTED),
            exponential(flat, REFUTED),
            Check(
                f"exponent in L − l of (square at l = 1 over square at L) − 1, {pre.name}",
                excess_exponent(fitted, GRADIENT, 1),
                tuple(label for _, label in fitted),
                Band(0.9, 1.1, "a sum of equal independent terms: exponent 1; finite width adds 0.02; the rest is resolution"),
                "statement",
            ),
            rate_of(steep, rate),
            rate_of(flat, 1.0),
            follows_law(pre, GRADIENT, resolution=VARIANT),
        ),
        expected=BY_CONDITION,
        assumptions=ISOTROPIC,
        derived=("post-ln", "tanh"),
        figures=(
            across_layers(
                "Squared gradient across the layers", "square over the output's", [steep, flat, pre], GRADIENT, relative=True
            ),
        ),
    )
