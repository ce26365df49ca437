"""Squared length of a block's last step relative to the stream's."""

from torch import Tensor

from empirical.blocks import Step
from empirical.probes.base import Observation, Probe, by_layer, wide


def _relative(step: Step, after: Tensor) -> Tensor:
    before = wide(step.before["x"])
    change = (wide(after) - before).square().sum(dim=-1)
    return (change / before.square().sum(dim=-1)).mean(dim=1)


def _read(seen: Observation) -> Tensor:
    steps, streams = seen.network.last_steps, seen.network.streams[1:]
    return by_layer([_relative(step, after["x"]) for step, after in zip(steps, streams, strict=True)])


PROBE = Probe("relative-step", _read, is_ratio=True)
