"""Trainable numbers of a batch of members, and the parts of a stack that are made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch.nn import functional

from empirical.draws import Draws
from empirical.parts import POINTWISE
from empirical.parts import Key as Place
from theory.configuration import Configuration

Tensor = torch.Tensor
Key = tuple[str, int, int, str]
"""(stack, layer, sublayer, name); what stands outside of any stack has the stack's name ``""`` and layer 0."""
EPS = 1e-5
"""Added to a variance before a trained norm divides by its root, torch's default."""


@dataclass
class Store:
    """All trainable numbers, (members, …) each, made the first time that a network asks for them.

    Attributes:
        draws: the members' generators, used for nothing else.
        values: leaves of the autograd graph, in the order of the first use.
    """

    draws: Draws
    values: dict[Key, Tensor] = field(default_factory=dict)

    def get(self, key: Key, make: Callable[[], Tensor]) -> Tensor:
        """The parameter of ``key``."""
        if key not in self.values:
            self.values[key] = make().detach().clone().requires_grad_()
        return self.values[key]

    def matrix(self, key: Key, *shape: int, std: float, uniform: bool = False) -> Tensor:
        """Random at first, (members, *shape)."""
        return self.get(key, lambda: (self.draws.uniform if uniform else self.draws.normal)("weights", *shape, std=std))

    def constant(self, key: Key, value: float, *shape: int) -> Tensor:
        """``value`` at first, (members, *shape)."""
        draws = self.draws
        return self.get(key, lambda: torch.full((len(draws.members), *shape), value, device=draws.device, dtype=draws.dtype))


@dataclass(frozen=True)
class Reading:
    """What the attention of a stack reads besides its own input.

    Attributes:
        memories: by index of the sublayer in its block, the stream (members, batch, tokens, width) that keys and values
            come from (cross-attention).
        hidden: tokens that no query may read (padding), (members, batch, tokens of keys), by index of the sublayer.
    """

    memories: Mapping[int, Tensor] = field(default_factory=dict)
    hidden: Mapping[int, Tensor] = field(default_factory=dict)


NOTHING = Reading()


class Learned:
    """The matrices (`empirical.layers.Linear`) and the parts (`empirical.parts.Parts`) of one stack that is trained.

    Every matrix has a bias, 0 at first unless the initialisation draws one. Norms have a gain (1 at first) and, RMSNorm apart,
    a bias (0 at first); so has tanh where it stands for a norm. A variant's learnable constants are one number a place, and so
    is Admin's ω, which is profiled when the parameters are made and learned from there.

    Args:
        store: where the numbers are.
        stack: name of the stack.
        configuration: of the stack; the blocks of a tied variant share one block's parameters.
        reading: memory and padding of its attention.
    """

    def __init__(self, store: Store, stack: str, configuration: Configuration, reading: Reading = NOTHING) -> None:
        self.store, self.stack, self.configuration, self.reading = store, stack, configuration, reading

    def _key(self, place: Place, of: str = "") -> Key:
        layer, index, name = place
        shared = self.configuration.variant.tied and 1 <= layer <= self.configuration.depth
        return self.stack, 1 if shared else layer, index, of + name

    def __call__(self, key: Place, x: Tensor, fan_out: int, variance: float, bias: float = 0.0, uniform: bool = False) -> Tensor:
        """x W + b, (members, …, fan_in) → (members, …, fan_out); see `empirical.layers.RandomLinear`."""
        fan_in = x.shape[-1]
        weights = self.store.matrix(self._key(key), fan_in, fan_out, std=(variance / fan_in) ** 0.5, uniform=uniform)
        at = self._key(key, "bias of ")
        if bias:
            shift = self.store.matrix(at, 1, fan_out, std=bias**0.5, uniform=uniform)
        else:
            shift = self.store.constant(at, 0.0, 1, fan_out)
        return torch.baddbmm(shift, x.flatten(1, -2), weights).unflatten(1, x.shape[1:-1])

    def norm(self, key: Place, x: Tensor, kind: str) -> Tensor:
        """The norm with its gain and bias; heads share theirs."""
        width = x.shape[-1]
        lined_up = (-1, *[1] * (x.dim() - 2), width)
        gain = self.store.constant(self._key(key, "gain of "), 1.0, width).view(lined_up)
        if kind == "rms":
            return functional.rms_norm(x, (width,), eps=EPS) * gain
        bias = self.store.constant(self._key(key, "bias of "), 0.0, width).view(lined_up)
        plain = POINTWISE[kind](x) if kind in POINTWISE else functional.layer_norm(x, (width,), eps=EPS)
        return torch.addcmul(bias, plain, gain)

    def number(self, key: Place, value: float | Tensor) -> Tensor:
        """A learnable constant, (members, 1, 1, 1)."""
        key_ = self._key(key)
        if isinstance(value, Tensor):
            return self.store.get(key_, lambda: value.to(self.store.draws.dtype))
        return self.store.constant(key_, value, 1, 1, 1)

    def memory(self, key: Place, x: Tensor) -> Tensor:
        """The memory of a cross-attention, x for self-attention."""
        return self.reading.memories.get(key[1], x)

    def mixture(self, key: Place, query: Tensor, keys: Tensor, values: Tensor, causal: bool) -> Tensor:
        """Softmax attention by torch's fused function; a cross-attention is not causal."""
        across, hidden = key[1] in self.reading.memories, self.reading.hidden.get(key[1])
        seen = None if hidden is None else ~hidden.flatten(0, 1)[:, None, None, :]
        q, k, v = (x.flatten(0, -4) for x in (query, keys, values))
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen, is_causal=causal and not across)
        return mixed.unflatten(0, query.shape[:-3])
