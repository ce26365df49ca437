"""From a variant's expression to the forward pass of a stack."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from empirical.layers import Linear, at_least_float
from empirical.parts import UNTRAINED, Parts
from empirical.sublayers import SublayerApplication
from theory.algebra import Expression, Matched, Norm, Pointwise, Position, Scale, Stream, Sublayer, Sum, to_text
from theory.configuration import Configuration

Tensor = torch.Tensor


@dataclass
class Step:
    """What one sublayer step computed: the value of every node of the update, and the streams before and after it."""

    before: Mapping[str, Tensor]
    values: dict[Expression, Tensor]
    after: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass
class Pass:
    """A forward pass: streams at layers 0..L, the last sublayer step of each block, the output."""

    streams: list[dict[str, Tensor]] = field(default_factory=list)
    last_steps: list[Step] = field(default_factory=list)
    output: Tensor = field(default_factory=lambda: torch.empty(0))


def forward(configuration: Configuration, inputs: Tensor, linear: Linear, parts: Parts = UNTRAINED) -> Pass:
    """Run the stack on embedded ``inputs`` (members, …, tokens, width).

    Each stream is a tensor of its own in the autograd graph, so that ∂𝓛/∂x_l can be asked for at every layer.
    """
    start, ends = Step({"e": inputs}, {}), _Evaluation(configuration, configuration.position(1, 0), (0, 0), parts)
    entry = {name: _own(ends.value(node, start)) for name, node in configuration.variant.start}
    result = Pass(streams=[entry])
    for layer in range(1, configuration.depth + 1):
        streams: Mapping[str, Tensor] = result.streams[-1]
        for index in range(len(configuration.maps)):
            step = sublayer_step(configuration, (layer, index), streams, linear, parts)
            streams = step.after
        result.last_steps.append(step)
        result.streams.append(dict(streams))
    result.output = read_out(configuration, result.streams[-1], parts)
    return result


def sublayer_step(
    configuration: Configuration,
    place: tuple[int, int],
    streams: Mapping[str, Tensor],
    linear: Linear,
    parts: Parts = UNTRAINED,
) -> Step:
    """One sublayer step on streams of shape (members, …, tokens, width); ``place`` is (layer, index within the block)."""
    layer, index = place
    sublayer = SublayerApplication(configuration, configuration.maps[index], place, linear, parts)
    step = Step(streams, {})
    position = configuration.position(layer, index)
    evaluation = _Evaluation(configuration, position, place, parts, sublayer)
    # A view of its own for each stream: two streams may hold the same node, their gradients differ.
    targets = configuration.variant.steps_at(position)
    step.after = {name: _own(evaluation.value(node, step)) for name, node in targets}
    return step


def read_out(configuration: Configuration, streams: Mapping[str, Tensor], parts: Parts = UNTRAINED) -> Tensor:
    """The network's output from its last streams."""
    place = (configuration.depth + 1, 0)
    return _Evaluation(configuration, configuration.last_position, place, parts).value(
        configuration.variant.read_out, Step(streams, {})
    )


def _own(x: Tensor) -> Tensor:
    return x.view_as(x)


def _no_sublayer(*_: object) -> Tensor:
    raise AssertionError("neither entry nor read-out holds a sublayer")


@dataclass(frozen=True)
class _Evaluation:
    """Where expressions are evaluated, and with what."""

    configuration: Configuration
    position: Position
    place: tuple[int, int]
    parts: Parts
    sublayer: Callable[[Tensor, Sublayer], Tensor] = _no_sublayer

    def value(self, node: Expression, step: Step) -> Tensor:
        """Value of a node; equal nodes are computed once, so an update applies its sublayer once."""
        if node not in step.values:
            below = [self.value(child, step) for child in node.children]
            match node:
                case Stream(name):
                    value = step.before[name]
                case Sublayer():
                    value = self.sublayer(below[0], node)
                case Norm(_, kind) | Pointwise(_, kind):
                    value = self.parts.norm((*self.place, to_text(node)), below[0], kind)
                case Matched():
                    wanted, given = (_level(x.detach()) for x in reversed(below))
                    value = self.parts.number((*self.place, to_text(node)), wanted / given) * below[0]
                case Scale():
                    value = self._coefficient(node) * below[0]
                case Sum():
                    value = sum(below[1:], start=below[0])
                case _:
                    raise TypeError(f"no torch value for {type(node).__name__}")
            step.values[node] = value
        return step.values[node]

    def _coefficient(self, node: Scale) -> float | Tensor:
        variant = self.configuration.variant
        value = variant.coefficient(node.coefficient, self.position)
        learnable = node.coefficient in variant.learnable
        return self.parts.number((*self.place, str(node.coefficient)), value) if learnable else value


def _level(x: Tensor) -> Tensor:
    """Root mean square of each member's streams, to divide (members, …, tokens, width) by."""
    return x.to(at_least_float(x)).square().flatten(1).mean(dim=1).sqrt().to(x.dtype).reshape(-1, *[1] * (x.dim() - 1))
