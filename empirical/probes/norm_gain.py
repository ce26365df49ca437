"""Length after over length before a block's last norm."""

import torch
from torch import Tensor

from empirical.blocks import Step
from empirical.probes.base import Probe, by_layer, wide
from theory.algebra import Norm


def _gain(step: Step) -> Tensor:
    norms = [node for node in step.values if isinstance(node, Norm)]
    if not norms:
        return torch.ones(len(step.before["x"]), dtype=torch.float64)
    before, after = wide(step.values[norms[-1].argument]), wide(step.values[norms[-1]])
    return (after.norm(dim=-1) / before.norm(dim=-1)).mean(dim=1).cpu()


PROBE = Probe("norm-gain", lambda seen: by_layer([_gain(step) for step in seen.network.last_steps]), is_ratio=True)
