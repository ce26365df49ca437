"""Claims of Xiong et al. 2020 itself: the last layer's gradient, and where a Post-LN Transformer's gradient is large."""

from __future__ import annotations

import numpy as np

from empirical.estimands import local_exponents, slope_on
from empirical.verdicts import Band
from tests.claims.checks import exponent_in_depth, extrapolates, follows_law, follows_prediction, ratio_of_rows, upper
from tests.claims.declaration import BY_CONDITION, REFUTED, SUPPORTED, Check, Claim, Profile, claim
from tests.claims.figures import across_layers, against_depth
from tests.claims.laws import collapsed_gradient_law, gradient_law
from tests.claims.sweeps import Sweep, cells_of, transformer
from tests.claims.texts import ISOTROPIC, TEXT, XIONG

GRADIENT, PARAMETER = "stream-gradient", "output-matrix-gradient"


@claim
def last_layer_gradient(profile: Profile) -> Claim:
    """Supported: exponents 0 and −1/2 of the norm in L."""
    post, pre = Sweep("post-ln", "relu", profile.depths, profile.seed), Sweep("pre-ln", "relu", profile.depths, profile.seed)
    flat = Band(-0.05, 0.05, "exponent 0: the last block sees a normalised stream at every depth; the rest is resolution")
    return Claim(
        id="last-layer-gradient",
        group="gradients",
        title="The last layer's W₂: Post-LN independent of depth, Pre-LN falling as 1/√L",
        statement="Theorem 1: ‖∂𝓛/∂W²‖_F of the last block is O(d√ln d) for Post-LN and O(d√(ln d/L)) for Pre-LN.",
        source=XIONG,
        reading="The bound's dependence on depth read as the typical gradient's: exponents 0 and −1/2 of the norm in L. (Its dependence on d is "
        "loose by √(d ln d): the typical norm is √(d/2)·√(2/3) for one token.)",
        law=gradient_law(
            "pre-ln",
            "Square of W₂'s gradient = moment of its input × moment of its output's gradient: 1/q_L = 1/(1 + L/2) for Pre-LN.",
        ),
        cells=post.cells | pre.cells,
        checks=(
            exponent_in_depth(post, PARAMETER, -1, flat, "statement", power=0.5),
            Check(
                f"exponent in L of {PARAMETER} (norm) between the two largest depths, {pre.name}",
                local_exponents(pre.labels[-2:], PARAMETER, -1, 0.5),
                tuple(label for _, label in pre.labels[-2:]),
                Band(-0.55, -0.45, "1/√(1 + L/2) reaches exponent −1/2 from above: −0.478 between 32 and 64; plus resolution"),
                "statement",
            ),
            extrapolates(
                post, PARAMETER, -1, Band(1 / 1.1, 1.1, "the flat fit reaches the held-out depth within 10 % in square")
            ),
            follows_law(post, PARAMETER),
            follows_law(pre, PARAMETER),
        ),
        expected=SUPPORTED,
        assumptions=ISOTROPIC,
        derived=("pre-ln", "relu"),
        figures=(
            against_depth("Gradient of the last block's W₂ against depth", "Frobenius norm", [post, pre], PARAMETER, -1, 0.5),
        ),
        reported=(
            {
                "what": "last FFN's W₂ at 6 to 14 layers, Post-LN",
                "source": "Xiong et al. 2020, figure 3",
                "value": "stays around 1.6",
                "ours": "exponent 0",
                "note": "IWSLT14, d = 512: another loss and scale, so only the dependence on depth compares",
            },
        ),
    )


@claim
def post_ln_largest_near_output(profile: Profile) -> Claim:
    """By condition: so for bidirectional attention; the other way round under a causal mask with a real loss."""
    isotropic = transformer("post-ln", profile.seed)
    bidirectional = transformer("post-ln", profile.seed, "text")
    causal = transformer("post-ln", profile.seed, "text", causal=True)
    judged = (causal,) if profile.name == "quick" else (causal, bidirectional)
    pre = transformer("pre-ln", profile.seed, "text", causal=True)
    smaller = upper(1.0, "largest near the output: mid-stack gradient smaller than the output's")
    what, rows = "square at L/2 over square at L", (12, 24)
    top = slice(20, 25)
    return Claim(
        id="post-ln-largest-near-output",
        group="gradients",
        title="Post-LN's gradient is largest near the output for bidirectional attention, not under a causal mask",
        statement="In a Post-LN Transformer at initialisation the gradients near the output are the large ones; they decay towards lower layers.",
        source=XIONG + ", abstract and section 3.3",
        reading="Squared stream gradient at mid-stack below the output's: 24 blocks of attention and GELU, d = 128, n = 64, 4 heads; independent loss "
        "gradients, real text bidirectional, real text causal. The statement is about parameters: W₂'s gradient at the first block against the "
        "last is judged too (gradient of one sequence; the source's figure averages it over mini-batches first).",
        law=collapsed_gradient_law(
            "post-ln",
            "Attention makes tokens alike (c → 1) and then adds variance without adding gradient: the square halves per block below the output "
            "while the tokens' gradients are incoherent (γ ≈ 0). A causal mask sums later tokens' gradients into earlier ones, coherently.",
        ),
        cells=cells_of(isotropic, bidirectional, causal, pre),
        checks=(
            ratio_of_rows(isotropic, what, GRADIENT, rows, smaller, "statement", SUPPORTED),
            ratio_of_rows(bidirectional, what, GRADIENT, rows, smaller, "statement", SUPPORTED),
            ratio_of_rows(causal, what, GRADIENT, rows, smaller, "statement", REFUTED),
            ratio_of_rows(
                isotropic, "square of W₂'s gradient, block 1 over block L", PARAMETER, (0, 23), smaller, "statement", REFUTED
            ),
            follows_prediction(isotropic, GRADIENT, top, "the last four blocks"),
            *(follows_prediction(sweep, GRADIENT) for sweep in judged),
        ),
        expected=BY_CONDITION,
        assumptions=TEXT,
        derived=("post-ln", "attention,gelu"),
        figures=(
            across_layers(
                "Transformer at initialisation: squared stream gradient across the layers",
                "square over the output's",
                [isotropic, bidirectional, causal, pre],
                GRADIENT,
                relative=True,
                lines=[("the output's", [0, 24], [1, 1])],
            ),
            across_layers(
                "The same networks: squared gradient of W₂",
                "square over the last block's",
                [isotropic, bidirectional, causal, pre],
                PARAMETER,
                relative=True,
                file="parameters",
            ),
        ),
        erratum={
            "printed": "Post-LN gradients are largest near the output (or: in the lower layers), stated without conditions",
            "right": "near the output for bidirectional attention with independent or real loss gradients; in the lower layers under a causal mask with a "
            "next-token loss",
            "why": "the mask and the coherence of the loss gradient across tokens decide the direction",
        },
    )


