"""One statement read in several ways: what each claim adds to the report's summary page, on a common ruler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from empirical.statistics import Statistic, estimate
from tests.claims.figures import LEVEL, Values
from tests.claims.sweeps import Sweep

Array = np.ndarray
Curve = Callable[[Values], list[dict[str, Any]]]
"""From measured values to series over m, the blocks up to the output: value at m over value at m = 1."""
GROWTH = "post-ln-growth"
"""The statement ∂𝓛/∂x_l = O(L − l + 1) · ∂𝓛/∂x_L."""


@dataclass(frozen=True)
class Summary:
    """A claim's line on a summary page.

    Args:
        key: of the page; claims that share it read one statement.
        reading: a few words that name this one.
        law: in a few words.
        curve: the claim's series.
    """

    key: str
    reading: str
    law: str
    curve: Curve

    def record(self, values: Values) -> dict[str, Any]:
        """The line for results.jsonl; without measured values it has no series."""
        series = self.curve(values) if values else []
        return {"key": self.key, "reading": self.reading, "law": self.law, "series": series}


def along_layers(reading: str, *sweeps: Sweep, quantity: str, law_to: int = 0) -> Curve:
    """A quantity below the output of each sweep's deepest network, m = L − l; the law goes on to ``law_to`` blocks at least."""

    def curve(values: Values) -> list[dict[str, Any]]:
        series = []
        for sweep in sweeps:
            depth = sweep.depths[-1]
            rows = depth - np.arange(1, depth + 1)
            deep = max(depth, law_to)
            law = sweep.predicted(quantity, deep)[deep - np.arange(1, deep + 1)]
            samples = {"own": {quantity: values[sweep.deepest][quantity][:, rows]}}
            found = estimate(_over_first(lambda means: means["own"][quantity]), samples, LEVEL)
            series += _series(f"{reading}, {sweep.name}", np.arange(1, deep + 1), law, np.arange(1, depth + 1), found)
        return series

    return curve


def excess_over_depths(reading: str, sweep: Sweep, quantity: str, row: int) -> Curve:
    """(Row over last row) − 1 at every depth, m = L − row; the first depth has to be row + 1."""
    if sweep.depths[0] != row + 1:
        raise ValueError(f"the first depth is {sweep.depths[0]}: the ruler starts at {row + 1}")

    def excess(means: Any) -> Array:
        ratios = [means[label][quantity][..., row] / means[label][quantity][..., -1] - 1 for _, label in sweep.labels]
        return np.stack(np.broadcast_arrays(*ratios), axis=-1)

    def curve(values: Values) -> list[dict[str, Any]]:
        law = excess({label: {quantity: sweep.predicted(quantity, depth)} for depth, label in sweep.labels})
        samples = {label: {quantity: values[label][quantity]} for label in sweep.names}
        found = estimate(_over_first(excess), samples, LEVEL)
        m = np.array(sweep.depths) - row
        return _series(f"{reading}, {sweep.name}", m, law, m, found)

    return curve


def _over_first(values: Callable[[Any], Array]) -> Statistic:
    def statistic(means: Any) -> Array:
        logarithm = np.log(values(means))
        return np.asarray(logarithm - logarithm[..., :1])

    return statistic


def _series(name: str, at: Array, law: Array, m: Array, found: Any) -> list[dict[str, Any]]:
    """The law ``at`` some m, over its first value, and what was found at others."""
    y, low, high = (np.exp(part).tolist() for part in (found.value, found.low, found.high))
    return [
        {"label": f"{name}: law", "style": "law", "x": at.tolist(), "y": (law / law[0]).tolist(), "group": name},
        {"label": f"{name}: measured", "style": "measured", "x": m.tolist(), "y": y, "low": low, "high": high, "group": name},
    ]
