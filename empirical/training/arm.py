"""One arm of a comparison: a network, what it learns, and how."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from empirical.measurement import DTYPES
from empirical.training.schedules import Schedule
from theory.configuration import Configuration
from theory.errors import InvalidInput

PROFILED = (0, 10, 100, 1000)
"""Steps after which gradients are read."""


@dataclass(frozen=True)
class Arm:
    """What is trained. Member m of an arm is drawn, and its batches are, from (seed, m).

    Args:
        configuration: the blocks.
        schedule: the learning rate.
        task: as `empirical.training.tasks.task`.
        steps: of the optimiser.
        batch: examples a step.
        evaluations: how many times the held-out loss is taken after the start, evenly spaced.
        held_out: examples that it is taken over, at most.
        profiled: steps after which gradients are read; those beyond ``steps`` are left out.
        seed: base seed.
        dtype: of the parameters; with ``bfloat16`` they are float32 and products run in bfloat16 (autocast).
        betas, epsilon: Adam's.
        clip: largest norm of a member's gradient; 0 for no limit.
        decided: names of the rules that end an arm early (`empirical.training.decided`).

    Raises:
        InvalidInput: a value out of range.
    """

    configuration: Configuration
    schedule: Schedule
    task: str = "text"
    steps: int = 400
    batch: int = 16
    evaluations: int = 20
    held_out: int = 64
    profiled: tuple[int, ...] = PROFILED
    seed: int = 0
    dtype: str = "float32"
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-8
    clip: float = 0.0
    decided: tuple[str, ...] = ("not-finite", "stuck")

    def __post_init__(self) -> None:
        for axis in ("steps", "batch", "evaluations", "held_out"):
            if getattr(self, axis) < 1:
                raise InvalidInput(f"{axis.replace('_', '-')} is {getattr(self, axis)}: it must be at least 1")
        if self.seed < 0:
            raise InvalidInput(f"seed is {self.seed}: it must be 0 or more")
        if self.dtype not in DTYPES:
            raise InvalidInput(f"unknown dtype {self.dtype!r}: use one of {', '.join(DTYPES)}")
        if not self.clip >= 0:
            raise InvalidInput(f"clip is {self.clip}: give the largest norm of a gradient, 0 for none")

    @property
    def evaluated(self) -> tuple[int, ...]:
        """Steps after which the held-out loss is taken, 0 among them."""
        times = min(self.evaluations, self.steps)
        return tuple(round(k * self.steps / times) for k in range(times + 1))

    @property
    def read(self) -> tuple[int, ...]:
        """Steps after which gradients are read."""
        return tuple(step for step in self.profiled if step <= self.steps)

    def describe(self) -> dict[str, Any]:
        """Everything as plain JSON values, the variant by its equation and initial gain too."""
        own = {name: value for name, value in vars(self).items() if name not in ("configuration", "schedule")}
        variant, depth = self.configuration.variant, self.configuration.depth
        law = {"variant": variant.name, "equation": variant.equation, "branch_gain": variant.branch_gain(depth)}
        return self.configuration.describe() | own | vars(self.schedule) | law

    @property
    def digest(self) -> str:
        """Of the description: tells one arm from another."""
        return sha256(json.dumps(self.describe(), sort_keys=True).encode()).hexdigest()
