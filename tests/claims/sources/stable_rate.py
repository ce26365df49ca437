"""Why some placements fail to train: the first step's update, predicted, against the largest rate that a network bears."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from empirical.corpora.regression import regression
from empirical.estimands import log_ratio, log_reading, log_relative, minus, slope_on
from empirical.statistics import Statistic, estimate
from empirical.training import Arm
from empirical.verdicts import Band
from tests.claims.arms import FIRST
from tests.claims.declaration import BY_CONDITION, REFUTED, Check, Claim, Profile, claim
from tests.claims.figures import LEVEL, Values
from tests.claims.regression import LARGEST_MOVE, SETTING, Sizes, joined, move, points, regression_arm, sizes_of
from tests.claims.texts import WANG
from tests.claims.together import Readings, Together

Array = np.ndarray
CELL, RATE, UPDATE = "networks", "largest-rate", "first-block-update"
TOP, BOTTOM = 0.512, 0.0005
"""Ends of the grid of rates."""
STEPS, BATCH = 120, 64


@dataclass(frozen=True)
class Network:
    """A variant at a depth."""

    variant: str
    depth: int

    def __str__(self) -> str:
        return f"{self.variant}, L={self.depth}"


def networks(sizes: Sizes) -> tuple[Network, ...]:
    """Post-LN over depth first, then the others."""
    return (*(Network("post-ln", d) for d in sizes.stable), *(Network(v, sizes.abreast) for v in sizes.others))


def grid(finer: int) -> Array:
    """Rates from the top down, ``finer`` steps for a factor 2."""
    return TOP * 2.0 ** (-np.arange(finer * np.log2(TOP / BOTTOM) + 1e-9) / finer)


def scan(profile: Profile, sizes: Sizes) -> Together:
    """All networks; each is trained from the top of the grid down, until all its members have passed."""
    found, rates = networks(sizes), grid(sizes.finer)
    arms: dict[str, Arm] = {}
    for one in found:
        usual = {"steps": STEPS, "batch": BATCH, "evaluations": 6, "held_out": 1024}
        trial = partial(_arm, profile, one)
        arms |= {_name(one, rate): trial(rate, **usual) for rate in rates}
        arms[_name(one, FIRST)] = trial(FIRST, **usual | {"steps": 1, "evaluations": 1})

    def read(trained: Mapping[str, Readings]) -> Readings:
        with ThreadPoolExecutor(len(found)) as threads:  # networks side by side, rates one after the other
            largest = list(threads.map(lambda one: _largest(trained, one, rates), found))
        return {
            RATE: np.stack(largest, axis=1),
            UPDATE: np.concatenate([trained[_name(one, FIRST)]["first-block-update"] for one in found], axis=1),
        }

    return Together(arms, read)


def _largest(trained: Mapping[str, Readings], one: Network, rates: Array) -> Array:
    losses = ((rate, trained[_name(one, rate)]["final-loss"][:, 0]) for rate in rates)
    return largest_passing(losses, regression().linear_loss)


def largest_passing(trials: Iterable[tuple[float, Array]], threshold: float) -> Array:
    """Each member's largest rate whose loss is below the threshold, of (rate, losses of the members) from the largest rate down.

    No further trial is asked for once all have passed; a member that never does has no number.
    """
    largest: Array = np.array(np.nan)
    for rate, losses in trials:
        passed = losses < threshold  # a loss that is no number is not
        largest = np.where(np.isnan(largest) & passed, rate, largest)
        if not np.isnan(largest).any():
            break
    return largest


def _name(one: Network, rate: float) -> str:
    return f"{one}, rate {rate:.3g}"


def _arm(profile: Profile, one: Network, rate: float, **more: Any) -> Arm:
    return regression_arm(profile, one.variant, one.depth, rate, **more)


def predicted_moves(sizes: Sizes) -> Array:
    """u of every network."""
    return np.array([move(one.variant, one.depth, sizes.width) for one in networks(sizes)])


def constant_over(above: Network, below: Network, sizes: Sizes) -> Any:
    """Logarithm of (largest rate times predicted update) of one network over another's: 0 if one constant rules both."""
    found = networks(sizes)
    moves = move(below.variant, below.depth, sizes.width) / move(above.variant, above.depth, sizes.width)
    return minus(log_ratio(CELL, RATE, found.index(above), found.index(below)), float(np.log(moves)))


