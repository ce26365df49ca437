"""The review's claim on Post-LN's lower layers, along training."""

from __future__ import annotations

from empirical.estimands import ratio
from empirical.training import Arm
from empirical.verdicts import Band
from tests.claims.arms import TRAINED, label, labelled, text_arms
from tests.claims.declaration import REFUTED, Check, Claim, Profile, claim, ours
from tests.claims.figures import Figure, groups_along_training, layers_along_training
from tests.claims.laws import collapsed_gradient_law
from tests.claims.texts import REVIEW

STREAM, MATRICES = "stream-gradient", "parameter-gradient"
GROUPS = ("tokens", "positions", "attention", "norms", "FFN", "unembedding")
"""In the order in which a Post-LN network asks for its parameters."""
EARLY = (10, 100)
"""Steps that an arm that is given up early has taken too."""
TENS = Band(10, 100, "tens of times: between ten and a hundred")


def _refuted(arm: Arm, what: str, quantity: str, step: int, first: int) -> Check:
    name = f"{what} after {step} steps, {label(arm)}"
    return Check(name, ratio(label(arm), f"{quantity}@{step}", first, -1), (label(arm),), TENS, "statement", REFUTED)


def stream(arm: Arm, step: int) -> Check:
    """Squared stream gradient at the input of block 1 over the one at the output."""
    return _refuted(arm, "square at layer 0 over square at L", STREAM, step, 0)


def last_matrix(arm: Arm, step: int) -> Check:
    """Squared gradient of W₂ of the first block over the last block's."""
    first = len(arm.configuration.matrix_names) - 1
    return _refuted(arm, "square of W₂'s gradient, block 1 over block L", MATRICES, step, first)


def _streams(arm: Arm, file: str) -> Figure:
    layers = range(arm.configuration.depth + 1)
    return layers_along_training(
        f"Squared stream gradient, {label(arm)}", arm, label(arm), STREAM, layers, layers, "layer l", file
    )


def _last_matrices(arm: Arm, file: str) -> Figure:
    depth, per_block = arm.configuration.depth, len(arm.configuration.matrix_names)
    rows, blocks = range(per_block - 1, depth * per_block, per_block), range(1, depth + 1)
    return layers_along_training(
        f"Squared gradient of W₂, {label(arm)}", arm, label(arm), MATRICES, rows, blocks, "block l", file
    )


def _groups(arm: Arm, file: str) -> Figure:
    return groups_along_training(f"Squared gradient by group, {label(arm)}", arm, label(arm), GROUPS, file)


@claim
def post_ln_lower_tens_of_times_in_training(profile: Profile) -> Claim:
    """Refuted: at this depth neither of the stream nor of parameters, once the first steps are taken."""
    sizes = profile.training
    arms = text_arms(profile, sizes.rates[0])
    cold, warm = arms.post, arms.post_warm
    return Claim(
        id="post-ln-lower-tens-of-times-in-training",
        group="training",
        title="Post-LN's lower layers along training: not tens of times larger, and soon much smaller",
        statement="In the first 1,000 steps Post-LN's lower layers receive gradients tens of times larger than the upper ones.",
        source=REVIEW,
        reading=f"Squared gradients of causal models of real text, {sizes.depth} blocks, without and with warm-up, after some steps: of the "
        "stream, layer 0 over layer L, and of W₂, block 1 over block L. (Before the first step the stream's ratio is in range for 24 blocks, see "
        "post-ln-lower-tens-of-times.) All profiles are shown, and Pre-LN's beside them.",
        law=collapsed_gradient_law(
            "post-ln",
            "Before the first step a causal mask lets early tokens collect coherent gradients: the stream's gradient grows downwards, by too little at this depth. "
            "The first thing that is learned is the frequencies of bytes, the same for every token: tokens become alike, and a gradient that tells them apart falls "
            "block by block below the output.",
        ),
        cells=labelled(cold, warm, arms.pre),
        checks=(
            *(stream(warm, step) for step in warm.read[1:]),
            *(stream(cold, step) for step in EARLY),
            *(last_matrix(warm, step) for step in warm.read[1:]),
            *(last_matrix(cold, step) for step in EARLY),
        ),
        expected=REFUTED,
        assumptions=TRAINED,
        looks=sizes.looks,
        figures=(
            _streams(warm, "warm-stream"),
            _streams(cold, "cold-stream"),
            _streams(arms.pre, "pre-ln-stream"),
            _last_matrices(warm, "warm-matrices"),
            _groups(warm, "warm-groups"),
            _groups(cold, "cold-groups"),
        ),
        reported=(
            {
                "what": "lower over upper layers, Post-LN, first 1,000 steps",
                "source": "the review",
                "value": "tens of times",
                "ours": tuple(ours(stream(warm, step)) for step in warm.read),
                "note": f"squared stream gradient, with warm-up, after {', '.join(map(str, warm.read))} steps; no configuration given there",
            },
        ),
    )
