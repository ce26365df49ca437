"""Variance over the width of what enters the sublayer."""

import numpy as np

from theory.prediction import Profile, Quantity


def _read(profile: Profile) -> list[float]:
    return [float(np.diagonal(block[-1].entering).mean()) for block in profile.blocks]


QUANTITY = Quantity(
    name="branch-variance",
    definition="variance over the width of what enters block l's last sublayer, mean over tokens",
    read=_read,
    first_layer=1,
)
