"""Squared operator norm of the Jacobian from each layer to the output, by Lanczos's iteration on products."""

import torch
from torch import Tensor

from empirical.jacobians import Jacobians
from empirical.lanczos import largest_eigenvalue
from empirical.layers import KnownLinear, at_least_float
from empirical.probes.base import Observation, Probe

_BYTES = 300_000_000
_TENSORS = 24
"""Tensors of a stream's size that the graphs of one step hold, about."""


def _read(seen: Observation) -> Tensor:
    """Members and layers in portions that fit in memory; a member's reading does not depend on its portion."""
    layers, tokens, width = len(seen.gradients), *seen.gradients[0].shape[1:]
    step = tokens * width * 8 * _TENSORS * len(seen.configuration.maps) * seen.configuration.expansion
    together = min(layers, max(1, _BYTES // (step * layers)))
    members = max(1, _BYTES // (step * layers * together))
    rows = []
    for start in range(0, len(seen.gradients[0]), members):
        parts = [_portion(seen, start, members, first, min(first + together, layers) - 1) for first in range(0, layers, together)]
        rows.append(torch.cat(parts, dim=1))
    return torch.cat(rows)


def _portion(seen: Observation, start: int, count: int, first: int, last: int) -> Tensor:
    """Readings of some members at layers first..last, (members, layers); in at least float32.

    Where tokens do not mix, each has a Jacobian of its own, and the reading is the mean over tokens of its squared norm. The
    iteration starts from the gradients, which hold every direction in which the Jacobian is large.
    """
    own = slice(start, start + count)
    linear = KnownLinear(*({key: _fixed(x[own]) for key, x in known.items()} for known in (seen.matrices, seen.shifts)))
    streams = [{name: _fixed(x[own]) for name, x in layer.items()} for layer in seen.network.streams]
    gradients = torch.stack([_fixed(g[own]) for g in seen.gradients[first : last + 1]], dim=1)
    vectors = gradients if seen.configuration.tokenwise else gradients.flatten(2)
    with torch.enable_grad():
        jacobians = Jacobians(seen.configuration, streams, linear, first, last)

        def apply(v: Tensor) -> Tensor:
            return jacobians.pull(jacobians.push(v.view_as(gradients))).view_as(v)

        found = largest_eigenvalue(apply, vectors)
    return found.mean(dim=2) if seen.configuration.tokenwise else found


def _fixed(x: Tensor) -> Tensor:
    return x.detach().to(at_least_float(x))


PROBE = Probe("operator-norm", _read, matrices=True)
