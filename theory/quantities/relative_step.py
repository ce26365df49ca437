"""How far a block moves the stream, relative to the stream."""

import numpy as np

from theory.algebra import Stream
from theory.prediction import Profile, Quantity


def _read(profile: Profile) -> list[float]:
    values = []
    for block in profile.blocks:
        walk = block[-1].walk
        stream = Stream("x")
        change = dict(walk.forms[dict(walk.targets)["x"]])
        change[stream] = change.get(stream, 0.0) - 1.0
        before = walk.moment({stream: 1.0})
        values.append(float((np.diagonal(walk.moment(change)) / np.diagonal(before)).mean()))
    return values


QUANTITY = Quantity(
    name="relative-step",
    definition="E[|x_l − x_{l-1}|²/|x_{l-1}|²] across block l's last sublayer",
    read=_read,
    first_layer=1,
)
