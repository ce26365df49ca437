"""A stack between two linear maps, fitted by least squares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from empirical.blocks import forward
from empirical.training.models.base import Batch, Outcome
from empirical.training.parameters import Learned, Store
from theory.configuration import Configuration

Tensor = torch.Tensor


@dataclass(frozen=True)
class Regressor:
    """Linear in, token-wise blocks, linear out; weights of the two maps are N(0, 1/fan_in) at first, biases 0.
    Args:
        configuration: of the stack, which sees every example as one token.
        features, outputs: of the task.
    """

    configuration: Configuration
    features: int
    outputs: int

    @property
    def stacks(self) -> Mapping[str, Configuration]:
        return {"stack": self.configuration}

    def __call__(self, store: Store, batch: Batch) -> Outcome:
        """Of inputs (members, batch, features) and targets (members, batch, outputs): mean square error per output."""
        inputs, targets = batch
        width = self.configuration.width
        learned = Learned(store, "stack", self.configuration)
        entering = _affine(store, "entering", inputs, width)[:, :, None]
        network = forward(self.configuration, entering, learned, learned)
        errors = _affine(store, "leaving", network.output[:, :, 0], self.outputs) - targets
        return Outcome(errors.square().mean(dim=(1, 2)), {"stack": network})


def _affine(store: Store, name: str, x: Tensor, fan_out: int) -> Tensor:
    """x W + b, (members, batch, fan_in) → (members, batch, fan_out)."""
    fan_in = x.shape[-1]
    weights = store.matrix(("", 0, 0, name), fan_in, fan_out, std=fan_in**-0.5)
    return torch.baddbmm(store.constant(("", 0, 0, f"bias of {name}"), 0.0, 1, fan_out), x, weights)
