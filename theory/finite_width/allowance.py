"""What the terms of first order in 1/width amount to, and what they leave out."""

from __future__ import annotations

import numpy as np

from theory.configuration import Configuration
from theory.finite_width.paths import derived
from theory.prediction import mean_square
from theory.stack import profile

Array = np.ndarray


def correction(configuration: Configuration) -> Array | None:
    """Logarithm of what the terms of order 1/width do to the squared stream gradient at infinite width, layers 0..L.

    None where they are not derived.
    """
    if not derived(configuration.variant):
        return None
    tokens = 1 if configuration.tokenwise else configuration.tokens
    finite, infinite = (
        np.array([mean_square(moments) for moments in profile(configuration, tokens, infinite_width=limit).backward])
        for limit in (False, True)
    )
    return np.log(finite / infinite)


def allowance(configuration: Configuration) -> Array | None:
    """Relative size of the terms of order 1/width² on the squared stream gradient, layers 0..L; None as for `correction`.

    The expansion is in e = Σ V/d, the `correction`; what it leaves out is of relative size e² and 1/d.
    """
    first = correction(configuration)
    return None if first is None else first**2 + 1 / configuration.width
