"""Networks of the claims that train on the regression task: sizes, arms, and how far theory says that one step moves them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from empirical.statistics import Estimate
from empirical.training import Arm, Schedule
from tests.claims.declaration import Profile
from theory.configuration import Configuration
from theory.quantities import quantity
from theory.variants import load

Array = np.ndarray
DEFAULT_RATE = 1e-3
"""Adam's in torch."""
UNLEARNED = 1.0
"""Loss of predicting the mean."""
LATE = 4
"""Evaluations of ten that are averaged: at a constant rate one differs from the next by a fifth to a third."""
LARGEST_MOVE = 4.0
"""η·u at the largest stable rate of Post-LN, u its predicted update: what `training-stable-rate` measures, to a factor 2."""
SETTING = (
    "y = Σ a_i tanh⟨u_i, x⟩ of 8 inputs without noise; linear in, blocks of one GELU FFN with four hidden units a unit of width, linear out",
    "torch's defaults throughout, as a tutorial has them: matrices and biases of the blocks as nn.Linear draws them, Adam with β = (0.9, 0.999) "
    "at a constant rate, no warm-up, no clipping, batches of 128; with GELU, d = 64 and these branches the variance without norm is 6.1 after "
    "40 blocks, where the article has 6.05 (ReLU: 9.0), so its sweep is taken to be of such blocks",
    "both placements start from the same matrices and see the same batches, network by network; a loss above 1, or none, counts as 1",
)


@dataclass(frozen=True)
class Sizes:
    """How large the networks are, and how long they train.

    Attributes:
        depths: of the sweep, the deepest one where theory expects Post-LN to fail.
        equal: depth of the comparison of the norms.
        loops: uses of a looped block, few and many.
        stable: depths at which Post-LN's largest stable rate is looked for.
        others: further variants of which it is, `abreast` blocks deep.
        finer: steps of the grid of rates that make a factor 2.
        scanned: as ``looks``, of the largest stable rates: their scatter of a step of the grid takes a few more networks.
    """

    width: int
    depths: tuple[int, ...]
    steps: int
    looks: tuple[int, ...]
    equal: int
    loops: tuple[int, int]
    stable: tuple[int, ...]
    others: tuple[str, ...]
    finer: int
    abreast: int = 8
    scanned: tuple[int, ...] = (8, 32, 64)


_FULL = Sizes(
    width=64,
    depths=(2, 8, 16, 32, 64),
    steps=1200,
    looks=(5, 10, 20),
    equal=32,
    loops=(16, 32),
    stable=(4, 8, 16, 32),
    others=("keel", "deepnorm", "skipinit", "residual-only", "layernorm-scaling", "pre-ln", "mix-ln", "peri-ln"),
    finer=2,
)
SIZES = {
    "quick": Sizes(32, (2, 8, 32), 400, (5, 10, 20), 8, (16, 32), (4, 8, 16, 32), ("keel", "deepnorm", "pre-ln", "peri-ln"), 1),
    "full": _FULL,
    "gpu": _FULL,
}


def sizes_of(profile: Profile) -> Sizes:
    """Of a profile."""
    return SIZES[profile.name]


def network(variant: str, depth: int, width: int) -> Configuration:
    """Blocks of one GELU FFN on one token, drawn as nn.Linear does."""
    return Configuration(load(variant), ("gelu",), depth, width, 1, expansion=4, init="torch-linear")


@lru_cache
def move(variant: str, depth: int, width: int) -> float:
    """u: predicted root mean square change of the output by Adam's first step over the rate, of all weights of the blocks."""
    return float(quantity("adam-update").predicted(network(variant, depth, width))[0]) ** 0.5


def sweep_rate(sizes: Sizes) -> float:
    """Adam's default for the full sweep; in a smaller one the rate at which the deepest Post-LN network moves as far in its first step."""
    return DEFAULT_RATE * move("post-ln", _FULL.depths[-1], _FULL.width) / move("post-ln", sizes.depths[-1], sizes.width)


def regression_arm(profile: Profile, variant: str, depth: int, rate: float, **more: Any) -> Arm:
    """An arm; ``more`` as `Arm`. All have the profile's seed: they are compared network by network."""
    sizes = sizes_of(profile)
    usual = {"steps": sizes.steps, "batch": 128, "evaluations": 10, "held_out": 2048, "profiled": (), "betas": (0.9, 0.999)}
    return Arm(
        network(variant, depth, sizes.width),
        Schedule(rate),
        "regression",
        seed=profile.seed,
        **usual | more,  # type: ignore[arg-type]
    )


def bounded_loss(losses: Array) -> Array:
    """At most that of predicting the mean, which a network that diverged could do as well."""
    return np.where(np.isfinite(losses), np.minimum(losses, UNLEARNED), UNLEARNED)


def late_loss(losses: Array) -> Array:
    """Mean over the last `LATE` evaluations, (members, evaluations) → (members, 1)."""
    return bounded_loss(losses)[:, -LATE:].mean(axis=1, keepdims=True)


def points(label: str, x: Any, found: Estimate, group: str = "", logarithm: bool = True) -> dict[str, Any]:
    """A figure's series of an estimate (of logarithms, unless said otherwise)."""
    y, low, high = (np.exp(part) if logarithm else part for part in (found.value, found.low, found.high))
    series = {"label": label, "style": "measured", "x": list(x), "y": y.tolist(), "low": low.tolist(), "high": high.tolist()}
    return series | {"group": group or label}


def joined(series: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Series of equal labels as one."""
    found: dict[str, dict[str, Any]] = {}
    for one in series:
        known = found.setdefault(one["label"], one)
        if known is not one:
            for axis in ("x", "y", "low", "high"):
                known[axis] = known[axis] + one[axis]
    return list(found.values())
