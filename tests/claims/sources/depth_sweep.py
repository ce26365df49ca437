"""Claims of the article on depth: Post-LN and Pre-LN after equal steps, the two norms, and one block applied again and again."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from empirical.corpora.regression import regression
from empirical.estimands import log_reading, log_relative_ratio
from empirical.statistics import estimate
from empirical.training.decided import NEAR
from empirical.verdicts import Band, Verdict
from tests.claims.checks import lower, upper
from tests.claims.declaration import BY_CONDITION, REFUTED, SUPPORTED, Check, Claim, Ours, Profile, claim
from tests.claims.figures import LEVEL, Values, learning_curves
from tests.claims.laws import gradient_law
from tests.claims.regression import (
    DEFAULT_RATE,
    LARGEST_MOVE,
    SETTING,
    UNLEARNED,
    joined,
    late_loss,
    move,
    network,
    points,
    regression_arm,
    sizes_of,
    sweep_rate,
)
from tests.claims.texts import ARTICLE, UNPUBLISHED
from tests.claims.together import Readings, Together
from theory.quantities import quantity

PLACEMENTS = ("post-ln", "pre-ln")
REPORTED = {
    "pre-ln": {2: 0.0032, 8: 0.0032, 16: 0.0036, 32: 0.0045, 64: 0.0062},
    "post-ln": {2: 0.0033, 8: 0.0037, 16: 0.0041, 32: 0.0053, 64: 0.0706},
}
EQUAL = Band(0.8, 1.25, "the margin of bioequivalence studies, a fifth either way; the article's own two figures differ by 5 %")
ALIKE = Band(0.8, 1.25, "equal, as the article's figures are at this depth (ratio 1.03): a fifth either way")


def pair(profile: Profile, variants: tuple[str, str], depth: int) -> Together:
    """Two variants at one depth; quantities are their late losses."""
    rate = sweep_rate(sizes_of(profile))
    arms = {variant: regression_arm(profile, variant, depth, rate) for variant in variants}

    def read(trained: Mapping[str, Readings]) -> Readings:
        return {variant: late_loss(trained[variant]["held-out-loss"]) for variant in variants}

    return Together(arms, read)


def log_loss_ratio(cell: str, above: str, below: str) -> Any:
    """Logarithm of the ratio of two mean losses."""
    return log_relative_ratio(cell, above, below, np.ones(1))


def _loss(cell: str, variant: str) -> Ours:
    return Ours(log_reading(cell, variant, 0), (cell,), logarithm=True)


def _label(depth: int) -> str:
    return f"L={depth}"


def _check(depth: int, what: str, band: Band, expected: Verdict = SUPPORTED) -> Check:
    name, ratio = f"loss of Post-LN over Pre-LN, {_label(depth)}: {what}", log_loss_ratio(_label(depth), *PLACEMENTS)
    return Check(name, ratio, (_label(depth),), band, "statement", expected, logarithm=True)


def alike(depth: int) -> Check:
    """Whether the two are equal, as the article prints."""
    return _check(depth, "equal", ALIKE, REFUTED)


def depth_check(profile: Profile, depth: int) -> Check | None:
    """What the statement says of a depth; nothing between the two regimes."""
    sizes = sizes_of(profile)
    moved = sweep_rate(sizes) * move("post-ln", depth, sizes.width)
    where = f"Post-LN's first step moves the output by η·u = {moved:.2f} of its size"
    if moved < LARGEST_MOVE / 2:
        reason = f"{where}, less than half of the {LARGEST_MOVE:g} it bears: no worse than Pre-LN, to a quarter"
        return _check(depth, "no worse", upper(1.25, reason))
    if moved > 1.5 * LARGEST_MOVE:
        reason = f"{where}, more than the {LARGEST_MOVE:g} it bears: several times worse (the article: 11)"
        return _check(depth, "several times worse", lower(3.0, reason))
    return None


def _losses(depths: tuple[int, ...], where: str, values: Values) -> dict[str, Any]:
    series: list[dict[str, Any]] = []
    for variant in PLACEMENTS:
        found = [estimate(log_reading(_label(d), variant, 0), {_label(d): values[_label(d)]}, LEVEL) for d in depths]
        series += [points(variant, [d], one, variant) for d, one in zip(depths, found, strict=True)]
        theirs = REPORTED[variant]
        series.append({"label": f"{variant}: the article", "style": "reported", "x": list(theirs), "y": list(theirs.values())})
        series[-1]["group"] = variant
    return _axes("losses", f"Loss after equal steps ({where})", "held-out loss") | {"series": joined(series)}


def _ratios(depths: tuple[int, ...], where: str, values: Values) -> dict[str, Any]:
    found = [estimate(log_loss_ratio(_label(d), *PLACEMENTS), {_label(d): values[_label(d)]}, LEVEL) for d in depths]
    series = joined([points("here", [d], one) for d, one in zip(depths, found, strict=True)])
    theirs = {depth: REPORTED["post-ln"][depth] / REPORTED["pre-ln"][depth] for depth in REPORTED["pre-ln"]}
    series.append({"label": "the article", "style": "reported", "x": list(theirs), "y": list(theirs.values()), "group": "here"})
    series.append({"label": "equal", "style": "statement", "x": [2, 64], "y": [1.0, 1.0]})
    return _axes("ratios", f"Loss of Post-LN over Pre-LN ({where})", "ratio") | {"series": series}


def _axes(name: str, title: str, ylabel: str) -> dict[str, Any]:
    return {"name": name, "title": title, "xlabel": "depth L", "ylabel": ylabel, "xscale": "log", "yscale": "log"}


@claim
def depth_sweep(profile: Profile) -> Claim:
    """By condition: better when shallow and not equal, no worse where the first step's move is small, far worse where it is large."""
    sizes = sizes_of(profile)
    depths, rate = sizes.depths, sweep_rate(sizes)
    where = f"here d = {sizes.width}, rate {rate:.2g}"
    moves = ", ".join(f"{rate * move('post-ln', d, sizes.width):.2f}" for d in depths)
    return Claim(
        id="depth-sweep",
        group="training",
        title="After equal steps Post-LN is better than Pre-LN when shallow, and fails when deep",
        statement="Loss after equal steps at depths 2, 8, 16, 32, 64: Pre-LN 0.0032, 0.0032, 0.0036, 0.0045, 0.0062; "
        "Post-LN 0.0033, 0.0037, 0.0041, 0.0053, 0.0706.",
        source=ARTICLE,
        reading=f"Ratio of the mean held-out losses in the last third of {sizes.steps} steps of Adam at a constant rate {rate:.3g}, d = {sizes.width}. Where theory "
        "calls the network shallow Post-LN has to be no worse, where it calls it deep three times worse. Equal they are not: two blocks of Post-LN come "
        "further in as many steps. No law of ours says so (the first step moves both as far); it was seen with one base seed and is expected since. "
        "With an irreducible loss of the size of the article's own, 0.003, the two would look more alike than they are.",
        law={
            "latex": r"\eta\,u_L \lessgtr 4,\qquad u_L^2 = E|\delta y|^2/(d\,\eta^2)",
            "text": "Post-LN fails where its first step moves the output by more than it bears: u is the predicted update of the quantity "
            f"adam-update, what it bears is measured by training-stable-rate on other networks. Here η·u is {moves} at depths "
            f"{', '.join(map(str, depths))}.",
        },
        cells={_label(depth): pair(profile, PLACEMENTS, depth) for depth in depths},
        checks=(alike(depths[0]), *(check for depth in depths if (check := depth_check(profile, depth)))),
        expected=BY_CONDITION,
        assumptions=SETTING,
        looks=sizes.looks,
        figures=(partial(_losses, depths, where), partial(_ratios, depths, where)),
        reported=tuple(
            {
                "what": f"loss at depths {', '.join(map(str, REPORTED[variant]))}, {variant}",
                "source": "the article",
                "value": ", ".join(f"{loss:.4f}" for loss in REPORTED[variant].values()),
                "ours": tuple(_loss(_label(depth), variant) for depth in depths),
                "note": f"ours at depths {', '.join(map(str, depths))}; {UNPUBLISHED}",
            }
            for variant in PLACEMENTS
        ),
    )


