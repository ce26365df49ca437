"""Point estimates with intervals: jackknife standard errors, Student-t quantiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom
from scipy.stats import t as student

Array = np.ndarray
Samples = Mapping[str, Mapping[str, Array]]
"""Cell → quantity → readings of shape (members, rows)."""
Means = Mapping[str, Mapping[str, Array]]
"""Cell → quantity → means of shape (…, rows)."""
Statistic = Callable[[Means], Array]
"""From cell → quantity → means of shape (…, rows) to components of shape (…, k), a smooth function of the means."""


@dataclass(frozen=True)
class Estimate:
    """Components with simultaneous intervals, all arrays of shape (k,)."""

    value: Array
    low: Array
    high: Array
    level: float


def estimate(statistic: Statistic, samples: Samples, level: float = 0.99) -> Estimate:
    """Jackknife estimate of a function of means (Efron & Stein 1981).

    Members of one cell are independent draws of whole networks, cells are independent of each other; layers of one
    network may be as correlated as they like. The standard error is summed over cells from leave-one-out means, the
    interval is Student's with the smallest cell's degrees of freedom, Bonferroni over the components.

    Raises:
        ValueError: fewer than two members in a cell.
    """
    means = {cell: {name: v.mean(axis=0) for name, v in values.items()} for cell, values in samples.items()}
    value = np.atleast_1d(statistic(means))
    variance = np.zeros_like(value)
    smallest = min(len(v) for values in samples.values() for v in values.values())
    if smallest < 2:
        raise ValueError("an interval needs at least two members a cell")
    for cell, values in samples.items():
        left_out = {name: (v.sum(axis=0) - v) / (len(v) - 1) for name, v in values.items()}
        count = len(next(iter(values.values())))
        others = {c: {name: m[None] for name, m in names.items()} for c, names in means.items() if c != cell}
        replicates = np.broadcast_to(statistic({**others, cell: left_out}), (count, len(value)))
        spread = replicates - replicates.mean(axis=0)
        variance = variance + (count - 1) / count * (spread**2).sum(axis=0)
    quantile = student.ppf(1 - (1 - level) / (2 * len(value)), smallest - 1)
    half = quantile * np.sqrt(variance)
    return Estimate(value, value - half, value + half, level)


def mean_interval(readings: Array, level: float = 0.95) -> Estimate:
    """Mean over members of each row, with per-row (not simultaneous) intervals."""
    count = len(readings)
    value = readings.mean(axis=0)
    half = student.ppf((1 + level) / 2, count - 1) * readings.std(axis=0, ddof=1) / np.sqrt(count)
    return Estimate(value, value - half, value + half, level)


def median_interval(readings: Array, level: float = 0.95) -> Estimate:
    """Median over members of each row between two order statistics, with per-row intervals that hold for any distribution.

    Raises:
        ValueError: too few members for the level.
    """
    count = len(readings)
    below = int(binom.ppf((1 - level) / 2, count, 0.5)) - 1
    if below < 0:
        raise ValueError(f"the median of {count} readings has no interval at level {level}")
    ordered = np.sort(readings, axis=0)
    return Estimate(np.median(readings, axis=0), ordered[below], ordered[count - 1 - below], level)


def slope(x: Array, y: Array) -> Array:
    """Least-squares slope of y (…, k) against x (k,)."""
    centred = x - x.mean()
    return (y * centred).sum(axis=-1) / (centred**2).sum()


def extrapolate(x: Array, y: Array, at: float) -> Array:
    """Value at ``at`` of the least-squares line through y (…, k) over x (k,)."""
    return y.mean(axis=-1) + slope(x, y) * (at - x.mean())
