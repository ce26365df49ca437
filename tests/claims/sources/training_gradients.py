"""The review's claim on Post-LN's lower layers, along training."""

from __future__ import annotations

from empirical.estimands import log_ratio
from empirical.training import Arm, Schedule
from empirical.verdicts import Band
from tests.claims.arms import TRAINED, label, labelled, text_arm, text_arms
from tests.claims.declaration import BY_CONDITION, REFUTED, SUPPORTED, Check, Claim, Profile, claim
from tests.claims.figures import Figure, groups_along_training, layers_along_training
from tests.claims.laws import collapsed_gradient_law
from tests.claims.texts import REVIEW

STREAM, MATRICES = "stream-gradient", "parameter-gradient"
GROUPS = ("tokens", "positions", "attention", "norms", "FFN", "unembedding")
"""In the order in which a Post-LN network asks for its parameters."""
DEEP, SHORT = 24, 100
TENS = Band(10, 100, "tens of times: between ten and a hundred")


def _ratio(arm: Arm, what: str, quantity: str, step: int, first: int, expected: object) -> Check:
    name = f"{what} after {step} steps, {label(arm)}"
    statistic = log_ratio(label(arm), f"{quantity}@{step}", first, -1)
    return Check(name, statistic, (label(arm),), TENS, "statement", expected, logarithm=True)  # type: ignore[arg-type]


def stream(arm: Arm, step: int, expected: object) -> Check:
    """Squared stream gradient at the input of block 1 over the one at the output."""
    return _ratio(arm, "square at layer 0 over square at L", STREAM, step, 0, expected)


def last_matrix(arm: Arm, step: int, expected: object) -> Check:
    """Squared gradient of W₂ of the first block over the last block's."""
    names = arm.configuration.matrix_names
    return _ratio(arm, "square of W₂'s gradient, block 1 over block L", MATRICES, step, len(names) - 1, expected)


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


REPORTED = (
    {
        "what": "lower over upper layers, Post-LN, first 1,000 steps",
        "source": "the review",
        "value": "tens of times",
        "ours": "see the checks",
        "note": "no configuration given",
    },
)


@claim
def post_ln_lower_tens_of_times_in_training(profile: Profile) -> Claim:
    """By condition: of a deep causal model's stream before the first step; not of its parameters, and not once it has trained."""
    sizes = profile.training
    arms = text_arms(profile, sizes.rates[0])
    deep = text_arm(
        profile,
        "post-ln",
        Schedule(sizes.rates[0] / 3, sizes.warmup),
        DEEP,
        steps=SHORT,
        batch=sizes.batch // 2,
        evaluations=2,
        decided=(),
    )
    return Claim(
        id="post-ln-lower-tens-of-times-in-training",
        group="training",
        title="Post-LN's lower layers along training: tens of times larger at the start of a deep model, smaller soon after",
        statement="In the first 1,000 steps Post-LN's lower layers receive gradients tens of times larger than the upper ones.",
        source=REVIEW,
        reading=f"Squared gradients at the start and after {SHORT} steps, causal models of real text: of the stream, layer 0 over layer L, and of W₂, block 1 "
        f"over block L; {sizes.depth} blocks without and with warm-up, and {DEEP} blocks with warm-up, whose stream at the start is the case that "
        "post-ln-lower-tens-of-times finds in range. Profiles in between are shown, and Pre-LN's beside them.",
        law=collapsed_gradient_law(
            "post-ln",
            "At the start a causal mask lets early tokens collect coherent gradients, so the stream's gradient grows downwards with depth. The first thing "
            "that is learned is the frequencies of bytes, the same for every token: tokens become alike, and what still tells them apart falls block by block below "
            "the output.",
        ),
        cells=labelled(arms.post, arms.post_warm, arms.pre, deep),
        checks=(
            stream(deep, 0, SUPPORTED),
            stream(deep, SHORT, REFUTED),
            stream(arms.post, SHORT, REFUTED),
            stream(arms.post_warm, arms.post_warm.read[-1], REFUTED),
            last_matrix(deep, 0, REFUTED),
            last_matrix(deep, SHORT, REFUTED),
            last_matrix(arms.post, SHORT, REFUTED),
        ),
        expected=BY_CONDITION,
        assumptions=TRAINED,
        looks=sizes.looks,
        figures=(
            _streams(deep, "deep-stream"),
            _streams(arms.post_warm, "warm-stream"),
            _streams(arms.post, "cold-stream"),
            _streams(arms.pre, "pre-ln-stream"),
            _last_matrices(deep, "deep-matrices"),
            _last_matrices(arms.post_warm, "warm-matrices"),
            _groups(deep, "deep-groups"),
            _groups(arms.post_warm, "warm-groups"),
            _groups(arms.post, "cold-groups"),
        ),
        reported=REPORTED,
    )
