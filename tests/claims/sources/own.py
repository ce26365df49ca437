"""Claims of this suite itself: how well its predictions hold."""

from __future__ import annotations

import numpy as np

from empirical.estimands import departure, log_relative, log_relative_by_matrix, median_error
from empirical.statistics import Means, Statistic
from empirical.verdicts import Band
from tests.claims.checks import follows_prediction, lower, ratio_of_rows, upper
from tests.claims.declaration import SUPPORTED, Check, Claim, Profile, claim
from tests.claims.figures import across_blocks, across_layers
from tests.claims.laws import collapsed_gradient_law, gradient_law
from tests.claims.sweeps import Sweep, cells_of
from tests.claims.texts import ISOTROPIC

GRADIENT, DEPTH = "stream-gradient", 24
MOMENT, COSINE, PARAMETER = "stream-moment", "token-cosine", "parameter-gradient"
_APART = 1e-3
"""Of 1 − c; below it the gradients of W_Q and W_K are differences of nearly equal numbers, in float32 and in the prediction."""
_OWN = "the accuracy that the suite sets itself for a real Transformer: {} % {}, interval included"


@claim
def tokenwise_profile(profile: Profile) -> Claim:
    """Supported: every layer within 10 %, interval included."""
    band = Band(
        1 / 1.1,
        1.1,
        "10 % at every layer, the accuracy that the suite sets itself; finite width (V ≤ 0.78) takes up to 7.6 % of it at d = 256",
    )
    sweeps = [Sweep(variant, name, (DEPTH,), profile.seed) for variant in ("post-ln", "pre-ln") for name in profile.sublayers]
    return Claim(
        id="tokenwise-profile",
        group="gradients",
        title="Token-wise stacks: every layer's gradient predicted within 10 %",
        statement="The squared stream gradient of Post-LN and Pre-LN stacks of token-wise sublayers is predicted from the expression alone.",
        source="this suite",
        reading="Measured over predicted within 10 % at every layer, the simultaneous interval included; d = 256, L = 24.",
        law=gradient_law("pre-ln", "Post-LN: χ^(L−l); Pre-LN: a ratio of Gamma functions."),
        cells=cells_of(*sweeps),
        checks=tuple(
            Check(
                f"{GRADIENT}, measured over predicted, every layer of L={DEPTH}, {sweep.name}",
                log_relative(sweep.deepest, GRADIENT, sweep.predicted(GRADIENT, DEPTH)),
                sweep.names,
                band,
                "statement",
                logarithm=True,
            )
            for sweep in sweeps
        ),
        expected=SUPPORTED,
        assumptions=ISOTROPIC,
        derived=("pre-ln", "gelu"),
        figures=(across_layers("Squared stream gradient across the layers", "squared stream gradient", sweeps, GRADIENT),),
        first_look=2048,
        budget=32768,
    )


def _transformers(profile: Profile) -> list[Sweep]:
    """Post-LN and Pre-LN; quick has each mask and each activation once, full all of them, deeper and at n/d = 1/4."""
    kinds: tuple[tuple[str, bool], ...]
    if profile.name == "quick":
        kinds, size = (("gelu", False), ("relu", True)), {"depths": (6,), "width": 256, "tokens": 16, "heads": 4}
    else:
        kinds = tuple((name, causal) for name in ("gelu", "relu") for causal in (False, True))
        size = {"depths": (24,), "width": 128, "tokens": 32, "heads": 4}
    return [
        Sweep(variant, f"attention,{name}", base_seed=profile.seed, causal=causal, dtype="float32", **size)  # type: ignore[arg-type]
        for variant in ("post-ln", "pre-ln")
        for name, causal in kinds
    ]


def _profile_checks(sweep: Sweep) -> tuple[Check, ...]:
    cell, depth = sweep.deepest, sweep.depths[-1]
    worst, median = (15, 5) if sweep.variant == "post-ln" else (5, 2)

    def law(name: str) -> np.ndarray:
        return sweep.predicted(name, depth)

    def matrices(means: Means) -> np.ndarray:
        apart = int((1 - law(COSINE)[:-1] > _APART).sum()) * len(sweep.matrices)
        return log_relative_by_matrix(cell, PARAMETER, law(PARAMETER), len(sweep.matrices), slice(apart))(means)

    def within(percent: float, where: str) -> Band:
        return Band(1 / (1 + percent / 100), 1 + percent / 100, _OWN.format(percent, where))

    def ratio(name: str, statistic: Statistic, band: Band) -> Check:
        return Check(f"{name}, {sweep.name}", statistic, sweep.names, band, "statement", logarithm=True)

    return (
        ratio(
            f"{GRADIENT}, measured over predicted, every layer",
            lambda means: log_relative(cell, GRADIENT, law(GRADIENT))(means),
            within(worst, "at the worst layer"),
        ),
        ratio(
            f"{GRADIENT}, factor of the median layer's error",
            lambda means: median_error(cell, GRADIENT, law(GRADIENT))(means),
            upper(1 + median / 100, _OWN.format(median, "at the median layer")),
        ),
        ratio(
            f"{MOMENT}, measured over predicted, every layer",
            lambda means: log_relative(cell, MOMENT, law(MOMENT))(means),
            within(2, "at every layer"),
        ),
        Check(
            f"{COSINE}, measured less predicted, every layer, {sweep.name}",
            lambda means: departure(cell, COSINE, law(COSINE))(means),
            sweep.names,
            Band(-0.02, 0.02, _OWN.format(2, "of a cosine's range at every layer")),
            "statement",
        ),
        ratio(
            f"{PARAMETER}, measured over predicted, each kind of matrix, geometric mean over blocks whose tokens differ",
            matrices,
            within(10, "for every matrix"),
        ),
    )