@claim
def rms_equals_layer(profile: Profile) -> Claim:
    """Supported: the mean that LayerNorm takes away is one coordinate of d."""
    sizes = sizes_of(profile)
    norms, cell = ("pre-rmsnorm", "pre-ln"), _label(sizes.equal)
    return Claim(
        id="rms-equals-layer",
        group="training",
        title="RMSNorm and LayerNorm come to the same loss",
        statement="At depth 32 LayerNorm ends at 0.0045, RMSNorm at 0.0043: no difference.",
        source=ARTICLE,
        reading=f"Ratio of the mean held-out losses, in the last third of the steps, of Pre-LN stacks of {sizes.equal} blocks, RMSNorm over LayerNorm, network by network from the "
        "same matrices and batches; an equivalence test: the whole interval has to lie within a fifth either way.",
        law={
            "latex": r"\mathrm{LN}(x) = \mathrm{RMS}\left(x - \tfrac1d\textstyle\sum_i x_i\right)",
            "text": "The two differ by the mean, one of d directions: a share 1/d of the stream, so the same laws hold for both at leading order.",
        },
        cells={cell: pair(profile, norms, sizes.equal)},
        checks=(
            Check("loss of RMSNorm over LayerNorm", log_loss_ratio(cell, *norms), (cell,), EQUAL, "statement", logarithm=True),
        ),
        expected=SUPPORTED,
        assumptions=SETTING,
        looks=(10, 40),
        figures=(partial(_norms, cell, sizes.equal),),
        reported=(
            {
                "what": "loss at depth 32, LayerNorm and RMSNorm",
                "source": "the article",
                "value": "0.0045, 0.0043",
                "ours": tuple(_loss(cell, variant) for variant in reversed(norms)),
                "note": f"ours at depth {sizes.equal}; {UNPUBLISHED}",
            },
        ),
    )


