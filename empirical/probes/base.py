"""What a probe sees: one forward and backward pass of a batch of members."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import torch

from empirical.blocks import Pass
from empirical.layers import Tape
from theory.configuration import Configuration

Tensor = torch.Tensor


@dataclass(frozen=True)
class Observation:
    """A pass with its gradients.

    Attributes:
        configuration: the network's axes.
        network: the forward pass.
        gradients: ∂𝓛/∂x_l of the stream x at layers 0..L, each (members, tokens, width).
        tape: squared gradients of the weight matrices.
        directions: for optimiser updates, the factors of every matrix's gradient for some further independent unit
            Gaussian gradients at the output.
        matrices, shifts: the weights and biases themselves, where a probe asks for them.
    """

    configuration: Configuration
    network: Pass
    gradients: tuple[Tensor, ...]
    tape: Tape
    directions: tuple[Tape, ...] = ()
    matrices: Mapping[tuple[int, int, str], Tensor] = field(default_factory=dict)
    shifts: Mapping[tuple[int, int, str], Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Probe:
    """A quantity's measurement: readings of shape (members, rows), in float64."""

    name: str
    read: Callable[[Observation], Tensor]
    may_vanish: bool = False
    """Whether an exact zero is a possible reading (a cosine) and not a fault."""
    is_ratio: bool = False
    """Whether it is 0/0 where its vector has underflowed, which is then no fault of its own."""
    directions: bool = False
    """Whether it reads backward passes for further gradients at the output."""
    matrices: bool = False
    """Whether it reads the dense weights themselves."""

    @property
    def needs_weights(self) -> bool:
        """Whether only the dense engine will do."""
        return self.directions or self.matrices


def wide(x: Tensor) -> Tensor:
    """In float64, so that sums lose nothing to the measured dtype."""
    return x.to(torch.float64)


def mean_square(x: Tensor) -> Tensor:
    """Mean over tokens and width, (members,)."""
    return wide(x).square().mean(dim=(1, 2))


def log_squares(x: Tensor) -> Tensor:
    """log(|x|²/width) of each token, (members, tokens)."""
    return wide(x).square().mean(dim=2).log()


def mean_cosine(x: Tensor) -> Tensor:
    """Mean cosine over pairs of different tokens, (members,)."""
    unit = torch.nn.functional.normalize(wide(x), dim=-1, eps=0.0)
    tokens = x.shape[1]
    gram_sum = unit.sum(dim=1).square().sum(dim=-1)
    return (gram_sum - tokens) / (tokens * (tokens - 1))


def by_layer(values: list[Tensor]) -> Tensor:
    """(members,) tensors as (members, rows)."""
    return torch.stack(values, dim=1)


def above_each_layer(depth: int, blocks: Iterable[tuple[int, Tensor]]) -> Tensor:
    """Sums over the blocks l + 1 … L at layers l = 0..L, (members, depth + 1), from (block, (members,)) parts in any order."""
    parts = list(blocks)
    rows = parts[0][1].new_zeros(len(parts[0][1]), depth + 1)
    for block, part in parts:
        rows[:, block - 1] += part
    return rows.flip(1).cumsum(1).flip(1)