@claim
def transformer_profile(profile: Profile) -> Claim:
    """Supported: the whole profile of a real Transformer from its configuration alone."""
    sweeps = _transformers(profile)
    size = f"d = {sweeps[0].width}, n = {sweeps[0].tokens}, {sweeps[0].heads} heads, L = {sweeps[0].depths[-1]}"
    return Claim(
        id="transformer-profile",
        group="gradients",
        title="A Transformer's whole profile, predicted from its configuration alone",
        statement="Stream gradient, stream moment, token cosine and every matrix's gradient of Post-LN and Pre-LN Transformers are predicted at every "
        "layer, with no fitted constant.",
        source="this suite",
        reading=f"Attention and FFN blocks, bidirectional and causal, {size}. Squared stream gradient: within 15 % (Post-LN) or 5 % (Pre-LN) at every "
        "layer, 5 % or 2 % at the median layer; moment and cosine within 2 %; each kind of matrix within 10 %. Simultaneous intervals included.",
        law=collapsed_gradient_law(
            "post-ln",
            "Infinite width, tokens already alike; the prediction keeps tokens apart, position by position, and adds the terms of order 1/width.",
        ),
        cells=cells_of(*sweeps),
        checks=tuple(check for sweep in sweeps for check in _profile_checks(sweep)),
        expected=SUPPORTED,
        assumptions=(*ISOTROPIC, "float32 (rounding is below 1e-5 of every reading)"),
        derived=("post-ln", "attention,gelu"),
        figures=(
            across_layers("Squared stream gradient across the layers", "squared stream gradient", sweeps, GRADIENT),
            across_layers("Second moment of the stream", "second moment", sweeps, MOMENT, file="moment"),
            across_layers("Cosine between tokens", "cosine", sweeps, COSINE, scales=("linear", "linear"), file="cosine"),
            *(
                across_blocks(f"Gradient of every matrix, {s.name}", s, file=f"matrices-{s.variant}")
                for s in (sweeps[0], sweeps[-1])
            ),
        ),
        first_look=640,
    )


@claim
def loss_coherence(profile: Profile) -> Claim:
    """Supported: independent loss gradients decay downwards, identical ones grow."""
    cosines = ("0", "0.2", "1")
    quick = profile.name == "quick"
    size = {"depths": (8,), "width": 128, "tokens": 16} if quick else {"depths": (24,), "width": 256, "tokens": 32}
    sweeps = [
        Sweep("post-ln", "attention,relu", base_seed=profile.seed, source=f"coherent:{cosine}", dtype="float32", **size)  # type: ignore[arg-type]
        for cosine in cosines
    ]
    depth = sweeps[0].depths[-1]
    lower_end = (0, depth)
    falls, grows = upper(1.0, "the input's gradient is the smaller one"), lower(1.0, "the input's gradient is the larger one")
    what = "square at l = 0 over square at L"
    return Claim(
        id="loss-coherence",
        group="gradients",
        title="How alike the loss gradient is across tokens decides which way Post-LN's profile leans",
        statement="With attention the direction of Post-LN's gradient profile depends on the cosine γ between the tokens' loss gradients: independent "
        "gradients fall towards the input, identical ones grow.",
        source="this suite",
        reading=f"Squared stream gradient at l = 0 over the output's, γ = 0 and γ = 1, attention and ReLU, L = {depth}, d = {sweeps[0].width}, "
        f"n = {sweeps[0].tokens}; γ = 0.2 lies between. Every layer within 15 % of the prediction.",
        law=collapsed_gradient_law(
            "post-ln",
            "Near the output, where tokens are alike, the incoherent part halves per block and the coherent part stays. Near the input, where "
            "they are not, the coherent part grows by 2/(1+c) at each attention.",
        ),
        cells=cells_of(*sweeps),
        checks=(
            ratio_of_rows(sweeps[0], what, GRADIENT, lower_end, falls, "statement", SUPPORTED),
            ratio_of_rows(sweeps[-1], what, GRADIENT, lower_end, grows, "statement", SUPPORTED),
            *(follows_prediction(sweep, GRADIENT) for sweep in sweeps),
        ),
        expected=SUPPORTED,
        assumptions=(
            ISOTROPIC[0],
            "inputs independent N(0, 1); the output's gradients N(0, 1) with cosine γ between tokens",
            "float32 (rounding is below 1e-5 of every reading)",
        ),
        derived=("post-ln", "attention,relu"),
        figures=(
            across_layers(
                "Post-LN: squared gradient for loss gradients of cosine γ across tokens",
                "square over the output's",
                sweeps,
                GRADIENT,
                relative=True,
                lines=[("the output's", [0, depth], [1, 1])],
            ),
        ),
        first_look=1024,
    )
