"""One pass of second moments forward and backward through a stack, for any variant and any sublayers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from theory.algebra import INPUT, Norm, Position, Stream, Sublayer, sublayer_node
from theory.boundary import Boundary
from theory.configuration import Configuration
from theory.finite_width import streams
from theory.finite_width.gradients import Memory, backward, output_factor
from theory.finite_width.lengths import Lengths
from theory.finite_width.paths import derived, paths, shape
from theory.pairs import cosines
from theory.propagation import Backward, Tokens, Walk
from theory.sublayers import Applied, Fluctuations, SublayerMaps, Surroundings, Weights
from theory.tied import Loop

Array = np.ndarray
Moments = dict[tuple[str, str], Array]
"""Second moments by pair of streams, each (tokens, tokens)."""
Alignments = dict[str, Array]
"""Of each stream's gradient, see `theory.finite_width.streams`."""
_SEED = 2020  # of the quadrature over attention patterns


@dataclass(frozen=True)
class SublayerStep:
    """One sublayer step of a block, walked forward and backward.

    Attributes:
        maps, weights: the sublayer and how its matrices are drawn.
        applied: its second-moment maps at the tokens that reach it.
        walk, gradients: the walk of the step's expression, and of its gradients.
        received: second moments of ∂𝓛/∂F.
        fluctuations: factor of first order in 1/width on each matrix's squared gradient.
    """

    maps: SublayerMaps
    weights: Weights
    applied: Applied
    walk: Walk
    gradients: Backward
    received: Array
    fluctuations: dict[str, float]

    @property
    def entering(self) -> Array:
        """Second moments of the sublayer's argument."""
        return self.walk.moments[sublayer_node(self.walk.targets).argument]

    @property
    def pre_activation(self) -> float:
        """Second moment of what the sublayer's first matrix makes of its argument, mean over tokens."""
        inner = dict(sublayer_node(self.walk.targets).inner)
        return self.maps.pre_activation(self.entering, self.weights, inner)


@dataclass(frozen=True)
class Profile:
    """Second moments along the stack: ``forward`` and ``backward`` at layers 0..L, ``blocks`` for blocks 1..L.

    ``lengths``: how the stream's second moments scatter, at layers 0..L; None at infinite width.
    ``scatter``: Var log|∂𝓛/∂x_l|² of each token over networks, at layers 0..L; None at infinite width.
    """

    configuration: Configuration
    forward: tuple[Moments, ...]
    backward: tuple[Moments, ...]
    blocks: tuple[tuple[SublayerStep, ...], ...]
    lengths: tuple[Lengths, ...] | None
    scatter: tuple[Array, ...] | None

    def cosines(self) -> list[Array]:
        """Mean cosines between the tokens of the stream x, at layers 0..L."""
        moments = [layer["x", "x"] for layer in self.forward]
        if self.lengths is None:
            return [cosines(moment) for moment in moments]
        return [lengths.normalised(moment) for lengths, moment in zip(self.lengths, moments, strict=True)]


@lru_cache(maxsize=64)
def profile(configuration: Configuration, tokens: int, boundary: Boundary | None = None, infinite_width: bool = False) -> Profile:
    """Propagate second moments of the inputs forward and of the output's gradient backward.

    Terms of first order in 1/width are kept where `theory.finite_width` derives them; of variants of another form those that add
    up from block to block. Where all blocks share their weights, `theory.tied` has the moments between them, at infinite width.

    Args:
        configuration: the network.
        tokens: size of the moment matrices (token-wise networks need only 1 or 2 of their tokens).
        boundary: second moments of the inputs and of the output's gradient; by default both are isotropic, of unit variance.
        infinite_width: leave all terms of order 1/width out.

    Raises:
        InvalidInput: moments that overflow; a boundary of another number of tokens.
    """
    ends = boundary or Boundary(np.eye(tokens), np.eye(tokens))
    ends.require(tokens)
    return _Stack(configuration, infinite_width, tokens).profile(ends)


class _Walked(NamedTuple):
    """A step on the way up: its walk, its sublayer's maps, and how the stream's lengths scatter before and after it."""

    walk: Walk
    applied: Applied
    before: Lengths
    after: Lengths


