"""Claims of the review on training: who needs a warm-up, and what perplexity the two placements reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, log
from typing import Any

from empirical.estimands import difference, learned_over, log_reading, margin, minus, reading, share_learned
from empirical.training import Arm, Schedule
from empirical.verdicts import Band, Verdict
from tests.claims.arms import (
    EVALUATIONS,
    FIRST,
    TRAINED,
    YARDSTICKS,
    Arms,
    label,
    labelled,
    text_arm,
    text_arms,
    translation_arms,
)
from tests.claims.checks import lower, upper
from tests.claims.declaration import BY_CONDITION, REFUTED, SUPPORTED, Check, Claim, Ours, Profile, claim, ours
from tests.claims.figures import Figure, learning_curves, losses_against_rate, scores_by_arm
from tests.claims.texts import REVIEW, UNPUBLISHED

HALF_A_NAT = lower(
    0.5, "at least half a nat: most of what reading the previous byte is worth (0.65 nats on the windows of the quick profile)"
)
FAILED = Band(
    -inf,
    0.5,
    "failed: nearer to the loss of a model that ignores its input (0) than to that of one that reads the previous byte (1)",
)
FAILED_BESIDE = Band(
    -inf, 0.5, "failed: it learns less than half of what the arm learns that is to train, both counted from the unigram loss"
)
WORKS_BESIDE = lower(
    0.5, "trains: it learns at least half of what Post-LN learns with warm-up, both counted from the unigram loss"
)
HELPS = lower(0.0, "the arm that is said to fail is the worse one")
NO_WORSE = lower(0.0, "Pre-LN without warm-up does at least as well as Post-LN with it")
NEEDLESS = Band(-inf, 0.1, "Pre-LN needs none: going without costs at most 0.1 nats, a fifth of what it has to cost Post-LN")
BORNE = upper(
    1.5, "the deepest Post-LN stacks of training-stable-rate bear such moves (measured ones: 1.5 at 32 blocks, 2.4 at 4)"
)
TOO_FAR = lower(
    1.5, "further than the deepest Post-LN stacks of training-stable-rate bear (measured moves: 1.5 at 32 blocks, 2.4 at 4)"
)
NO_HIGHER = Band(0.0, 1.05, "similar or slightly lower: at most 5 % higher; how much lower it may be is not said")
WHY = (
    "No law of the outcome is derived. What theory has to say: Adam's first step moves every weight by the whole rate, however small its gradient; "
    "that makes a Post-LN network's tokens alike, after which attention adds variance without adding gradient and the gradient of what could tell the "
    "tokens apart again falls block by block below the output. Pre-LN's identity path has no such factor. "
    "So what counts is how far the first step moves the output; with attention theory does not predict it, and it is measured."
)


def named(arm: Arm) -> str:
    """In words."""
    placement = "Post-LN" if arm.configuration.variant.name == "post-ln" else "Pre-LN"
    return f"{placement} {'with' if arm.schedule.warmup else 'without'} warm-up"


def _at(arm: Arm) -> str:
    return f"{arm.task}, rate {arm.schedule.peak:g}"


def _loses(above: Arm, below: Arm, band: Band, expected: Verdict = SUPPORTED) -> Check:
    name = f"held-out loss, {named(above)} less {named(below)}, {_at(above)}"
    cells = (label(above), label(below))
    return Check(name, difference(*cells, "final-loss"), cells, band, "statement", expected, unit="nats")


def _moves(first: Arm, arm: Arm, band: Band) -> Check:
    name = f"first step of {named(arm)}: move of the output over its size, to first order, {_at(arm)}"
    move = minus(log_reading(label(first), "first-block-update", 0, 0.5), -log(arm.schedule.peak))
    return Check(name, move, (label(first),), band, "law", logarithm=True)


def _text_checks(fast: Arms, slow: Arms, first: Arm) -> tuple[Check, ...]:
    name = f"learned by {named(fast.post)}, from unigrams (0) to bigrams (1), {_at(fast.post)}"
    return (
        Check(name, share_learned(label(fast.post)), (label(fast.post),), FAILED, "statement"),
        _loses(fast.post, fast.post_warm, HALF_A_NAT),
        _loses(fast.post_warm, fast.pre, NO_WORSE),
        _loses(fast.pre, fast.pre_warm, NEEDLESS),
        _loses(slow.post, slow.post_warm, HALF_A_NAT, REFUTED),
        _moves(first, fast.post, TOO_FAR),
        _moves(first, slow.post, BORNE),
    )


def _translation_checks(profile: Profile, arms: Arms) -> tuple[Check, ...]:
    def beside(arm: Arm, band: Band) -> Check:
        name = f"learned by {named(arm)} over {named(arms.post_warm)}, {_at(arm)}"
        cells = label(arm), label(arms.post_warm)
        return Check(name, learned_over(*cells), cells, band, "statement")

    checks = beside(arms.pre, WORKS_BESIDE), _loses(arms.post, arms.pre, HELPS), _loses(arms.post, arms.post_warm, HELPS)
    return checks if profile.name == "quick" else (*checks, beside(arms.post, FAILED_BESIDE))


def _by_rate(groups: Sequence[Mapping[str, Arm]]) -> Figure:
    lines: dict[str, dict[str, Arm]] = {}
    for arms in groups:
        for name, arm in arms.items():
            lines.setdefault(named(arm), {})[name] = arm
    return losses_against_rate("Text: held-out loss at the end against the peak rate", lines, YARDSTICKS, "rates")


def _curves(arms: Mapping[str, Arm], what: str, file: str) -> Figure:
    rate = next(iter(arms.values())).schedule.peak
    title = f"{what}: held-out loss with and without warm-up, peak rate {rate:g}"
    return learning_curves(title, arms, YARDSTICKS, file)


def _reported(arms: Arms) -> tuple[dict[str, Any], ...]:
    def bleu(*of: Arm) -> tuple[Ours, ...]:
        return tuple(Ours(reading(label(arm), "bleu", 0), (label(arm),)) for arm in of)

    return (
        {
            "what": "BLEU on WMT14 En-De: Post-LN with warm-up, Pre-LN with, Pre-LN without",
            "source": "the review",
            "value": "27.3, 27.2, 27.0",
            "ours": bleu(arms.post_warm, arms.pre_warm, arms.pre),
            "note": f"{UNPUBLISHED}; small networks and a few hundred steps here, so that losses are judged",
        },
        {
            "what": "BLEU on IWSLT14 De-En: Post-LN without warm-up, with",
            "source": "Xiong et al. 2020, section 3.2",
            "value": "8.45, around 34",
            "ours": bleu(arms.post, arms.post_warm),
            "note": "6 + 6 layers, d = 512, Adam there",
        },
    )


@claim
def warm_up(profile: Profile) -> Claim:
    """By condition: Post-LN fails without warm-up at a rate that moves it too far, not at a smaller one; Pre-LN does not need it."""
    sizes = profile.training
    fast, *slower = (text_arms(profile, rate) for rate in sizes.rates)
    groups = [fast.cells, *(labelled(a.post, a.post_warm) if profile.name == "quick" else a.cells for a in slower)]
    first = text_arm(profile, "post-ln", Schedule(FIRST), steps=1, evaluations=1, profiled=())
    return Claim(
        id="warm-up",
        group="training",
        title=f"Post-LN needs a learning-rate warm-up at a peak rate of {sizes.rates[0]:g}, not at {sizes.rates[-1]:g}; Pre-LN needs none",
        statement="Without warm-up a Post-LN Transformer fails to train, with it it trains; a Pre-LN Transformer trains without.",
        source=REVIEW,
        reading=f"A causal decoder of {sizes.depth} blocks of attention and GELU, d = {sizes.width}, bytes of CPython's documentation, peak rate "
        f"{sizes.rates[0]:g}, {sizes.steps} steps, the first {sizes.warmup} of them warm-up or none. Loss on held-out documents; failure is "
        f"measured. At {sizes.rates[-1]:g} the statement says the same of Post-LN.",
        law={"text": WHY, "latex": ""},
        cells={name: arm for arms in groups for name, arm in arms.items()} | labelled(first),
        checks=_text_checks(fast, slower[-1], first),
        expected=BY_CONDITION,
        assumptions=TRAINED,
        looks=sizes.looks,
        figures=(
            *(_curves(arms, "Text", f"text-{rate:g}") for rate, arms in zip(sizes.rates, groups, strict=True)),
            _by_rate(groups),
        ),
    )


@claim
def warm_up_translation(profile: Profile) -> Claim:
    """Supported in kind: Post-LN is better with warm-up, and Pre-LN without it is better than Post-LN without."""
    sizes, arms = profile.training, translation_arms(profile, profile.training.rates[0])
    return Claim(
        id="warm-up-translation",
        group="training",
        title="Translation: without warm-up Pre-LN trains and Post-LN falls behind",
        statement="Translating, a Post-LN Transformer needs a warm-up; a Pre-LN Transformer trains as well without.",
        source=REVIEW,
        reading=f"{sizes.depth // 2} encoder and {sizes.depth // 2} decoder blocks of attention and GELU, d = {sizes.width}, messages of Django's catalogues "
        f"({sizes.pairs}), peak rate {sizes.rates[0]:g}, {sizes.steps} steps, the first {sizes.warmup} of them warm-up or none. In kind: who is better, by the loss "
        "on held-out sentences. Whether Post-LN fails outright is judged in the larger profiles: of a single language and in few steps so shallow a Post-LN network "
        "learns something without warm-up too, and one of twice the depth learns next to nothing with it.",
        law={"text": WHY, "latex": ""},
        cells=arms.cells,
        checks=_translation_checks(profile, arms),
        expected=SUPPORTED,
        assumptions=TRAINED,
        looks=sizes.looks,
        figures=(
            _curves(arms.cells, "Translation", "loss"),
            scores_by_arm("Translation: BLEU of held-out sentences (greedy, sacrebleu)", arms.cells, "bleu", "bleu"),
        ),
        reported=_reported(arms),
    )


@claim
def pre_ln_perplexity(profile: Profile) -> Claim:
    """Supported: lower than Post-LN's, and no divergence without warm-up."""
    sizes = profile.training
    text = text_arms(profile, sizes.rates[0])
    post = text.post_warm

    def ratio(arm: Arm) -> Check:
        cells = (label(arm), label(post))
        name = f"held-out perplexity, {named(arm)} over {named(post)}, {_at(arm)}"
        return Check(name, difference(*cells, "final-loss"), cells, NO_HIGHER, "statement", logarithm=True)

    below = Check(
        f"unigram loss less that of {named(text.pre)}, every evaluation behind the first fifth, {_at(text.pre)}",
        margin(label(text.pre), EVALUATIONS // 5 + 1),
        (label(text.pre),),
        lower(0.0, "no divergence: once learned, in the first fifth of the steps, the bytes' frequencies are not lost again"),
        "statement",
        unit="nats",
    )
    arms = labelled(post, text.pre, text.pre_warm)
    return Claim(
        id="pre-ln-perplexity",
        group="training",
        title="Pre-LN's perplexity is no higher than Post-LN's, with or without warm-up",
        statement="WikiText-103: Pre-LN's perplexity is similar to Post-LN's or slightly lower, and it does not diverge without warm-up.",
        source=REVIEW,
        reading=f"Per byte, {sizes.depth} blocks, d = {sizes.width}, after {sizes.steps} steps at a peak rate of {sizes.rates[0]:g}, on held-out documents "
        "of CPython's documentation; Post-LN has its warm-up.",
        law={"text": WHY, "latex": ""},
        cells=arms,
        checks=(ratio(text.pre), ratio(text.pre_warm), below),
        expected=SUPPORTED,
        assumptions=TRAINED,
        looks=sizes.looks,
        figures=(learning_curves("Text: held-out loss", arms, YARDSTICKS),),
        reported=(
            {
                "what": "perplexity on WikiText-103, Pre-LN against Post-LN",
                "source": "the review",
                "value": "similar or slightly lower",
                "ours": (ours(ratio(text.pre)), ours(ratio(text.pre_warm))),
                "note": "ratio, without warm-up and with; words or subwords and full training there, bytes and a few hundred steps here",
            },
        ),
    )
