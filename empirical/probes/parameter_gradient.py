"""Squared Frobenius norm of the gradient of each block's last output matrix."""

from torch import Tensor

from empirical.probes.base import Observation, Probe, by_layer, wide


def _read(seen: Observation) -> Tensor:
    last: dict[int, Tensor] = {}
    # Matrices are drawn in order of application, so the block's last one is the output matrix.
    for layer, index, matrix in seen.tape.weights:
        last[layer] = seen.tape.gradients[layer, index, matrix]
    return by_layer([wide(last[layer]) for layer in sorted(last)])


PROBE = Probe("parameter-gradient", _read)
