"""What a model makes of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.nn import functional

from empirical.blocks import Pass
from empirical.training.parameters import Store
from theory.configuration import Configuration

Tensor = torch.Tensor
Batch = tuple[Tensor, ...]
"""Tensors with the axes (members, batch, …)."""


@dataclass(frozen=True)
class Outcome:
    """A forward pass.

    Attributes:
        losses: each member's mean loss over its batch, (members,).
        passes: by name of the stack, in order of application; the last one's output leads to the loss.
    """

    losses: Tensor
    passes: Mapping[str, Pass]

    @property
    def output(self) -> Tensor:
        """The last stack's, (members, batch, tokens, width)."""
        return list(self.passes.values())[-1].output

    @property
    def streams(self) -> list[Tensor]:
        """The stream x at layers 0..L of every stack."""
        return [layer["x"] for network in self.passes.values() for layer in network.streams]


class Model(Protocol):
    """A network as a function of its parameters."""

    @property
    def stacks(self) -> Mapping[str, Configuration]:
        """Configuration of every stack by its name."""

    def __call__(self, store: Store, batch: Batch) -> Outcome:
        """Losses and passes; parameters that the store lacks are made."""


def embedded(store: Store, ids: Tensor, vocabulary: int, width: int, longest: int, side: str = "") -> Tensor:
    """Rows of a token table plus rows of a position table, (members, batch, tokens) → (…, width).

    Entries of either are N(0, 1/2) at first: the stream enters block 1 with second moment 1, whatever the initialisation
    of the blocks. Both sides of a translation share the tokens' table; positions are of one ``side``, ``longest`` of them.
    """
    table = store.matrix(("", 0, 0, "tokens"), vocabulary, width, std=0.5**0.5)
    positions = store.matrix(("", 0, 0, f"{side} positions".strip()), longest, width, std=0.5**0.5)
    first_rows = vocabulary * torch.arange(len(ids), device=ids.device)[:, None, None]
    return functional.embedding(ids + first_rows, table.flatten(0, 1)) + positions[:, None, : ids.shape[2]]


def logits(store: Store, output: Tensor, vocabulary: int) -> Tensor:
    """Unembedding N(0, 1/width) at first, (members, batch, tokens, width) → (…, vocabulary)."""
    width = output.shape[-1]
    matrix = store.matrix(("", 0, 0, "unembedding"), width, vocabulary, std=width**-0.5)
    return torch.bmm(output.flatten(1, 2), matrix).unflatten(1, output.shape[1:3])


def cross_entropy(scores: Tensor, targets: Tensor, ignored: int = -100) -> Tensor:
    """Mean over the targets that are not ``ignored``, in nats; (members, batch, tokens, vocabulary) → (members,)."""
    scores = scores if scores.dtype == torch.float64 else scores.float()
    losses = functional.cross_entropy(scores.flatten(0, 2), targets.flatten(), ignore_index=ignored, reduction="none")
    counted = (targets != ignored).flatten(1).sum(dim=1)
    return losses.view(len(targets), -1).sum(dim=1) / counted
