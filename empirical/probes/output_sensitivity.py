"""Squared change of the output per relative perturbation of the weights of the blocks above a layer.

With a unit Gaussian gradient v at the output, the mean over v and over perturbations of (v·δy)² is both E|δy|² and
δ² Σ_W Var(W) ‖∂(v·y)/∂W‖_F²: the pass that measures gradients measures the output's sensitivity too.
"""

import torch
from torch import Tensor

from empirical.probes.base import Observation, Probe, by_layer, wide


def _read(seen: Observation) -> Tensor:
    depth, (_, tokens, width) = len(seen.network.last_steps), seen.network.output.shape
    blocks = [torch.zeros(len(seen.network.output), dtype=torch.float64, device=seen.network.output.device)] * (depth + 1)
    for key, record in seen.tape.weights.items():
        share = record.intended / record.fan_in / (tokens * width)
        blocks[key[0] - 1] = blocks[key[0] - 1] + share * wide(seen.tape.gradients[key])
    return by_layer(blocks).flip(1).cumsum(1).flip(1)


PROBE = Probe("output-sensitivity", _read, may_vanish=True)
