"""DeepNorm at 1,000 blocks: its gradients beside Post-LN's, derived, measured and judged."""

from __future__ import annotations

from empirical.estimands import departure, log_ratio
from empirical.statistics import Means, Statistic
from empirical.verdicts import Band
from tests.claims.checks import follows_law
from tests.claims.declaration import REFUTED, SUPPORTED, Check, Claim, Profile, claim
from tests.claims.figures import across_layers
from tests.claims.laws import step_law
from tests.claims.sweeps import Sweep, cells_of
from tests.claims.texts import FLOAT32, ISOTROPIC, REVIEW, UNPUBLISHED, WANG

DEPTH, GRADIENT, LOGARITHM = 1000, "stream-gradient", "log-gradient"
FLAT = Band(1 / 2, 2, "near flat: the squared gradient changes by less than a factor 2, so the norm by less than √2")


@claim
def deepnorm_thousand_layers(profile: Profile) -> Claim:
    """Supported for DeepNorm; Post-LN's geometric law, 1.021 a block for GELU, is far from flat at this depth."""
    deep, post = (
        Sweep(variant, "gelu", (DEPTH,), profile.seed, 512, 1, dtype="float32", extra=(LOGARITHM,))
        for variant in ("deepnorm", "post-ln")
    )
    return Claim(
        id="deepnorm-thousand-layers",
        group="variants",
        title="DeepNorm's gradients stay near flat at 1,000 blocks, where Post-LN's do not",
        statement="With DeepNorm's constants gradients are near flat, also in 1,000 layers.",
        source=f"{REVIEW}; {WANG}",
        reading="Squared stream gradient at the input over the output's, 1,000 token-wise GELU blocks, at initialisation. Post-LN at the same "
        "depth for contrast, by the typical network (mean logarithm): its mean is carried by rare networks there.",
        law=step_law(
            "deepnorm",
            "χ − 1 = (κ² − s²)/(α² + s²) with s², κ² at the β-scaled weights is of order 1/L, so χ^L tends to 1; Post-LN (α = β = 1): χ = 1.021 "
            "for GELU, to the power L.",
        ),
        cells=cells_of(deep, post),
        checks=_checks(deep, post),
        expected=SUPPORTED,
        assumptions=(*ISOTROPIC, "one token", FLOAT32),
        derived=("deepnorm", "gelu"),
        figures=(across_layers("Squared gradient across 1,000 blocks", "squared stream gradient", [deep, post], GRADIENT),),
        reported=(
            {
                "what": "depth at which a network was trained",
                "source": WANG,
                "value": "1,000 layers",
                "ours": "1,000 blocks of one sublayer, at initialisation",
                "note": f"{UNPUBLISHED}; trained networks are the training claims' part",
            },
        ),
        first_look=64,
    )


def _checks(deep: Sweep, post: Sweep) -> tuple[Check, ...]:
    what = f"squared gradient, layer 0 over layer {DEPTH}"
    difference = departure(post.deepest, LOGARITHM, post.predicted(LOGARITHM, DEPTH))
    return (
        Check(f"{what}, {deep.name}", log_ratio(deep.deepest, GRADIENT, 0, DEPTH), deep.names, FLAT, "statement", logarithm=True),
        follows_law(deep, GRADIENT, resolution=0.1),
        Check(f"{what}, typical, {post.name}", _typical_ratio(post), post.names, FLAT, "law", REFUTED, logarithm=True),
        Check(
            f"log-gradient, measured less predicted, every layer of L={DEPTH}, {post.name}",
            difference,
            post.names,
            Band(-2.0, 2.0, _reason(post)),
            "law",
        ),
    )


def _typical_ratio(sweep: Sweep) -> Statistic:
    def statistic(means: Means) -> object:
        logarithm = means[sweep.deepest][LOGARITHM]
        return logarithm[..., :1] - logarithm[..., -1:]

    return statistic  # type: ignore[return-value]


def _reason(sweep: Sweep) -> str:
    return (
        f"steps add up in the logarithm, each to first order in 1/width: over {DEPTH} of them terms of order 1/width² leave about "
        f"{DEPTH}·(1/{sweep.width})²·O(1); ± 2 is the resolution, a tenth of the 21 that the law says"
    )
