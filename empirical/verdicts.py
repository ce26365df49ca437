"""Bands and verdicts: equivalence, not absence of significance."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from empirical.statistics import Estimate


class Verdict(StrEnum):
    """What a measurement says of a statement."""

    SUPPORTED = "supported"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"
    BY_CONDITION = "by condition"


@dataclass(frozen=True)
class Band:
    """Where a quantity lies if the statement holds; an end may be infinite.

    Args:
        low, high: the ends.
        reason: why it is that wide: the statement's own slack, or a named finite-size term.

    Raises:
        ValueError: empty, or without a reason.
    """

    low: float
    high: float
    reason: str

    def __post_init__(self) -> None:
        if not self.low < self.high or not self.reason.strip():
            raise ValueError(f"a band needs low < high and a reason, not [{self.low}, {self.high}] {self.reason!r}")


def judge(estimate: Estimate, band: Band) -> Verdict:
    """Supported when every component's interval lies in the band, refuted when one lies outside, else inconclusive.

    The intervals are simultaneous, so either verdict is wrong with at most the chance 1 − level. A component that
    is not finite leaves the claim inconclusive.
    """
    if not np.all(np.isfinite([estimate.low, estimate.high])):
        return Verdict.INCONCLUSIVE
    if np.any((estimate.high < band.low) | (estimate.low > band.high)):
        return Verdict.REFUTED
    if np.all((estimate.low >= band.low) & (estimate.high <= band.high)):
        return Verdict.SUPPORTED
    return Verdict.INCONCLUSIVE
