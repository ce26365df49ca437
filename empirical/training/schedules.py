"""Learning rates step by step."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from theory.errors import InvalidInput

AFTER = ("constant", "inverse-square-root", "linear")


@dataclass(frozen=True)
class Schedule:
    """A linear warm-up to the peak rate, then constant or falling.

    Args:
        peak: largest rate.
        warmup: steps until it is reached; 0 starts with it.
        after: ``constant``; ``inverse-square-root`` for peak·√(warmup/step) (Vaswani et al. 2017, eq. 3); ``linear`` for a
            straight line that would reach 0 one step after the last.

    Raises:
        InvalidInput: a value out of range.
    """

    peak: float
    warmup: int = 0
    after: str = "constant"

    def __post_init__(self) -> None:
        if not 0 < self.peak < inf:
            raise InvalidInput(f"the peak rate is {self.peak}: it must be positive and finite")
        if self.warmup < 0:
            raise InvalidInput(f"warmup is {self.warmup}: give a number of steps, 0 for none")
        if self.after not in AFTER:
            raise InvalidInput(f"unknown schedule {self.after!r} after the warm-up: use {', '.join(AFTER)}")

    def rate(self, step: int, steps: int) -> float:
        """Of step number ``step``, the first being 1, out of ``steps``."""
        if step <= self.warmup:
            return self.peak * step / self.warmup
        if self.after == "linear":
            return self.peak * (steps + 1 - step) / (steps + 1 - max(self.warmup, 1))
        return self.peak if self.after == "constant" else self.peak * (max(self.warmup, 1) / step) ** 0.5
