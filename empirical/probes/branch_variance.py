"""Variance over the width of what enters the sublayer."""

from torch import Tensor

from empirical.blocks import Step
from empirical.probes.base import Probe, by_layer, wide
from theory.algebra import Sublayer


def _variance(step: Step) -> Tensor:
    node = next(node for node in step.values if isinstance(node, Sublayer))
    return wide(step.values[node.argument]).var(dim=-1, correction=0).mean(dim=1)


PROBE = Probe("branch-variance", lambda seen: by_layer([_variance(step) for step in seen.network.last_steps]))
