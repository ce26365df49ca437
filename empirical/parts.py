"""What an evaluation of a variant's expression takes from outside, besides the matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch

from empirical.norms import normalise

Tensor = torch.Tensor
Key = tuple[int, int, str]
"""(layer, sublayer, name); the entry stands at layer 0, the read-out at layer L + 1."""
POINTWISE: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh}


class Parts(Protocol):
    """Norms, constants and attention's reading; training makes them learnable (`empirical.training.parameters`)."""

    def norm(self, key: Key, x: Tensor, kind: str) -> Tensor:
        """What the norm (or the function that stands in its place) called ``kind`` makes of x, over the last axis."""

    def number(self, key: Key, value: float | Tensor) -> float | Tensor:
        """The constant whose value at initialisation is ``value`` (one number, or one a member)."""

    def memory(self, key: Key, x: Tensor) -> Tensor:
        """What attention's keys and values are made of where its queries are made of x."""

    def mixture(self, key: Key, query: Tensor, keys: Tensor, values: Tensor, causal: bool) -> Tensor:
        """Attention's mixture of values, (members, …, heads, tokens, head width) each."""


class Untrained:
    """The parts of a network at initialisation: gains 1, biases 0, self-attention."""

    def norm(self, key: Key, x: Tensor, kind: str) -> Tensor:
        return POINTWISE[kind](x) if kind in POINTWISE else normalise(x, kind)

    def number(self, key: Key, value: float | Tensor) -> float | Tensor:
        return value

    def memory(self, key: Key, x: Tensor) -> Tensor:
        return x

    def mixture(self, key: Key, query: Tensor, keys: Tensor, values: Tensor, causal: bool) -> Tensor:
        tokens, head_width = query.shape[-2:]
        scores = (query @ keys.mT) / head_width**0.5
        if causal:
            later = torch.ones(tokens, tokens, dtype=torch.bool, device=query.device).triu(1)
            scores = scores.masked_fill(later, float("-inf"))
        return torch.softmax(scores, dim=-1) @ values


UNTRAINED = Untrained()
