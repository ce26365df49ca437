"""Variance over the width of what enters the sublayer."""

import numpy as np

from theory.algebra import Sublayer
from theory.prediction import Profile, Quantity


def _read(profile: Profile) -> list[float]:
    values = []
    for block in profile.blocks:
        walk = block[-1].walk
        node = next(node for node in walk.order if isinstance(node, Sublayer))
        values.append(float(np.diagonal(walk.moments[node.argument]).mean()))
    return values


QUANTITY = Quantity(
    name="branch-variance",
    definition="variance over the width of what enters block l's last sublayer, mean over tokens",
    read=_read,
    first_layer=1,
)