def _two_thirds_checks(tokenwise: Sweep, attention: Sweep) -> tuple[Check, ...]:
    deepest, depth = tokenwise.depths[-1], attention.depths[-1]
    statement = Band(2 / 3 / 1.05, 2 / 3 * 1.05, "a factor 2/3 in square per block; 5 % is resolution")
    top, middle = 4, depth // 2
    printed = (2 / 3) ** (depth - middle)
    what = "factor on the square per block, downwards"
    top_rows = slice(depth - top, depth + 1)
    return (
        Check(
            f"{what}, all layers of L={deepest}, {tokenwise.name}",
            slope_on(tokenwise.deepest, GRADIENT, -np.arange(deepest + 1.0)),
            (tokenwise.deepest,),
            statement,
            "statement",
            REFUTED,
            logarithm=True,
        ),
        Check(
            f"{what}, the {top} blocks below the output, {attention.name}",
            slope_on(attention.deepest, GRADIENT, -np.arange(top + 1.0), top_rows),
            attention.names,
            statement,
            "statement",
            REFUTED,
            logarithm=True,
        ),
        ratio_of_rows(
            attention,
            f"square at L/2 over square at L ((2/3)^{depth - middle} = {printed:.2g})",
            GRADIENT,
            (middle, depth),
            Band(printed / 2, printed * 2, "a factor 2 either way"),
            "statement",
            REFUTED,
        ),
        Check(
            f"{what}, all layers of L={deepest}, {tokenwise.name}",
            slope_on(tokenwise.deepest, GRADIENT, -np.arange(deepest + 1.0)),
            (tokenwise.deepest,),
            Band(1 / 1.01, 1.01, "χ = 1 within 1 %: V/d a block is 0.3 % at d = 256; the rest is resolution"),
            "law",
            SUPPORTED,
            logarithm=True,
        ),
        follows_prediction(attention, GRADIENT, top_rows, "the last four blocks"),
    )


@claim
def two_thirds_decay(profile: Profile) -> Claim:
    """Refuted: flat for token-wise blocks; with attention one half per block, from token collapse, down to a floor."""
    tokenwise, attention = Sweep("post-ln", "relu", profile.depths, profile.seed), transformer("post-ln", profile.seed)
    depth = attention.depths[-1]
    return Claim(
        id="two-thirds-decay",
        group="gradients",
        title="Post-LN's factor (2/3)^((L−l)/2): cancelled by the block's own gain, or one half from token collapse",
        statement="Post-LN's gradient norm carries a factor (2/3)^((L−l)/2), which decreases exponentially as l goes smaller.",
        source=XIONG + ", appendix F",
        reading="Squared stream gradient falling by 2/3 per block, independent loss gradients: ReLU blocks (their FFN, s² = 1/2) at the deepest stack, "
        "and 24 blocks of attention and GELU, just below the output and down to mid-stack.",
        law=collapsed_gradient_law(
            "post-ln",
            "The norm's 1/(1+s²) = 2/3 meets the block's own gain 1 + κ² = 3/2: χ = 1. Collapsed tokens halve the incoherent part per block, "
            "because attention does not pass it on, and leave the coherent 1/n.",
        ),
        cells=cells_of(tokenwise, attention),
        checks=_two_thirds_checks(tokenwise, attention),
        expected=REFUTED,
        assumptions=ISOTROPIC,
        derived=("post-ln", "attention,gelu"),
        figures=(
            across_layers(
                "Post-LN: squared gradient across the layers",
                "square over the output's",
                [tokenwise, attention],
                GRADIENT,
                relative=True,
                lines=[("statement: (2/3)^(L−l)", range(depth + 1), [(2 / 3) ** (depth - k) for k in range(depth + 1)])],
            ),
        ),
        erratum={
            "printed": "∂x_{j+1}/∂x_j bounded through LayerNorm's √(2/3) alone",
            "right": "one FFN step multiplies the square by (1 + κ²)/(1 + s²) = 1 for ReLU",
            "why": "the factor 1 + κ² = 3/2 of the residual block that LayerNorm follows is left out",
        },
    )
