"""A stack between two linear maps, fitted by least squares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from empirical.blocks import forward
from empirical.training.models.base import Batch, Outcome
from empirical.training.parameters import Learned, Store
from theory.configuration import Configuration


@dataclass(frozen=True)
class Regressor:
    """Linear in, token-wise blocks, linear out; weights of the two maps are N(0, 1/fan_in) at first, without bias.

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
        entering = store.matrix(("", 0, 0, "entering"), self.features, width, std=self.features**-0.5)
        leaving = store.matrix(("", 0, 0, "leaving"), width, self.outputs, std=width**-0.5)
        learned = Learned(store, "stack", self.configuration)
        network = forward(self.configuration, torch.bmm(inputs, entering)[:, :, None], learned, learned)
        errors = torch.bmm(network.output[:, :, 0], leaving) - targets
        return Outcome(errors.square().mean(dim=(1, 2)), {"stack": network})
