"""What the terms of first order in 1/width amount to, and what they leave out."""

from __future__ import annotations

import numpy as np

from theory.configuration import Configuration
from theory.prediction import mean_square
from theory.stack import SublayerStep, profile

Array = np.ndarray


def correction(configuration: Configuration) -> Array | None:
    """Logarithm of what the terms of order 1/width do to the squared stream gradient at infinite width, layers 0..L.

    None where they are not derived (several streams).
    """
    if len(configuration.variant.streams) > 1:
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


def singular_variance(configuration: Configuration, step: SublayerStep) -> float:
    """V, the variance of the normalised squared singular values of a single-stream, token-wise step.

    (2AB + B²(spread − 1))/(A + B)², A and B the two paths' squared gains.
    """
    form, gram = step.gradients.form("x"), step.gradients.gram
    upstream = float(gram[("∂", "x"), ("∂", "x")].mean())
    direct = float(np.mean(form.get(("∂", "x"), 0.0))) ** 2
    ((source, coefficient),) = [(source, value) for source, value in form.items() if source[0] == "J"]
    branch = float(np.mean(coefficient)) ** 2 * float(gram[source, source].mean()) / upstream
    first = step.weights.applied(step.maps.matrices[0].name, np.diagonal(step.entering))
    spread = step.maps.spread(float(first.mean()), configuration.expansion)
    assert spread is not None
    return (2 * direct * branch + branch**2 * (spread - 1)) / (direct + branch) ** 2