def _norms(cell: str, depth: int, values: Values) -> dict[str, Any]:
    series: list[dict[str, Any]] = []
    for place, (variant, theirs) in enumerate((("pre-ln", 0.0045), ("pre-rmsnorm", 0.0043)), 1):
        losses = values[cell][variant][:, 0]
        x = (place + np.linspace(-0.15, 0.15, len(losses))).tolist()
        series.append({"label": f"{variant}, each network", "style": "measured", "x": x, "y": losses.tolist(), "group": variant})
        series[-1] |= {"low": losses.tolist(), "high": losses.tolist()}
        series.append({"label": f"{variant}: the article", "style": "reported", "x": [place], "y": [theirs], "group": variant})
    axes = {"xlabel": "norm: 1 LayerNorm, 2 RMSNorm", "ylabel": "held-out loss", "xscale": "linear", "yscale": "log"}
    return {"name": "norms", "title": f"Pre-LN of {depth} blocks: losses with either norm", "series": series} | axes


@claim
def looped_blocks_trained(profile: Profile) -> Claim:
    """By condition: without a shortcut nothing gets through the loops; without a norm too much does, once they are many."""
    sizes, bare, shortcut, normed = sizes_of(profile), "looped-no-residual", "looped-residual", "looped-pre-ln"
    few, many = sizes.loops
    arms = {
        _used(name, uses): regression_arm(profile, name, uses, DEFAULT_RATE)
        for name, uses in ((bare, many), (normed, many), (shortcut, few), (shortcut, many))
    }
    kept = quantity("stream-gradient").predicted(network(bare, many, sizes.width))
    size = {uses: quantity("stream-moment").predicted(network(shortcut, uses, sizes.width))[-1] for uses in sizes.loops}
    linear = regression().linear_loss
    learns = upper(linear, f"learns: better than the best linear map, whose loss is {linear:.4f}")
    stuck = lower(UNLEARNED - NEAR, f"learns nothing: within {NEAR} of predicting the mean, which costs 1")

    def check(name: str, uses: int, band: Band, expected: Verdict = SUPPORTED) -> Check:
        cell = _used(name, uses)
        return Check(
            f"held-out loss, {cell}", log_reading(cell, "final-loss", 0), (cell,), band, "statement", expected, logarithm=True
        )

    return Claim(
        id="looped-blocks-trained",
        group="training",
        title=f"One block applied {many} times learns with a shortcut and a norm, and nothing without a shortcut",
        statement="The shortcut lets one block be applied again and again.",
        source=ARTICLE,
        reading=f"One GELU FFN, the same weights at every use, trained on the regression task at Adam's default rate for {sizes.steps} steps. Used {many} times it does "
        f"better than any linear map with shortcut and norm (Pre-LN), and no better than predicting the mean without a shortcut. The shortcut alone is enough for {few} uses, not for {many}.",
        law=gradient_law(
            "no-residual",
            f"Without a shortcut both the input's trace in the stream and the gradient fall by κ² = {kept[-2]:.3f} (squared) with every pass, by {kept[0] ** 0.5:.0e} over {many}: "
            "far below float32's resolution of the output and Adam's ε = 1e-8. The weights walk all the same, and κ with them: "
            "of a block used 16 times, 5 networks in 72 had found a way out by step 300. With a shortcut and no norm the output grows with the uses, to a square of "
            f"{size[few]:.0f} after {few} and {size[many]:.0f} after {many} (theory's stream moment), which is the loss that training starts from.",
        ),
        cells=arms,
        checks=(
            check(bare, many, stuck),
            check(normed, many, learns),
            check(shortcut, few, learns),
            check(shortcut, many, learns, REFUTED),
        ),
        expected=BY_CONDITION,
        assumptions=SETTING[:2],
        looks=(4, 16, 32),
        figures=(_loops(arms, linear),),
    )


def _used(name: str, uses: int) -> str:
    return f"{name}, {uses} uses"


def _loops(arms: Mapping[str, Any], linear: float) -> Any:
    curves = learning_curves("One block in a loop: held-out loss", arms, {"unlearned-loss": "predicting the mean"})

    def draw(values: Values) -> dict[str, Any]:
        figure = curves(values)
        steps = max(arm.steps for arm in arms.values())
        best = {"label": "best linear map", "style": "statement", "x": [0, steps], "y": [linear, linear]}
        return figure | {"series": [*figure["series"], best], "yscale": "log"}

    return draw