def checks_of(sizes: Sizes) -> tuple[Check, ...]:
    """The law along Post-LN's depths, the same law across variants, and theory's update against the measured one."""
    moves, post = predicted_moves(sizes), slice(0, len(sizes.stable))
    one = Band(0.5, 2.0, "one constant for both, to one step of the coarsest grid either way")
    beside = Network("post-ln", sizes.abreast)
    spread = float(np.log(2) / np.log(moves.max() / moves.min()))

    def across(variant: str) -> Check:
        statistic = constant_over(Network(variant, sizes.abreast), beside, sizes)
        name = f"largest rate times predicted update, {variant} over post-ln, L={sizes.abreast}"
        return Check(name, statistic, (CELL,), one, "statement", REFUTED, 1.0, logarithm=True)

    return (
        Check(
            "exponent of the largest stable rate in the predicted update, Post-LN over depth",
            slope_on(CELL, RATE, np.log(moves[post]), post),
            (CELL,),
            Band(-1.5, -0.5, "inverse: nearer to −1 than to any other whole number (no dependence, or an inverse square)"),
            "statement",
            predicted=-1.0,
        ),
        across("pre-ln"),
        across("deepnorm"),
        Check(
            "measured over predicted update (root mean square), every network",
            halved(log_relative(CELL, UPDATE, moves**2)),
            (CELL,),
            Band(
                BATCH**-0.5,
                1.0,
                "predicted for a batch of one; a batch of B examples moves each by at most that, and by 1/√B of it where their gradients "
                "have nothing in common",
            ),
            "law",
            logarithm=True,
        ),
        Check(
            "exponent of the measured in the predicted update, all networks",
            slope_on(CELL, UPDATE, np.log(moves), power=0.5),
            (CELL,),
            Band(
                1 - spread,
                1 + spread,
                "proportional; what a batch's gradients have in common may differ by a factor 2 over the range",
            ),
            "law",
            predicted=1.0,
        ),
    )


def halved(statistic: Statistic) -> Statistic:
    """On logarithms, a square root."""
    return lambda means: 0.5 * statistic(means)


def _against_update(sizes: Sizes, values: Values) -> dict[str, Any]:
    moves = predicted_moves(sizes)
    series = _by_variant(sizes, lambda row: log_reading(CELL, RATE, row), values, moves)
    ends = [float(moves.min()), float(moves.max())]
    line = {"label": "η·u = 4", "style": "law", "x": ends, "y": [LARGEST_MOVE / end for end in ends], "group": "law"}
    return {
        "name": "stable-rates",
        "title": f"Largest stable rate against the predicted first update (grid up to {TOP:g})",
        "xlabel": "predicted update u of the first Adam step, per unit of rate",
        "ylabel": "largest rate with a loss below the best linear map's",
        "xscale": "log",
        "yscale": "log",
        "series": [line, *series],
    }


def _measured_update(sizes: Sizes, values: Values) -> dict[str, Any]:
    moves = predicted_moves(sizes)
    series = _by_variant(sizes, lambda row: log_reading(CELL, UPDATE, row, 0.5), values, moves)
    ends = [float(moves.min()), float(moves.max())]
    line = {"label": "a batch of one (law)", "style": "law", "x": ends, "y": ends, "group": "law"}
    return {
        "name": "updates",
        "title": "First update of the output, measured against predicted",
        "xlabel": "predicted, per unit of rate",
        "ylabel": f"measured on a batch of {BATCH}",
        "xscale": "log",
        "yscale": "log",
        "series": [line, *series],
    }


def _by_variant(sizes: Sizes, statistic: Callable[[int], Statistic], values: Values, moves: Array) -> list[dict[str, Any]]:
    found = [points(one.variant, [moves[k]], estimate(statistic(k), values, LEVEL)) for k, one in enumerate(networks(sizes))]
    return joined(found)


@claim
def training_stable_rate(profile: Profile) -> Claim:
    """By condition: inverse along the depth of Post-LN, not across variants."""
    sizes = sizes_of(profile)
    depths = ", ".join(map(str, sizes.stable))
    return Claim(
        id="training-stable-rate",
        group="training",
        title="The largest stable rate is inverse to the first update along Post-LN's depth, not from variant to variant",
        statement='Exploding gradients "should not be the root cause of instability of Post-LN, while the scale of model update tends to account for '
        'it"; read: the larger the first update, the smaller the largest rate that a network bears.',
        source=WANG + ", section 3",
        reading=f"Largest rate of a grid ({sizes.finer} to a factor 2, from {TOP:g} down) at which {STEPS} steps of Adam at a constant rate end with a loss "
        f"below the best linear map's ({regression().linear_loss:.4f}), against the update u that theory predicts for the first step of the blocks; "
        f"d = {sizes.width}. Along Post-LN's depths {depths} the exponent is −1; across variants of {sizes.abreast} blocks one "
        "constant η·u would rule all. Two blocks are left out: their largest rate is as large as the weights, where no law of first order speaks.",
        law={
            "latex": r"\eta^* u_L = 	ext{const},\qquad u_L^2 = E|\delta y|^2/(d\,\eta^2)",
            "text": "To first order an update is harmless while η·u is of order one. That is a law of one step: behind a norm after the sum (Post-LN) a "
            "step that swells the branches takes the direct path's share, and with it the gradient below, for good; in Pre-LN the direct path "
            "keeps its coefficient 1, the stream grows by the step, and the next step is smaller in proportion, so far larger first updates "
            "are borne. DeepNorm's β makes the first update small, but Adam's steps do not shrink with the weights: after a few the "
            "weights are of the size of their moves, and only α is left.",
        },
        cells={CELL: scan(profile, sizes)},
        checks=checks_of(sizes),
        expected=BY_CONDITION,
        assumptions=(*SETTING[:1], *(line.replace("batches of 128", f"batches of {BATCH}") for line in SETTING[1:2])),
        looks=sizes.scanned,
        figures=(partial(_against_update, sizes), partial(_measured_update, sizes)),
    )
