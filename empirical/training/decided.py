"""Rules that end a run early, once what is left of it would hardly change what it shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from empirical.training.arm import Arm

Rule = Callable[[Arm, Sequence[int], np.ndarray, float | None], np.ndarray]
"""(arm, steps evaluated so far, held-out losses (evaluations, members), unlearned loss) → which members are decided."""
NEAR = 0.05
"""Nats (or units of loss) below the unlearned loss within which nothing has been learned."""


def not_finite(arm: Arm, steps: Sequence[int], losses: np.ndarray, unlearned: float | None) -> np.ndarray:
    """The loss has become infinite or no number: it cannot return."""
    return np.logical_not(np.isfinite(losses[-1]))


def stuck(arm: Arm, steps: Sequence[int], losses: np.ndarray, unlearned: float | None) -> np.ndarray:
    """Two thirds are done, and for a third, behind the warm-up, the loss was no better than `NEAR` below the unlearned one.

    Sooner would be too soon: a plateau of a third of the steps from the start is sometimes left again.
    """
    since = steps[-1] - arm.steps / 3
    watched = [i for i, step in enumerate(steps) if step >= since]
    if unlearned is None or since < max(arm.schedule.warmup, arm.steps / 3) or len(watched) < 2:
        return np.zeros(losses.shape[1], dtype=bool)
    return np.all(losses[watched] > unlearned - NEAR, axis=0)


RULES: dict[str, Rule] = {"not-finite": not_finite, "stuck": stuck}
