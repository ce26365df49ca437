"""V, the variance of a step's squared singular values over their mean, at infinite width."""

from __future__ import annotations

import numpy as np

from theory.configuration import Configuration
from theory.stack import SublayerStep


def path_gains(step: SublayerStep) -> tuple[float, float]:
    """Squared gains (A, B) of the direct path and of the branch of a single-stream step.

    On average over tokens; where the sublayer mixes them, of a gradient that all tokens share.
    """

    def square(moments: np.ndarray) -> float:
        return float(np.diagonal(moments).mean() if step.maps.tokenwise else moments.sum())

    form, gram = step.gradients.form("x"), step.gradients.gram
    ((source, coefficient),) = [(source, value) for source, value in form.items() if source[0] == "J"]
    direct = float(np.mean(form.get(("∂", "x"), 0.0))) ** 2
    return direct, float(np.mean(coefficient)) ** 2 * square(gram[source, source]) / square(gram[("∂", "x"), ("∂", "x")])


def singular_variance(configuration: Configuration, step: SublayerStep) -> float:
    """V of a single-stream step: (2AB + B²(spread − 1))/(A + B)², A and B the two paths' squared gains.

    For attention it is V where tokens are alike, when W_O W_V is all that is left of it, acting on what they share.
    """
    direct, branch = path_gains(step)
    spread = step.maps.spread(step.pre_activation, configuration.expansion)
    return (2 * direct * branch + branch**2 * (spread - 1)) / (direct + branch) ** 2
