"""DeepNorm trained at a depth where Post-LN fails."""

from __future__ import annotations

from empirical.estimands import difference, learned_over, share_learned
from empirical.training import Schedule
from tests.claims.arms import TRAINED, YARDSTICKS, label, labelled, text_arm
from tests.claims.checks import lower
from tests.claims.declaration import SUPPORTED, Check, Claim, Ours, Profile, claim
from tests.claims.figures import learning_curves
from tests.claims.laws import step_law
from tests.claims.sources.warm_up import FAILED, FAILED_BESIDE
from tests.claims.texts import SECOND_HAND, WANG

THEIRS = {"Post-LN": "28.8, diverged, diverged", "DeepNorm": "28.8, 29.0, 28.9"}
"""BLEU on WMT17 En-De at 18-18, 50-50 and 100-100 layers."""


@claim
def deepnorm_trains_where_post_ln_fails(profile: Profile) -> Claim:
    """Supported: deeper and at a third of the rate of the warm-up claim, both with the same warm-up."""
    sizes = profile.training
    schedule = Schedule(sizes.rates[0] / 3, sizes.short_warmup)
    post, deep = (
        text_arm(profile, variant, schedule, sizes.deep, steps=sizes.short, profiled=()) for variant in ("post-ln", "deepnorm")
    )
    cells = (label(post), label(deep))
    return Claim(
        id="deepnorm-trains-where-post-ln-fails",
        group="training",
        title="DeepNorm trains at a depth where Post-LN fails with the same warm-up",
        statement="DeepNorm trains stacks so deep that Post-LN diverges.",
        source=WANG,
        reading=f"{sizes.deep} blocks, d = {sizes.width}, peak rate {schedule.peak:g}, {sizes.short_warmup} steps of warm-up, {sizes.short} steps on bytes of CPython's "
        "documentation. A network that does not diverge but learns nothing of the context counts as failed.",
        law=step_law(
            "deepnorm",
            "α² = (2L)^(1/2) keeps χ at 1 + O(L^(-1/2)) per sublayer, with tokens alike or not, where a Post-LN block halves the square of an incoherent gradient; "
            "the weights' β bounds the first steps' update.",
        ),
        cells=labelled(post, deep),
        checks=(
            Check(
                "learned by Post-LN, from unigrams (0) to bigrams (1)", share_learned(cells[0]), cells[:1], FAILED, "statement"
            ),
            Check("learned by Post-LN over DeepNorm", learned_over(*cells), cells, FAILED_BESIDE, "statement"),
            Check(
                "held-out loss, Post-LN less DeepNorm",
                difference(*cells, "final-loss"),
                cells,
                lower(
                    0.25,
                    "DeepNorm trains: more than a third of what reading the previous byte is worth (0.65 nats on the windows of the quick profile)",
                ),
                "statement",
                unit="nats",
            ),
        ),
        expected=SUPPORTED,
        assumptions=TRAINED,
        looks=sizes.looks,
        figures=(
            learning_curves(
                f"Text, {sizes.deep} blocks: held-out loss",
                labelled(post, deep),
                YARDSTICKS,
            ),
        ),
        reported=tuple(
            {
                "what": f"BLEU on WMT17 En-De at 18-18, 50-50 and 100-100 layers, {name}",
                "source": f"Wang et al. 2022, table, {SECOND_HAND}",
                "value": value,
                "ours": (Ours(share_learned(label(arm)), (label(arm),)),),
                "note": f"ours: how far {sizes.deep} blocks come from unigrams (0) to bigrams (1)",
            }
            for (name, value), arm in zip(THEIRS.items(), (post, deep), strict=True)
        ),
    )
