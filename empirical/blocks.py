"""From a variant's expression to the forward pass of a stack."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from empirical.layers import Linear
from empirical.sublayers import SublayerApplication
from theory.algebra import Expression, Norm, Scale, Stream, Sublayer, Sum
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


def forward(configuration: Configuration, inputs: Tensor, linear: Linear) -> Pass:
    """Run the stack on ``inputs`` (members, tokens, width); every stream starts as the input.

    Each stream is a tensor of its own in the autograd graph, so that ∂𝓛/∂x_l can be asked for at every layer.
    """
    result = Pass(streams=[{name: _own(inputs) for name in configuration.variant.streams}])
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
    coefficient = _coefficients(configuration, layer)
    # A view of its own for each stream: two streams may hold the same node, their gradients differ.
    step.after = {name: _own(_value(node, step, sublayer, coefficient)) for name, node in configuration.variant.steps}
    return step


def read_out(configuration: Configuration, streams: Mapping[str, Tensor]) -> Tensor:
    """The network's output from its last streams."""
    coefficient = _coefficients(configuration, configuration.depth)
    return _value(configuration.variant.read_out, Step(streams, {}), _no_sublayer, coefficient)


def _coefficients(configuration: Configuration, layer: int) -> Callable[[Scale], float]:
    return lambda node: configuration.variant.coefficient(node.coefficient, configuration.depth, layer)


def _own(x: Tensor) -> Tensor:
    return x.view_as(x)


def _no_sublayer(_: Tensor) -> Tensor:
    raise AssertionError("a read-out holds no sublayer")


def _value(node: Expression, step: Step, sublayer: Callable[[Tensor], Tensor], coefficient: Callable[[Scale], float]) -> Tensor:
    """Value of a node; equal nodes are computed once, so an update applies its sublayer once."""
    if node not in step.values:
        below = [_value(child, step, sublayer, coefficient) for child in node.children]
        match node:
            case Stream(name):
                value = step.before[name]
            case Sublayer():
                value = sublayer(below[0])
            case Norm(_, kind):
                value = normalise(below[0], kind)
            case Scale():
                value = coefficient(node) * below[0]
            case Sum():
                value = sum(below[1:], start=below[0])
            case _:
                raise TypeError(f"no torch value for {type(node).__name__}")
        step.values[node] = value
    return step.values[node]


def normalise(x: Tensor, kind: str) -> Tensor:
    """LayerNorm or RMSNorm over the last axis, gain 1, bias 0, sums in at least float32.

    There is no eps: without a residual the variance falls below any customary eps, which would then be measured
    in place of the norm. A zero or non-finite result is the sanity gate's to report.
    """
    wide = x if x.dtype == torch.float64 else x.float()
    if kind == "layer":
        wide = wide - wide.mean(dim=-1, keepdim=True)
    return (wide * wide.square().mean(dim=-1, keepdim=True).rsqrt()).to(x.dtype)