class _Stack:
    """One pass forward and backward."""

    def __init__(self, configuration: Configuration, infinite_width: bool, tokens: int) -> None:
        self.configuration = configuration
        self.finite = not infinite_width and derived(configuration.variant)
        self.partly = not infinite_width and not self.finite and not configuration.variant.tied
        self.loop = Loop(configuration, tokens) if configuration.variant.tied else None
        self.generator = np.random.Generator(np.random.SFC64(_SEED))
        self.weights = [configuration.weights(maps) for maps in configuration.maps]

    def profile(self, ends: Boundary) -> Profile:
        """Up through the blocks, through the read-out, and down again."""
        depth = self.configuration.depth
        forward, lengths, walked = self._up(ends.inputs)
        gradient, memory = self._read_out(forward[-1], ends.gradients)
        gradients, blocks = [self._at_layer(gradient, memory, lengths[-1], forward[-1])], []
        variances = [self._variance(memory, lengths[-1], forward[-1])]
        for layer, block in zip(range(depth, 0, -1), reversed(walked), strict=True):
            steps, gradient, memory = self._down(block, gradient, memory)
            gradients.append(self._at_layer(gradient, memory, lengths[layer - 1], forward[layer - 1]))
            variances.append(self._variance(memory, lengths[layer - 1], forward[layer - 1]))
            blocks.append(steps)
        return Profile(
            self.configuration,
            tuple(forward),
            tuple(reversed(gradients)),
            tuple(reversed(blocks)),
            tuple(lengths) if self.finite else None,
            tuple(reversed(variances)) if self.finite else None,
        )

    def _up(self, inputs: Array) -> tuple[list[Moments], list[Lengths], list[list[_Walked]]]:
        variant, depth = self.configuration.variant, self.configuration.depth
        start = self._coefficients(self.configuration.position(1, 0))
        entry = self._walk()(variant.start, {("e", "e"): inputs}, Tokens(), start, _no_sublayer)
        forward: list[Moments] = [entry.outgoing()]
        embedded = Lengths.gaussian(inputs, self.configuration.width)
        lengths, walked = [embedded if dict(variant.start)["x"] == INPUT else embedded.fixed()], []
        for layer in range(1, depth + 1):
            state, scatter, block = forward[-1], lengths[-1], []
            for index in range(len(self.configuration.maps)):
                block.append(self._forward(index, layer, state, scatter))
                state, scatter = block[-1].walk.outgoing(), block[-1].after
            walked.append(block)
            forward.append(state)
            lengths.append(scatter)
        return forward, lengths, walked

    def _variance(self, memory: Memory | Alignments, lengths: Lengths, stream: Moments) -> Array:
        return memory.variance(_own_variance(lengths, stream)) if isinstance(memory, Memory) else np.zeros(len(stream["x", "x"]))

    def _read_out(self, stream: Moments, gradients: Array) -> tuple[Moments, Memory | Alignments]:
        """The gradient at the last layer, and its memory."""
        variant, coefficients = self.configuration.variant, self._coefficients(self.configuration.last_position)
        read_out = self._walk()((("y", variant.read_out),), stream, Tokens(), coefficients, _no_sublayer)
        gradient = read_out.backward({("y", "y"): gradients}, _no_sublayer).incoming(variant.streams)
        if self.partly:
            gradient = {pair: np.zeros_like(gradients) + moment for pair, moment in gradient.items()}
            return gradient, streams.at_output(read_out, variant.streams, len(gradients))
        factor = output_factor(read_out, self.configuration.width) if self.finite else 1.0
        return {pair: moment * factor for pair, moment in gradient.items()}, Memory.at_output(
            read_out, len(gradients), self.configuration.width
        )

    def _down(
        self, block: list[_Walked], gradient: Moments, memory: Memory | Alignments
    ) -> tuple[tuple[SublayerStep, ...], Moments, Memory | Alignments]:
        steps = []
        for index, (walk, applied, before, _) in reversed(list(enumerate(block))):
            after, below, memory_below, factors = self._backward(index, walk, applied, gradient, memory)
            received = self._received(walk, after, memory, before)
            maps, weights = self.configuration.maps[index], self.weights[index]
            steps.append(SublayerStep(maps, weights, applied, walk, after, received, factors))
            gradient, memory = below, memory_below
        return tuple(reversed(steps)), gradient, memory

    def _forward(self, index: int, layer: int, state: Moments, lengths: Lengths) -> _Walked:
        maps, weights = self.configuration.maps[index], self.weights[index]
        position = self.configuration.position(layer, index)
        targets = self.configuration.variant.steps_at(position)
        applications: list[Applied] = []
        scatter = [lengths]

        def sublayer(node: Sublayer, moments: Array) -> Array:
            applications.append(maps.apply(moments, weights, self._around(node, fixed, lengths)))
            return applications[-1].output

        def divided(step: Walk, node: Norm) -> Array | None:
            if node.argument == Stream("x"):
                return lengths.normalised(step.moments[node.argument])
            if node is not dict(step.targets)["x"]:
                return None
            after = self._after(index, step, applications[0], lengths)
            scatter.append(after.fixed())
            return after.normalised(step.moments[node.argument])

        # Whether every token that enters the sublayer has been divided by a norm.
        of = shape(targets) if self.finite else None
        fixed = of is None or of.normalised or of.restarted or not lengths.squares.any()
        followed, coefficients = self.finite or self.partly, self._coefficients(position)
        step = self._walk(index)(targets, state, Tokens(), coefficients, sublayer, divided if followed else None)
        if followed and len(scatter) == 1:
            after = self._after(index, step, applications[0], lengths)
            scatter.append(after if self.finite else after.fixed())  # only the directions are followed then
        return _Walked(step, applications[0], lengths, scatter[-1])

    def _backward(
        self, index: int, walk: Walk, applied: Applied, gradient: Moments, memory: Memory | Alignments
    ) -> tuple[Backward, Moments, Memory | Alignments, dict[str, float]]:
        ones, width = {matrix.name: 1.0 for matrix in self.configuration.maps[index].matrices}, self.configuration.width
        if not isinstance(memory, Memory):
            return *streams.backward(walk, gradient, memory, applied, self._fluctuations(index, walk), width), ones
        if not self.finite:
            after = walk.backward(gradient, lambda _, received: applied.backward(received))
            return after, after.incoming(self.configuration.variant.streams), memory, ones
        after, moment, memory, factors = backward(
            walk, gradient["x", "x"], memory, applied, self._fluctuations(index, walk), width
        )
        return after, {("x", "x"): moment}, memory, factors

    def _received(self, walk: Walk, after: Backward, memory: Memory | Alignments, lengths: Lengths) -> Array:
        """∂𝓛/∂F averaged over the lengths with which x arrives; over those that the step adds, `backward` has averaged."""
        ((_, at_branch),) = after.at_sublayers.items()
        if not self.finite or (p := paths(walk)).of.pinned:
            return at_branch
        return self._at_layer({("x", "x"): at_branch}, memory, lengths.handed_on(p), walk.outgoing())["x", "x"]

    def _at_layer(self, gradient: Moments, memory: Memory | Alignments, lengths: Lengths, stream: Moments) -> Moments:
        """Average over the lengths with which the stream arrives here."""
        if not isinstance(memory, Memory) or not self.finite:
            return gradient
        return {("x", "x"): gradient["x", "x"] * memory.factor(lengths.relative(stream["x", "x"]))}

    def _after(self, index: int, step: Walk, applied: Applied, lengths: Lengths) -> Lengths:
        return lengths.after(paths(step), applied, self._fluctuations(index, step), self.configuration.width)

    def _fluctuations(self, index: int, step: Walk) -> Fluctuations:
        maps, weights = self.configuration.maps[index], self.weights[index]
        node = sublayer_node(step.targets)
        inner = dict(node.inner)
        variance = maps.pre_activation(step.moments[node.argument], weights, inner)
        return maps.fluctuations(variance, self.configuration.expansion, inner)

    def _around(self, node: Sublayer, fixed_lengths: bool, lengths: Lengths) -> Surroundings:
        c = self.configuration
        freedom = 1 / lengths.purity if self.finite or self.partly else None
        return Surroundings(
            c.causal, freedom, c.width // c.heads, fixed_lengths, c.depth, self.generator, dict(node.inner), c.heads
        )

    def _walk(self, index: int | None = None) -> Callable[..., Walk]:
        """What walks sublayer ``index`` of a block, or entry and read-out."""
        return self.loop.walk(index) if self.loop else Walk

    def _coefficients(self, position: Position) -> Callable[[Any], float]:
        return lambda formula: self.configuration.variant.coefficient(formula, position)


def _own_variance(lengths: Lengths, stream: Moments) -> Array:
    """Relative variance of each token's squared length."""
    return np.diagonal(lengths.relative(stream["x", "x"]))


def _no_sublayer(*_: object) -> Array:
    raise AssertionError("neither entry nor read-out holds a sublayer")
