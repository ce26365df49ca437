"""Squared change of the read-out across a block's last sublayer."""

from torch import Tensor

from empirical.blocks import read_out
from empirical.probes.base import Observation, Probe, by_layer, mean_square, wide


def _read(seen: Observation) -> Tensor:
    def output(streams: dict[str, Tensor]) -> Tensor:
        return wide(read_out(seen.configuration, streams))

    steps, after = seen.network.last_steps, seen.network.streams[1:]
    return by_layer([mean_square(output(new) - output(dict(step.before))) for step, new in zip(steps, after, strict=True)])


PROBE = Probe("output-change", _read)
