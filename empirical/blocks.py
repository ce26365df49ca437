"""From a variant's expression to the forward pass of a stack."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from empirical.layers import Linear, at_least_float
from empirical.norms import normalise
from empirical.sublayers import SublayerApplication
from theory.algebra import Expression, Matched, Norm, Pointwise, Position, Scale, Stream, Sublayer, Sum
from theory.configuration import Configuration

Tensor = torch.Tensor
POINTWISE: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh}


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


def forward(configuration: Configuration, inputs: Tensor, linear: Linear) -> Pass:
    """Run the stack on embedded ``inputs`` (members, tokens, width).

    Each stream is a tensor of its own in the autograd graph, so that ∂𝓛/∂x_l can be asked for at every layer.
    """
    start, coefficient = Step({"e": inputs}, {}), _coefficients(configuration, configuration.position(1, 0))
    entry = {name: _own(_value(node, start, _no_sublayer, coefficient)) for name, node in configuration.variant.start}
    result = Pass(streams=[entry])
    for layer in range(1, configuration.depth + 1):
        streams: Mapping[str, Tensor] = result.streams[-1]
        for index in range(len(configuration.maps)):
            step = sublayer_step(configuration, (layer, index), streams, linear)
            streams = step.after
        result.last_steps.append(step)
        result.streams.append(dict(streams))
    result.output = read_out(configuration, result.streams[-1])
    return result


def sublayer_step(configuration: Configuration, place: tuple[int, int], streams: Mapping[str, Tensor], linear: Linear) -> Step:
    """One sublayer step on streams of shape (members, …, tokens, width); ``place`` is (layer, index within the block)."""
    layer, index = place
    sublayer = SublayerApplication(configuration, configuration.maps[index], place, linear)
    step = Step(streams, {})
    position = configuration.position(layer, index)
    coefficient = _coefficients(configuration, position)
    # A view of its own for each stream: two streams may hold the same node, their gradients differ.
    targets = configuration.variant.steps_at(position)
    step.after = {name: _own(_value(node, step, sublayer, coefficient)) for name, node in targets}
    return step


def read_out(configuration: Configuration, streams: Mapping[str, Tensor]) -> Tensor:
    """The network's output from its last streams."""
    coefficient = _coefficients(configuration, configuration.last_position)
    return _value(configuration.variant.read_out, Step(streams, {}), _no_sublayer, coefficient)


def _coefficients(configuration: Configuration, position: Position) -> Callable[[Scale], float]:
    return lambda node: configuration.variant.coefficient(node.coefficient, position)


def _own(x: Tensor) -> Tensor:
    return x.view_as(x)


def _no_sublayer(*_: object) -> Tensor:
    raise AssertionError("neither entry nor read-out holds a sublayer")


def _value(
    node: Expression, step: Step, sublayer: Callable[[Tensor, Sublayer], Tensor], coefficient: Callable[[Scale], float]
) -> Tensor:
    """Value of a node; equal nodes are computed once, so an update applies its sublayer once."""
    if node not in step.values:
        below = [_value(child, step, sublayer, coefficient) for child in node.children]
        match node:
            case Stream(name):
                value = step.before[name]
            case Sublayer():
                value = sublayer(below[0], node)
            case Norm(_, kind):
                value = normalise(below[0], kind)
            case Pointwise(_, function):
                value = POINTWISE[function](below[0])
            case Matched():
                wanted, given = (_level(x.detach()) for x in reversed(below))
                value = wanted / given * below[0]
            case Scale():
                value = coefficient(node) * below[0]
            case Sum():
                value = sum(below[1:], start=below[0])
            case _:
                raise TypeError(f"no torch value for {type(node).__name__}")
        step.values[node] = value
    return step.values[node]


def _level(x: Tensor) -> Tensor:
    """Root mean square of each member's streams, to divide (members, …, tokens, width) by."""
    return x.to(at_least_float(x)).square().flatten(1).mean(dim=1).sqrt().to(x.dtype).reshape(-1, *[1] * (x.dim() - 1))
