"""Claims of the review: gradients at initialisation, and the definition of RMSNorm."""

from __future__ import annotations

import numpy as np
import torch

from empirical.estimands import excess_exponent, local_exponents, log_reading, log_relative, reading, slope_on
from empirical.norms import normalise
from empirical.verdicts import Band
from tests.claims.checks import exponent_in_depth, extrapolates, follows_law, follows_prediction, lower, ratio_of_rows, upper
from tests.claims.declaration import BY_CONDITION, REFUTED, SUPPORTED, Check, Claim, Profile, claim, ours
from tests.claims.figures import across_layers, against_depth, input_against_depth
from tests.claims.laws import collapsed_gradient_law, gradient_law, relative_gradient_law, step_law, stream_law
from tests.claims.summaries import GROWTH, Summary, along_layers, excess_over_depths
from tests.claims.sweeps import Sweep, cells_of, transformer
from tests.claims.texts import ISOTROPIC, REVIEW, TEXT

GRADIENT = "stream-gradient"
_GROWTH = Band(0.75, 1.25, "growth in proportion to L − l + 1 has exponent 1; ± 1/4 admits lower-order terms at these depths")
_FLAT = Band(
    -0.05,
    0.05,
    "a flat law has exponent 0; finite width adds less than 0.02 at d = 256 (2 Σ V/d grows like log L); the rest is resolution",
)
_HELD_OUT = Band(
    1 / 1.1, 1.1, "a power law's fit has to reach the held-out depth within 10 %: curvature of the exact law plus finite width"
)


@claim
def post_ln_growth_typical(profile: Profile) -> Claim:
    """Refuted: flat for homogeneous sublayers, geometric for GELU and tanh, decaying with attention."""
    sweeps = [Sweep("post-ln", name, profile.depths, profile.seed) for name in ("linear", "relu", "gelu", "tanh")]
    attention = transformer("post-ln", profile.seed)
    m = np.arange(12, 0, -1.0) + 1  # L − l + 1 at layers 12..23
    statements = [
        Check(
            f"exponents between successive depths, norm at l = 0, {sweep.name}",
            local_exponents(sweep.labels, GRADIENT, 0, power=0.5),
            sweep.names,
            _GROWTH,
            "statement",
            REFUTED,
        )
        for sweep in sweeps
    ]
    decay = Check(
        f"exponent in L − l + 1 of the norm, upper half, {attention.name}",
        slope_on(attention.deepest, GRADIENT, np.log(m), slice(12, 24), power=0.5),
        (attention.deepest,),
        _GROWTH,
        "statement",
        REFUTED,
    )
    reading = "typical growth"
    return Claim(
        id="post-ln-growth-typical",
        group="gradients",
        title="Post-LN's typical gradient does not grow like L − l + 1",
        statement="Post-LN: ∂𝓛/∂x_l = O(L − l + 1) · ∂𝓛/∂x_L, so that the lower layers' gradients grow with depth.",
        source=REVIEW,
        reading="Typical growth: the root mean square gradient at the first layer, relative to the output's, is proportional to L − l + 1. "
        "Stream gradient, independent upstream gradients; four activations, and attention with GELU.",
        law=relative_gradient_law(
            "post-ln",
            "Geometric: χ = 1 (flat) for linear and ReLU, 1.021 for GELU, 1.050 for tanh per block; with attention tokens become alike and "
            "the gradient halves per block below the output.",
            homogeneous=False,
        ),
        cells=cells_of(*sweeps, attention),
        checks=(*statements, decay, *(follows_law(sweep, GRADIENT) for sweep in sweeps)),
        expected=REFUTED,
        assumptions=ISOTROPIC,
        derived=("post-ln", "gelu"),
        figures=(
            input_against_depth(sweeps, GRADIENT, "statement: L − l + 1"),
            across_layers(
                "Post-LN with attention: squared gradient across the layers",
                "squared gradient over the output's",
                [attention],
                GRADIENT,
                relative=True,
                lines=[("statement: (L − l + 1)²", range(25), [(25 - k) ** 2 for k in range(25)])],
                file="attention",
            ),
        ),
        summary=Summary(
            GROWTH,
            reading,
            "χ^m: flat for ReLU (χ = 1), geometric for GELU and tanh; falling with attention",
            along_layers(reading, sweeps[1], sweeps[2], quantity=GRADIENT),
        ),
        erratum={
            "printed": "Post-LN: ∂𝓛/∂x_l = O(L − l + 1) · ∂𝓛/∂x_L, without conditions",
            "right": "typical squared gradient χ^(L−l), χ = (1+κ²)/(1+s²) per token-wise sublayer: flat for ReLU; it falls below the output when "
            "attention makes tokens alike and the loss gradients are independent across tokens",
            "why": "the block's own gain 1+κ² cancels what LayerNorm divides by; the linear law is Pre-LN's (growth-is-pre-ln)",
        },
    )


