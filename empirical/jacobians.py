"""Products with the Jacobians ∂y/∂x_l of a batch of networks, from several layers l at once and without forming them.

Every sublayer step is differentiated once. A pull-back is one reverse pass through it, a push-forward the reverse pass of the
pull-back, which is linear in its vector (Townsend's double-backward trick). Copies of a network, one for each starting
layer, lie on an axis of their own, so that each step multiplies all vectors that have reached it at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch

from empirical.blocks import read_out, sublayer_step
from empirical.layers import KnownLinear
from theory.configuration import Configuration

Tensor = torch.Tensor
Streams = Mapping[str, Tensor]


class LinearStep:
    """A function of the streams, linearised where they stand.

    Args:
        function: streams → streams.
        at: the streams, each (members, copies, tokens, width).
    """

    def __init__(self, function: Callable[[Streams], Streams], at: Streams) -> None:
        self._at = {name: x.detach().requires_grad_() for name, x in at.items()}
        self._result = dict(function(self._at))
        self.result = {name: x.detach() for name, x in self._result.items()}
        self._vectors = {name: torch.zeros_like(x, requires_grad=True) for name, x in self.result.items()}
        self._pulled = _gradients(self._result, self._at, self._vectors, create_graph=True)

    def push(self, tangents: Streams) -> Streams:
        """Jacobian times tangents of the incoming streams."""
        used = {name: pulled for name, pulled in self._pulled.items() if pulled.requires_grad}
        return _gradients(used, self._vectors, {name: tangents[name] for name in used})

    def pull(self, cotangents: Streams) -> Streams:
        """Transposed Jacobian times cotangents of the outgoing streams."""
        return _gradients(self._result, self._at, cotangents)


def _gradients(of: Streams, by: Streams, vectors: Streams, create_graph: bool = False) -> dict[str, Tensor]:
    found = torch.autograd.grad(
        [of[name] for name in of],
        list(by.values()),
        [vectors[name] for name in of],
        retain_graph=True,
        create_graph=create_graph,
        allow_unused=True,
        materialize_grads=True,
    )
    return dict(zip(by, found, strict=True))


class Jacobians:
    """∂y/∂x_l for the stream x at layers l = first..last of a batch of networks, the other streams held fixed.

    Args:
        configuration: the networks.
        streams: their streams at layers 0..L, each (members, tokens, width).
        linear: their weights.
        first, last: the layers.
    """

    def __init__(
        self, configuration: Configuration, streams: Sequence[Streams], linear: KnownLinear, first: int, last: int
    ) -> None:
        self.depth, self.first, self.last = configuration.depth, first, last
        self._blocks: dict[int, list[LinearStep]] = {}
        for layer in range(first + 1, self.depth + 1):
            state = _copies(streams[layer - 1], min(last, layer - 1) - first + 1)
            self._blocks[layer] = []
            for index in range(len(configuration.maps)):
                step = LinearStep(partial(_step, configuration, linear, (layer, index)), state)
                self._blocks[layer].append(step)
                state = step.result
        self._read_out = LinearStep(lambda x: {"y": read_out(configuration, x)}, _copies(streams[-1], last - first + 1))
        self._others = [name for name in configuration.variant.streams if name != "x"]

    def push(self, vectors: Tensor) -> Tensor:
        """∂y/∂x_l v_l, (members, layers, tokens, width) → the same shape."""
        state = self._entering(vectors[:, :1])
        for layer in range(self.first + 1, self.depth + 1):
            for step in self._blocks[layer]:
                state = step.push(state)
            if layer <= self.last:
                place = layer - self.first
                entering = self._entering(vectors[:, place : place + 1])
                state = {name: torch.cat([x, entering[name]], dim=1) for name, x in state.items()}
        return self._read_out.push(state)["y"]

    def pull(self, vectors: Tensor) -> Tensor:
        """(∂y/∂x_l)ᵀ v_l, (members, layers, tokens, width) → the same shape."""
        state = self._read_out.pull({"y": vectors})
        finished = []
        for layer in range(self.depth, self.first, -1):
            if layer <= self.last:
                finished.append(state["x"][:, -1:])
                state = {name: x[:, :-1] for name, x in state.items()}
            for step in reversed(self._blocks[layer]):
                state = step.pull(state)
        finished.append(state["x"])
        return torch.cat(finished[::-1], dim=1)

    def _entering(self, x: Tensor) -> Streams:
        return {"x": x} | {name: torch.zeros_like(x) for name in self._others}


def _step(configuration: Configuration, linear: KnownLinear, place: tuple[int, int], streams: Streams) -> Streams:
    return sublayer_step(configuration, place, streams, linear).after


def _copies(streams: Streams, count: int) -> Streams:
    return {name: x.detach()[:, None].expand(-1, count, -1, -1).contiguous() for name, x in streams.items()}
