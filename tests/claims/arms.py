"""Arms of the training claims: sizes from the profile, seeds of their own."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from empirical.training import Arm, Schedule
from tests.claims.declaration import Profile
from theory.configuration import Configuration
from theory.variants import load

EVALUATIONS = 10
FIRST = 1e-5
"""Rate at which a first update is measured: far below the weights, so that it is of first order."""
YARDSTICKS = {"unlearned-loss": "unigrams", "bigram-loss": "bigrams"}
"""Losses of models that learn less, quantity → name in figures; translations have the first alone."""
TRAINED = (
    "weights independent N(0, 1/fan_in) at first, gains 1, biases 0; no dropout, no label smoothing",
    "Adam with β = (0.9, 0.98), rate constant behind a linear warm-up, no clipping; every network has its own weights and batches",
    "intervals over networks: Student's t with one degree of freedom less than there are networks",
)


def text_arm(profile: Profile, variant: str, schedule: Schedule, depth: int | None = None, **more: Any) -> Arm:
    """A causal decoder of attention and GELU that learns the profile's text; ``more`` as `Arm`."""
    return seeded(
        profile, Arm(_blocks(profile, variant, depth), schedule, f"text:{profile.training.text}", **_usual(profile) | more)
    )


def translation_arm(profile: Profile, variant: str, schedule: Schedule, **more: Any) -> Arm:
    """The profile's blocks, half of them encoder and half decoder, learn the profile's pairs; ``more`` as `Arm`."""
    blocks, task = _blocks(profile, variant, profile.training.depth // 2), f"translation:{profile.training.pairs}"
    return seeded(profile, Arm(blocks, schedule, task, **_usual(profile) | {"profiled": ()} | more))


def seeded(profile: Profile, arm: Arm) -> Arm:
    """With the base seed mixed with the label: arms are independent of each other."""
    return replace(arm, seed=(profile.seed << 32) + zlib.crc32(label(arm).encode()))


def label(arm: Arm) -> str:
    """Name of an arm in checks and figures."""
    warm = f"warm-up {arm.schedule.warmup}" if arm.schedule.warmup else "no warm-up"
    return f"{arm.configuration.variant.name}, {warm}, rate {arm.schedule.peak:g}, {arm.task}, L={arm.configuration.depth}"


def labelled(*arms: Arm) -> dict[str, Arm]:
    """The arms by label."""
    return {label(arm): arm for arm in arms}


def _blocks(profile: Profile, variant: str, depth: int | None) -> Configuration:
    sizes = profile.training
    return Configuration(load(variant), ("attention", "gelu"), depth or sizes.depth, sizes.width, sizes.tokens, sizes.heads, True)


def _usual(profile: Profile) -> dict[str, Any]:
    sizes = profile.training
    return {"steps": sizes.steps, "batch": sizes.batch, "dtype": sizes.dtype, "evaluations": EVALUATIONS, "held_out": 64}


@dataclass(frozen=True)
class Arms:
    """Post-LN and Pre-LN, each without and with a warm-up to one peak rate."""

    post: Arm
    post_warm: Arm
    pre: Arm
    pre_warm: Arm

    @property
    def cells(self) -> dict[str, Arm]:
        """The arms by label."""
        return labelled(self.post, self.post_warm, self.pre, self.pre_warm)


def text_arms(profile: Profile, rate: float) -> Arms:
    """On the profile's text."""
    return _four(profile, rate, text_arm)


def translation_arms(profile: Profile, rate: float) -> Arms:
    """On the profile's pairs."""
    return _four(profile, rate, translation_arm)


def _four(profile: Profile, rate: float, arm: Callable[[Profile, str, Schedule], Arm]) -> Arms:
    cold, warm = Schedule(rate), Schedule(rate, profile.training.warmup)
    return Arms(*(arm(profile, variant, schedule) for variant in ("post-ln", "pre-ln") for schedule in (cold, warm)))