@claim
def growth_is_pre_ln(profile: Profile) -> Claim:
    """Supported: the law O(L − l + 1) holds, for the other placement, in square."""
    sweeps = [Sweep("pre-ln", name, profile.depths, profile.seed) for name in ("linear", "relu")]
    band = Band(
        0.9,
        1.1,
        "linear growth has exponent 1; finite width adds up to 2 Σ V/d (5 % at d = 256) to the ratio, 0.02 to its exponent",
    )
    return Claim(
        id="growth-is-pre-ln",
        group="gradients",
        title="The law L − l + 1 is Pre-LN's squared gradient",
        statement="∂𝓛/∂x_l = O(L − l + 1) · ∂𝓛/∂x_L (stated for Post-LN).",
        source=REVIEW,
        reading="The same law read for the other placement: Pre-LN's typical squared gradient at fixed l = 1 relative to layer L's, "
        "less one, is proportional to L − l.",
        law=relative_gradient_law("pre-ln", "Exactly 1 + s²(L − l)/q_l for a homogeneous sublayer: linear in L − l."),
        cells=cells_of(*sweeps),
        checks=tuple(
            Check(
                f"exponent in L − l of (square at l = 1 over square at L) − 1, {sweep.name}",
                excess_exponent(sweep.labels[:-1], GRADIENT, 1),
                tuple(label for _, label in sweep.labels[:-1]),
                band,
                "statement",
            )
            for sweep in sweeps
        )
        + tuple(follows_law(sweep, GRADIENT) for sweep in sweeps),
        expected=SUPPORTED,
        assumptions=ISOTROPIC,
        derived=("pre-ln", "relu"),
        figures=(
            across_layers(
                "Pre-LN: squared gradient relative to the last layer's",
                "square over square at l = L",
                sweeps,
                GRADIENT,
                relative=True,
                scales=("linear", "linear"),
            ),
        ),
        summary=Summary(
            GROWTH,
            "Pre-LN, square less the output's",
            "exactly s²(L − l)/q_l",
            excess_over_depths("Pre-LN, square less the output's", sweeps[1], GRADIENT, 1),
        ),
    )


@claim
def pre_ln_flat_in_depth(profile: Profile) -> Claim:
    """Supported: exponent 0 in L at fixed l."""
    homogeneous = [Sweep("pre-ln", name, profile.depths, profile.seed) for name in ("linear", "relu")]
    others = [Sweep("pre-ln", name, profile.depths, profile.seed) for name in ("gelu", "tanh")]
    return Claim(
        id="pre-ln-flat-in-depth",
        group="gradients",
        title="Pre-LN's gradient at a fixed layer does not depend on depth",
        statement="Pre-LN: ∂𝓛/∂x_l ≈ ∂𝓛/∂x_L, independent of depth.",
        source=REVIEW,
        reading="Flat in L at fixed l = 1: the squared stream gradient has exponent 0 in L (homogeneous sublayers).",
        law=gradient_law(
            "pre-ln",
            "1/q_l: the final norm divides by q_L what the blocks have multiplied. GELU and tanh keep a small power L^(κ²/s² − 1).",
            homogeneous=True,
        ),
        cells=cells_of(*homogeneous, *others),
        checks=(
            *(exponent_in_depth(sweep, GRADIENT, 1, _FLAT, "statement") for sweep in homogeneous),
            *(extrapolates(sweep, GRADIENT, 1, _HELD_OUT) for sweep in homogeneous),
            *(follows_law(sweep, GRADIENT) for sweep in (*homogeneous, *others)),
        ),
        expected=SUPPORTED,
        assumptions=ISOTROPIC,
        derived=("pre-ln", "relu"),
        figures=(
            against_depth(
                "Pre-LN: squared gradient at l = 1 against depth",
                "squared stream gradient at l = 1",
                [*homogeneous, *others],
                GRADIENT,
                1,
            ),
        ),
    )


