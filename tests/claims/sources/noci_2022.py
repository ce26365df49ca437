"""Claim of Noci et al. 2022: rank collapse takes the gradients of queries and keys away, scaled residual branches keep them."""

from __future__ import annotations

import numpy as np

from empirical.estimands import reading
from empirical.statistics import Means, Statistic
from tests.claims.checks import lower, upper
from tests.claims.declaration import SUPPORTED, Check, Claim, Profile, claim
from tests.claims.figures import across_blocks, across_layers
from tests.claims.laws import collapsed_gradient_law
from tests.claims.sweeps import Sweep, cells_of, short_transformer
from tests.claims.texts import ROUNDED

NOCI = "Noci et al., Signal Propagation in Transformers: Theoretical Perspectives and the Role of Rank Collapse, arXiv 2206.03126 (2022)"
COSINE, PARAMETER = "token-cosine", "parameter-gradient"


def share(sweep: Sweep) -> Statistic:
    """Logarithm of the squared gradients of W_Q and W_K over W_V's, in the last block."""
    names = list(sweep.matrices)
    first = (sweep.depths[-1] - 1) * len(names)
    query, key, value = (first + names.index(f"attention.W{letter}") for letter in "QKV")

    def statistic(means: Means) -> np.ndarray:
        rows = means[sweep.deepest][PARAMETER]
        return np.log((rows[..., query, None] + rows[..., key, None]) / (2 * rows[..., value, None]))

    return statistic


@claim
def rank_collapse_of_queries_and_keys(profile: Profile) -> Claim:
    """Supported: with the tokens alike the gradients of W_Q and W_K vanish; branches scaled by 1/√L keep both."""
    post, scaled = (short_transformer(variant, profile.seed) for variant in ("post-ln", "skipinit"))
    what = f"squared gradients of W_Q and W_K over W_V's, block {post.depths[-1]}"
    gone, kept = (
        upper(0.01, "vanishing: less than a hundredth of the values' own"),
        lower(0.1, "kept: at least a tenth of the values'"),
    )
    alike, apart = (
        lower(0.98, "collapsed: all tokens within 2 % of one direction"),
        upper(0.5, "not collapsed: a mean cosine below a half"),
    )
    cosine = f"mean cosine between tokens behind block {post.depths[-1]}"
    return Claim(
        id="rank-collapse-of-queries-and-keys",
        group="gradients",
        title="Tokens that have become alike take the gradients of queries and keys away; branches scaled by 1/√L keep them",
        statement="Rank collapse of the tokens' representations makes the gradients of the queries and keys vanish at initialisation; a depth-dependent "
        "scaling of the residual branches prevents it.",
        source=NOCI + ", abstract",
        reading="Twelve blocks of attention and ReLU. Post-LN; and x + F(x)/√L without norms (SkipInit's second choice). Mean cosine between tokens behind the "
        "last block, and the last block's squared gradients of W_Q and W_K over W_V's.",
        law=collapsed_gradient_law(
            "post-ln",
            "The gradients of W_Q and W_K carry factors 1 − c each, from the values' differences and the keys': their square goes as (1 − c)². With "
            "branches scaled by 1/√L the tokens' cosine stays of order one below 1.",
        ),
        cells=cells_of(post, scaled),
        checks=(
            Check(f"{cosine}, {post.name}", reading(post.deepest, COSINE, -1), post.names, alike, "statement"),
            Check(f"{what}, {post.name}", share(post), post.names, gone, "statement", logarithm=True),
            Check(f"{cosine}, {scaled.name}", reading(scaled.deepest, COSINE, -1), scaled.names, apart, "statement"),
            Check(f"{what}, {scaled.name}", share(scaled), scaled.names, kept, "statement", logarithm=True),
        ),
        expected=SUPPORTED,
        assumptions=ROUNDED,
        derived=("post-ln", "attention,relu"),
        figures=(
            across_layers("Cosine between tokens", "cosine", [post, scaled], COSINE, scales=("linear", "linear"), file="cosine"),
            across_blocks(f"Gradient of every matrix, {post.name}", post, file="matrices-post-ln"),
            across_blocks(f"Gradient of every matrix, {scaled.name}", scaled, file="matrices-skipinit"),
        ),
    )
