"""Squared change of the output per relative perturbation of the weights of the blocks above a layer.

With a unit Gaussian gradient v at the output, the mean over v and over perturbations of (v·δy)² is both E|δy|² and
δ² Σ_W Var(W) ‖∂(v·y)/∂W‖_F²: the pass that measures gradients measures the output's sensitivity too.
"""

from torch import Tensor

from empirical.probes.base import Observation, Probe, above_each_layer, wide


def _read(seen: Observation) -> Tensor:
    _, tokens, width = seen.network.output.shape
    parts = (
        (key[0], record.intended / record.fan_in / (tokens * width) * wide(seen.tape.gradients[key]))
        for key, record in seen.tape.weights.items()
    )
    return above_each_layer(len(seen.network.last_steps), parts)


PROBE = Probe("output-sensitivity", _read, may_vanish=True)
