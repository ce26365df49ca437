"""The sublayers as torch functions; names, matrices, variances and biases come from theory's."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional

from empirical.layers import Linear
from empirical.parts import UNTRAINED, Parts
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
        parts: the norms inside, and what attention reads.
    """

    def __init__(
        self, configuration: Configuration, maps: SublayerMaps, place: tuple[int, int], linear: Linear, parts: Parts = UNTRAINED
    ) -> None:
        self.configuration, self.maps, self.place, self.linear, self.parts = configuration, maps, place, linear, parts
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
        return self.parts.norm((*self.place, place), x, self._inner[place]) if place in self._inner else x

    def _tokenwise(self, x: Tensor, maps: TokenWise) -> Tensor:
        activation, width = ACTIVATIONS[maps.activation.name], x.shape[-1]
        if len(maps.matrices) == 1:
            return activation(self._matrix("W", self._normed("middle", x), width))
        hidden = activation(self._matrix("W1", x, width * self.configuration.expansion))
        return self._matrix("W2", self._normed("middle", hidden), width)

    def _attention(self, x: Tensor) -> Tensor:
        heads, width, at = self.configuration.heads, x.shape[-1], (*self.place, self.maps.name)
        memory = self.parts.memory(at, x)
        query, key, value = (
            self._normed(place, self._matrix(name, given, width).unflatten(-1, (heads, width // heads)).transpose(-3, -2))
            for name, place, given in (("WQ", "query", x), ("WK", "key", memory), ("WV", "value", memory))
        )
        mixed = self.parts.mixture(at, query, key, value, self.configuration.causal)
        return self._matrix("WO", self._normed("middle", mixed.transpose(-3, -2).reshape(x.shape)), width)
