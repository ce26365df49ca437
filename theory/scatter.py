"""How single networks' gradients scatter around their mean: log|g|² to first order in 1/width."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from theory.errors import InvalidInput
from theory.stack import Profile

Array = np.ndarray


def log_gradient(profile: Profile) -> Iterator[tuple[Array, Array]]:
    """(mean, variance over networks) of log(|∂𝓛/∂x_l|²/d) at layers 0..L, each (tokens,).

    To first order E log X = log E X − ½ Var log X whatever the law; many blocks make it log-normal (Hanin & Nica 2019).

    Raises:
        InvalidInput: several streams, whose terms of order 1/width are not derived.
    """
    if profile.scatter is None:
        name = profile.configuration.variant.name
        raise InvalidInput(f"no scatter is derived for {name}: it has several streams, or the width is infinite (measure has it for any)")
    for moments, variance in zip(profile.backward, profile.scatter, strict=True):
        yield np.log(np.diagonal(moments["x", "x"])) - variance / 2, variance