@claim
def pre_ln_flat_across_layers(profile: Profile) -> Claim:
    """By condition: within √2 of norm over the upper half, not over the whole stack."""
    sweep = Sweep("pre-ln", "relu", (profile.depths[-1],), profile.seed)
    depth = profile.depths[-1]
    finite = float(sweep.finite_terms(depth)[depth // 2])
    root = 2**0.5 * (1 + finite)
    flat = Band(
        1 / root,
        root,
        f"flat within a factor √2 of norm, the most that the upper half of a stack can differ by (q_L < 2 q_{{L/2}}); plus {finite:.3f} for "
        "finite width (its terms of order 1/width at L/2)",
    )
    x = np.log(sweep.predicted("stream-moment", depth))
    return Claim(
        id="pre-ln-flat-across-layers",
        group="gradients",
        title="Pre-LN's gradient is flat over the upper half of a stack, not over all of it",
        statement="Pre-LN: ∂𝓛/∂x_l ≈ ∂𝓛/∂x_L for all layers.",
        source=REVIEW,
        reading="Flat in l at fixed L: norms of the stream gradient at two layers of one network within √2 of each other; over the upper "
        "half, and over the whole stack.",
        law=gradient_law(
            "pre-ln", "Falls as 1/q_l along the stream: exponent −1/2 of the norm in q_l = q_0 + s² l.", homogeneous=True
        ),
        cells=cells_of(sweep),
        checks=(
            ratio_of_rows(sweep, "norm at L/2 over norm at L", GRADIENT, (depth // 2, depth), flat, "statement", SUPPORTED, 0.5),
            ratio_of_rows(sweep, "norm at 0 over norm at L", GRADIENT, (0, depth), flat, "statement", REFUTED, 0.5),
            Check(
                f"exponent of the norm in q_l over all layers, {sweep.name}",
                slope_on(sweep.deepest, GRADIENT, x, power=0.5),
                (sweep.deepest,),
                Band(
                    -0.55,
                    -0.45,
                    "exponent −1/2; finite width adds 2 Σ V/d + v = 8 % over a factor q_L/q_0 = 33 in q, 0.02 in the exponent",
                ),
                "law",
            ),
            follows_law(sweep, GRADIENT),
        ),
        expected=BY_CONDITION,
        assumptions=ISOTROPIC,
        derived=("pre-ln", "relu"),
        figures=(
            across_layers(
                "Pre-LN: gradient norm across the layers, relative to the last",
                "norm over norm at l = L",
                [sweep],
                GRADIENT,
                0.5,
                relative=True,
                lines=[("statement: flat", [0, depth], [1, 1]), ("√2", [0, depth], [2**0.5, 2**0.5])],
            ),
        ),
    )


@claim
def post_ln_lower_tens_of_times(profile: Profile) -> Claim:
    """By condition: right in order of magnitude, in square, for causal language models; refuted bidirectionally."""
    isotropic, bidirectional = transformer("post-ln", profile.seed), transformer("post-ln", profile.seed, "text")
    causal = transformer("post-ln", profile.seed, "text", causal=True)
    judged = (causal,) if profile.name == "quick" else (causal, bidirectional)
    tens = Band(10, 100, "tens of times: between ten and a hundred")
    ends = (0, 24)
    across = tuple(
        ratio_of_rows(of, "square at 0 over square at L", GRADIENT, ends, tens, "statement", expected)
        for of, expected in ((causal, SUPPORTED), (bidirectional, REFUTED), (isotropic, REFUTED))
    )
    return Claim(
        id="post-ln-lower-tens-of-times",
        group="gradients",
        title="Post-LN's lower layers: tens of times larger in square, under a causal mask only",
        statement="Post-LN's lower layers receive gradients tens of times larger than the upper ones (in the first 1,000 steps).",
        source=REVIEW,
        reading="At initialisation: squared stream gradient at layer 0 over the output's, 24 blocks of attention and GELU, d = 128, n = 64; "
        "on real text with its real loss, and for independent loss gradients. (Along training: not in this claim.)",
        law=collapsed_gradient_law(
            "post-ln",
            "The mask and the loss's coherence γ across tokens decide: a causal mask lets early tokens collect the gradients of all later "
            "ones, so a coherent gradient grows downwards; bidirectional attention averages incoherent gradients away.",
        ),
        cells=cells_of(isotropic, bidirectional, causal),
        checks=(
            *across,
            ratio_of_rows(causal, "norm at 0 over norm at L", GRADIENT, ends, tens, "statement", REFUTED, 0.5),
            ratio_of_rows(
                causal,
                "square of W₂'s gradient, block 1 over block L",
                "output-matrix-gradient",
                (0, 23),
                tens,
                "statement",
                REFUTED,
            ),
            *(follows_prediction(sweep, GRADIENT) for sweep in judged),
        ),
        expected=BY_CONDITION,
        assumptions=TEXT,
        derived=("post-ln", "attention,gelu"),
        figures=(
            across_layers(
                "Post-LN Transformer: squared stream gradient across the layers",
                "square over the output's",
                [isotropic, bidirectional, causal],
                GRADIENT,
                relative=True,
                lines=[("tens of times", [0, 0], [10, 100])],
            ),
        ),
        reported=(
            {
                "what": "lower over upper layers, Post-LN",
                "source": "the review",
                "value": "tens of times",
                "ours": tuple(ours(check) for check in across[::-1]),
                "note": "squared; isotropic inputs, real text, real text with a causal mask; no configuration given there",
            },
        ),
    )


@claim
def norm_amplifies(profile: Profile) -> Claim:
    """Refuted: one step's LayerNorm divides."""
    sweeps = [Sweep("post-ln", "relu", (4,), profile.seed), Sweep("post-ln", "gelu", (4,), profile.seed)]
    small = Sweep("post-ln", "relu", (4,), profile.seed, gain=0.1)
    name = "norm-gain"
    return Claim(
        id="norm-amplifies",
        group="gradients",
        title="At initialisation Post-LN's norm shrinks gradients, it does not amplify them",
        statement="At initialisation LayerNorm amplifies small sublayer outputs and so explodes the gradients.",
        source=REVIEW,
        reading="The norm of a Post-LN step multiplies a gradient by |N(v)|/|v| (apart from its projection); amplifying means a factor above 1. "
        "Sublayers at unit gain, and with a tenth of the weight variance (small outputs).",
        law=step_law(
            "post-ln", "The norm's own factor is 1/√(1 + s²) < 1: the smaller the sublayer's output, the closer to 1, from below."
        ),
        cells=cells_of(*sweeps, small),
        checks=(
            *(
                Check(
                    f"gain of the last block's norm, {sweep.name}",
                    reading(sweep.deepest, name, -1),
                    (sweep.deepest,),
                    lower(1.0, "amplifying means a factor above 1"),
                    "statement",
                    REFUTED,
                )
                for sweep in (*sweeps, small)
            ),
            *(
                Check(
                    f"gain of the last block's norm over 1/√(1+s²), {sweep.name}",
                    log_relative(sweep.deepest, name, sweep.predicted(name, 4), slice(-1, None)),
                    (sweep.deepest,),
                    Band(
                        0.98,
                        1.02,
                        "finite width: the length of x + F fluctuates by 3 (4s²+…)/8d < 1 % at d = 256; plus 1 % resolution",
                    ),
                    "law",
                    logarithm=True,
                )
                for sweep in (*sweeps, small)
            ),
        ),
        expected=REFUTED,
        assumptions=ISOTROPIC,
        derived=("post-ln", "relu"),
        figures=(
            across_layers(
                "Post-LN: what each block's norm multiplies a gradient by",
                "|N(v)| / |v|",
                [*sweeps, small],
                name,
                scales=("linear", "linear"),
                lines=[("amplifies above 1", [1, 4], [1, 1])],
                file="gain",
            ),
        ),
        erratum={
            "printed": "at initialisation LN amplifies small sublayer outputs and so explodes gradients",
            "right": "one step's norm multiplies gradients by 1/√(1 + s²) < 1",
            "why": "Post-LN normalises x + F(x), whose variance is at least that of x; nothing small is divided by",
        },
    )


@claim
def pre_ln_near_identity(profile: Profile) -> Claim:
    """By condition: deep in the stack, not in the first blocks."""
    sweep = Sweep("pre-ln", "relu", (64,), profile.seed)
    name = "relative-step"
    near = upper(0.25, "near the identity: a block moves the stream by less than a quarter of its length")
    law = sweep.predicted("stream-moment", 64)[:-1]
    return Claim(
        id="pre-ln-near-identity",
        group="gradients",
        title="Pre-LN blocks are near the identity deep in the stack, not at its start",
        statement="At initialisation Pre-LN blocks act close to the identity.",
        source=REVIEW,
        reading="|x_l − x_{l-1}|/|x_{l-1}| below 1/4, at the first and at the last of 64 blocks.",
        law=stream_law("pre-ln", "|x_l − x_{l-1}|/|x_{l-1}| = s/√q_{l-1}: falls like l^(-1/2) as the stream grows."),
        cells=cells_of(sweep),
        checks=(
            *(
                Check(
                    f"relative step of block {block}, {sweep.name}",
                    log_reading(sweep.deepest, name, block - 1, 0.5),
                    (sweep.deepest,),
                    near,
                    "statement",
                    verdict,
                    logarithm=True,
                )
                for block, verdict in ((1, REFUTED), (64, SUPPORTED))
            ),
            Check(
                f"exponent of the relative step in q, {sweep.name}",
                slope_on(sweep.deepest, name, np.log(law), power=0.5),
                (sweep.deepest,),
                Band(
                    -0.55,
                    -0.45,
                    "exponent −1/2; the fluctuating length adds E[1/q] − 1/q of relative order 2/d; the rest is resolution",
                ),
                "law",
            ),
            follows_law(sweep, name),
        ),
        expected=BY_CONDITION,
        assumptions=ISOTROPIC,
        derived=("pre-ln", "relu"),
        figures=(
            across_layers(
                "Pre-LN: how far each block moves the stream",
                "|x_l − x_{l-1}| / |x_{l-1}|",
                [sweep],
                name,
                0.5,
                scales=("log", "log"),
                lines=[("a quarter", [1, 64], [0.25, 0.25])],
                file="step",
            ),
        ),
    )


def _scale_response(seed: int, members: int) -> dict[str, np.ndarray]:
    """Length of N(2x) over N(x) as printed and with the root; and how far LayerNorm is from RMSNorm after centring."""
    x = torch.from_numpy(np.random.default_rng([seed, 20]).standard_normal((members, 64)))
    printed = [(v / v.square().mean(dim=-1, keepdim=True)).norm(dim=-1) for v in (2 * x, x)]
    rooted = [normalise(v, "rms").norm(dim=-1) for v in (2 * x, x)]
    centred = x - x.mean(dim=-1, keepdim=True)
    layer_norm = torch.nn.functional.layer_norm(x, (64,), eps=0.0)
    apart = (layer_norm - normalise(centred, "rms")).abs().amax(dim=-1)
    return {
        "response": torch.stack([printed[0] / printed[1], rooted[0] / rooted[1]], dim=1).numpy(),
        "apart": apart[:, None].numpy(),
    }


@claim
def rmsnorm_definition(profile: Profile) -> Claim:
    """Refuted as printed: the square root is lost."""
    invariant = Band(1 - 1e-9, 1 + 1e-9, "exact up to rounding in float64")
    return Claim(
        id="rmsnorm-definition",
        group="forward",
        title="RMS has a square root; without it the norm is not scale invariant",
        statement="RMS(x) = (1/n) Σ x_i².",
        source=REVIEW,
        reading="RMSNorm divides by RMS(x) and is scale invariant: |N(2x)| = |N(x)|. Also: LayerNorm is RMSNorm after centring.",
        law={"latex": r"\mathrm{RMS}(x) = \sqrt{\tfrac1n \textstyle\sum_i x_i^2}", "text": "Zhang & Sennrich 2019, equation 4."},
        cells={"x": lambda members: _scale_response(profile.seed, members)},
        checks=(
            Check(
                "|N(2x)|/|N(x)| as printed", reading("x", "response", 0), ("x",), invariant, "statement", REFUTED, predicted=0.5
            ),
            Check("|N(2x)|/|N(x)| with the root", reading("x", "response", 1), ("x",), invariant, "law", predicted=1.0),
            Check(
                "largest difference of torch's LayerNorm(x) and RMSNorm(x − mean)",
                reading("x", "apart", 0),
                ("x",),
                Band(-1e-12, 1e-12, "exact up to rounding in float64"),
                "law",
                predicted=0.0,
            ),
        ),
        expected=REFUTED,
        assumptions=("x of 64 independent N(0, 1) coordinates",),
        erratum={
            "printed": "RMS(x) = (1/n) Σ x_i²",
            "right": "RMS(x) = √((1/n) Σ x_i²)",
            "why": "without the root N(2x) = N(x)/2: the norm would not be scale invariant",
        },
    )
