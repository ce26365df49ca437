"""What RMSNorm costs beside LayerNorm: operations by count, times as a benchmark that no verdict hangs on."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from empirical.estimands import log_ratio
from empirical.norm_costs import layer_norm, operations, rms_norm, times, torch_layer_norm, torch_rms_norm
from empirical.statistics import median_interval
from tests.claims.checks import upper
from tests.claims.declaration import SUPPORTED, Check, Claim, Profile, claim
from tests.claims.figures import LEVEL, Values
from tests.claims.texts import ARTICLE

SHAPES = ((2048, 64), (2048, 256), (512, 1024))
"""(tokens, width)."""
REPETITIONS = 40
COUNTS, TIMES = "operations", "times"
BY_HAND, BY_TORCH = "out of elementary operations", "torch's own"
HALVES = (
    (BY_HAND, {"LayerNorm": layer_norm, "RMSNorm": rms_norm}),
    (BY_TORCH, {"LayerNorm": torch_layer_norm, "RMSNorm": torch_rms_norm}),
)


def counted(members: int) -> dict[str, np.ndarray]:
    """Operations per element, rows LayerNorm and RMSNorm; the same every time."""
    rows = np.array([operations(norm, 64, 64) for norm in (layer_norm, rms_norm)]).T
    return {name: np.tile(row, (members, 1)) for name, row in zip(("forward", "forward and backward"), rows, strict=True)}


@cache
def timed(members: int) -> dict[str, np.ndarray]:
    """Time of RMSNorm over LayerNorm's in the same turn, (members, shapes), one member a turn."""
    norms = {f"{norm}, {whose}": function for whose, both in HALVES for norm, function in both.items()}
    by_shape = [times(norms, *shape, members) for shape in SHAPES]
    return {
        whose: np.stack([found[f"RMSNorm, {whose}"] / found[f"LayerNorm, {whose}"] for found in by_shape], axis=1)
        for whose, _ in HALVES
    }


def _figure(values: Values) -> dict[str, Any]:
    series = []
    for whose, _ in HALVES:
        found = median_interval(values[TIMES][whose], LEVEL)
        ends = {"y": found.value.tolist(), "low": found.low.tolist(), "high": found.high.tolist()}
        series.append({"label": whose, "style": "measured", "x": [width for _, width in SHAPES], "group": whose} | ends)
    equal = {"label": "equal", "style": "statement", "x": [SHAPES[0][1], SHAPES[-1][1]], "y": [1.0, 1.0]}
    return {
        "name": "times",
        "title": "Processor time of RMSNorm over LayerNorm, forward and backward",
        "xlabel": "width",
        "ylabel": "median ratio",
        "xscale": "log",
        "yscale": "log",
        "series": [*series, equal],
    }


@claim
def rms_cheaper(profile: Profile) -> Claim:
    """Supported by count; times are printed and depend on who wrote which kernel."""

    def fewer(what: str, predicted: float | None) -> Check:
        return Check(
            f"operations per element, RMSNorm over LayerNorm, {what}",
            log_ratio(COUNTS, what, 1, 0),
            (COUNTS,),
            upper(1.0, "cheaper: fewer operations"),
            "statement",
            predicted=predicted,
            logarithm=True,
        )

    return Claim(
        id="rms-cheaper",
        group="training",
        title="RMSNorm takes fewer operations than LayerNorm; whether it takes less time depends on the kernel",
        statement="RMSNorm costs less than LayerNorm.",
        source=ARTICLE + "; the review says so too",
        reading="Operations on elements, counted while both run out of elementary operations. Processor times are a benchmark, not a test: ratios of the two "
        "norms' times in the same turn, medians over turns with intervals, in the figure and the table below it. A fused LayerNorm beside an "
        "RMSNorm that is not (torch 2.13 on a processor) turns the ratio over.",
        law={
            "latex": r"\frac{\text{square, mean, scale, gain}}{\text{mean, centre, square, mean, scale, gain, bias}} = \frac{4}{7}",
            "text": "Without centring one reduction and one pass go, without a bias another pass, and their backward passes with them.",
        },
        cells={COUNTS: counted, TIMES: timed},
        checks=(fewer("forward", 4 / 7), fewer("forward and backward", None)),
        expected=SUPPORTED,
        assumptions=("float32, 64 to 1024 coordinates, on the processor, one thread or as many as torch takes",),
        looks=(REPETITIONS,),
        figures=(_figure,),
    )
