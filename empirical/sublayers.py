"""The sublayers as torch functions; names, matrices, variances and biases come from theory's."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional

from empirical.layers import Linear
from empirical.norms import normalise
from theory.algebra import Stream, Sublayer
from theory.configuration import Configuration
from theory.sublayers import Attention, SublayerMaps, TokenWise

Tensor = torch.Tensor
_PLAIN = Sublayer(Stream())

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda x: x,
    "relu": functional.relu,
    "leaky-relu": functional.leaky_relu,
    "gelu": functional.gelu,
    "silu": functional.silu,
    "tanh": torch.tanh,
}


class SublayerApplication:
    """One sublayer at one place of the stack: a function of its input with fresh weights.

    Args:
        configuration: the network.
        maps: which sublayer.
        place: (layer, index within the block), both from the weights' keys.
        linear: draws and applies matrices.
    """

    def __init__(self, configuration: Configuration, maps: SublayerMaps, place: tuple[int, int], linear: Linear) -> None:
        self.configuration, self.maps, self.place, self.linear = configuration, maps, place, linear
        self.weights = configuration.weights(maps)

    def __call__(self, x: Tensor, node: Sublayer = _PLAIN) -> Tensor:
        """F(x), (members, …, tokens, width) → the same shape, with the norms inside it that ``node`` names."""
        self._inner = dict(node.inner)
        if isinstance(self.maps, TokenWise):
            return self._tokenwise(x, self.maps)
        if isinstance(self.maps, Attention):
            return self._attention(x)
        raise TypeError(f"no torch function for the sublayer {self.maps.name}")

    def _matrix(self, name: str, x: Tensor, fan_out: int) -> Tensor:
        drawn = self.weights
        return self.linear((*self.place, name), x, fan_out, drawn.variances[name], drawn.biases.get(name, 0.0), drawn.uniform)

    def _normed(self, place: str, x: Tensor) -> Tensor:
        """What a norm at ``place`` makes of x (over the last axis), x itself where there is none."""
        return normalise(x, self._inner[place]) if place in self._inner else x

    def _tokenwise(self, x: Tensor, maps: TokenWise) -> Tensor:
        activation, width = ACTIVATIONS[maps.activation.name], x.shape[-1]
        if len(maps.matrices) == 1:
            return activation(self._matrix("W", self._normed("middle", x), width))
        hidden = activation(self._matrix("W1", x, width * self.configuration.expansion))
        return self._matrix("W2", self._normed("middle", hidden), width)

    def _attention(self, x: Tensor) -> Tensor:
        tokens, width = x.shape[-2:]
        heads = self.configuration.heads
        query, key, value = (
            self._normed(place, self._matrix(name, x, width).unflatten(-1, (heads, width // heads)).transpose(-3, -2))
            for name, place in (("WQ", "query"), ("WK", "key"), ("WV", "value"))
        )
        scores = (query @ key.mT) / (width // heads) ** 0.5
        if self.configuration.causal:
            later = torch.ones(tokens, tokens, dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(later, float("-inf"))
        mixed = torch.softmax(scores, dim=-1) @ value
        return self._matrix("WO", self._normed("middle", mixed.transpose(-3, -2).reshape(x.shape)), width)
