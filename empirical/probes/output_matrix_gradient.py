"""Squared Frobenius norm of the gradient of each block's last output matrix."""

from torch import Tensor

from empirical.probes.base import Observation, Probe, by_layer, wide


def _read(seen: Observation) -> Tensor:
    # Matrices are drawn in order of application, so the block's last one is the output matrix.
    last = {key[0]: key for key in seen.tape.weights}
    return by_layer([wide(seen.tape.gradients[key]) for key in last.values()])


PROBE = Probe("output-matrix-gradient", _read)
