"""The named finite-size terms of a band: how far a finite width may move a mean squared gradient from its law.

*Singular values.* With J = a·1 + b·J_F the Jacobian of a step and V the variance of its normalised squared singular
values, a critical Post-LN stack of linear sublayers under RMSNorm has E G(m) = (1 + V/d)^m instead of 1. Other terms of
order 1/d in the product (the norm's projection, gradients that remember the stream) are of the same size and not derived
here, so the allowance takes V twice.

*Length.* Where the read-out normalises a stream whose squared length fluctuates with relative variance v, the gradient
is divided by that length: E[1/q] = (1 + v)/q.
"""

from __future__ import annotations

import numpy as np

from theory.algebra import Norm, Stream, Sublayer, walk
from theory.configuration import Configuration
from theory.prediction import SublayerStep, profile
from theory.propagation import Walk

Array = np.ndarray


def allowance(configuration: Configuration) -> Array | None:
    """Relative allowance 2 Σ_{j ≥ l} V_j/d + v on the squared gradient, layers 0..L; None where V is not known.

    V and v are known for one stream and token-wise sublayers.
    """
    if not configuration.tokenwise or len(configuration.variant.streams) > 1:
        return None
    blocks = [sum(singular_variance(configuration, step) for step in block) for block in profile(configuration, 1).blocks]
    below_output = np.concatenate([np.cumsum(blocks[::-1])[::-1], [0.0]])
    normalised = any(isinstance(node, Norm) for node in walk(configuration.variant.read_out))
    return 2 * below_output / configuration.width + (length_variance(configuration) if normalised else 0.0)


def singular_variance(configuration: Configuration, step: SublayerStep) -> float:
    """V of a single-stream, token-wise step: (2AB + B²(spread − 1))/(A + B)², A and B the two paths' squared gains."""
    direct, branch = paths(step)
    _, variance = pre_activation(configuration, step)
    spread = step.maps.spread(variance, configuration.expansion)
    assert spread is not None
    return (2 * direct * branch + branch**2 * (spread - 1)) / (direct + branch) ** 2


def paths(step: SublayerStep) -> tuple[float, float]:
    """Squared gains (A, B) of the direct path and of the branch of a single-stream, token-wise step."""
    form, gram = step.gradients.form("x"), step.gradients.gram
    upstream = float(gram[("∂", "x"), ("∂", "x")].mean())
    (source,) = (("J", node) for node in step.walk.order if isinstance(node, Sublayer))
    direct = float(np.mean(form.get(("∂", "x"), 0.0))) ** 2
    return direct, float(np.mean(form[source])) ** 2 * float(gram[source, source].mean()) / upstream


def length_variance(configuration: Configuration) -> float:
    """Relative variance v of |x_L|² over networks, to first order in 1/width.

    A step x ↦ ax + bF adds (4AB + B²·spread)/(A + B)²/d, A and B the two terms' shares of the new length, and hands on
    what was there times the square of d log q'/d log q.
    """
    total = 2 / configuration.width  # a token of independent N(0, 1) coordinates
    for block in profile(configuration, 1).blocks:
        for step in block:
            target = dict(step.walk.targets)["x"]
            if isinstance(target, Norm):
                total = 0.0
                continue
            form, gram = step.walk.forms[target], step.walk.gram
            node, variance = pre_activation(configuration, step)
            before, added = float(step.walk.streams["x", "x"].mean()), float(gram[node, node].mean())
            direct = float(np.mean(form.get(Stream("x"), 0.0))) ** 2 * before
            branch = float(np.mean(form[node])) ** 2 * added
            spread = step.maps.length_spread(variance, configuration.expansion)
            assert spread is not None
            new = (4 * direct * branch + branch**2 * spread) / (direct + branch) ** 2 / configuration.width
            total = total * _sensitivity(step.walk) ** 2 + new
    return total


def pre_activation(configuration: Configuration, step: SublayerStep) -> tuple[Sublayer, float]:
    """The step's sublayer node and the variance of its first pre-activation."""
    (node,) = [node for node in step.walk.order if isinstance(node, Sublayer)]
    first = configuration.variances(step.maps)[step.maps.matrices[0].name]
    return node, first * float(step.walk.moments[node.argument].mean())


def _sensitivity(step: Walk) -> float:
    """d log q'/d log q by a central difference."""
    change = 1e-4
    moved = []
    for factor in (np.exp(change), np.exp(-change)):
        streams = {pair: factor * moment for pair, moment in step.streams.items()}
        moved.append(
            float(Walk(step.targets, streams, step.carrier, step.coefficient, step.sublayer).outgoing()["x", "x"].mean())
        )
    return float(np.log(moved[0] / moved[1])) / (2 * change)
