"""The named finite-size term of a band: how far a finite width may move a mean squared gradient from its law.

With J = a·1 + b·J_F the Jacobian of a step and V the variance of its normalised squared singular values, a critical
Post-LN stack of linear sublayers under RMSNorm has E G(m) = (1 + V/d)^m instead of 1. V is known here for token-wise
sublayers: a²b²κ² twice, and b⁴ times the spread of J_F. Other terms of order 1/d (the fluctuating length of the stream,
the norm's projection) are of the same size and not derived here, so the allowance is twice Σ V/d.
"""

from __future__ import annotations

import numpy as np

from theory.algebra import Sublayer
from theory.configuration import Configuration
from theory.prediction import SublayerStep, profile

Array = np.ndarray


def allowance(configuration: Configuration) -> Array | None:
    """Relative allowance 2 Σ_{j ≥ l} V_j/d on the squared gradient, layers 0..L; None where V is not known.

    V is known for one stream and token-wise sublayers.
    """
    if not configuration.tokenwise or len(configuration.variant.streams) > 1:
        return None
    blocks = [
        sum(step_variance(configuration, step) for step in block) for block in profile(configuration, 1).blocks
    ]
    below_output = np.concatenate([np.cumsum(blocks[::-1])[::-1], [0.0]])
    return 2 * below_output / configuration.width


def step_variance(configuration: Configuration, step: SublayerStep) -> float:
    """V of one single-stream, token-wise step: (2AB + B²(spread − 1))/(A + B)², A and B the squared gains of the two paths."""
    form, gram = step.gradients.form("x"), step.gradients.gram
    upstream = float(gram[("∂", "x"), ("∂", "x")].mean())
    direct = float(np.mean(form.get(("∂", "x"), 0.0))) ** 2
    (node,) = [node for node in step.walk.order if isinstance(node, Sublayer)]
    source = ("J", node)
    branch = float(np.mean(form[source])) ** 2 * float(gram[source, source].mean()) / upstream
    first = configuration.variances(step.maps)[step.maps.matrices[0].name]
    spread = step.maps.spread(first * float(step.walk.moments[node.argument].mean()), configuration.expansion)
    assert spread is not None
    return (2 * direct * branch + branch**2 * (spread - 1)) / (direct + branch) ** 2
