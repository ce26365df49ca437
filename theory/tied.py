"""Stacks whose blocks share one block's weights: the moments between blocks that a walk of single steps does not see.

A step's walk (`theory.propagation`) takes its sublayer's output for uncorrelated with the streams. If the weights have been
used before it is correlated with the outputs of the earlier applications, which the streams carry. So every source (the
input, each application's output; backwards the output's gradient, each application's J_Fᵀδ) is kept with its moments with all
others, every stream as a linear form over the sources, and each walk is told the moments between its own sources.
`theory.sublayers.shared` has the maps between applications.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from theory.algebra import Expression, Pointwise, Stream, Sublayer, sublayer_node, walk
from theory.configuration import Configuration
from theory.errors import InvalidInput
from theory.propagation import Backward, Form, Gram, Walk
from theory.sublayers.shared import Shared, SharedPointwise, shared

Array = np.ndarray
LARGEST = 4096
"""Most sources times tokens: their moment matrix then has 134 MB, and there are a few of them."""
_POINTS = 256  # of attention's quadrature: layers share their patterns' noise, so it does not average over them


class Sources:
    """Second moments between all sources of a pass; a linear form over them is an array (sources, tokens)."""

    def __init__(self, capacity: int, tokens: int) -> None:
        self._moments = np.zeros((capacity, tokens, capacity, tokens))
        self._count, self.tokens = 0, tokens

    def add(self, own: Array, others: Sequence[int] = (), between: Array | None = None) -> int:
        """Place of a further source; ``between``: its moments with some others, (tokens, others · tokens)."""
        place, self._count = self._count, self._count + 1
        self._moments[place, :, place] = own
        if others and between is not None:
            rows = between.reshape(self.tokens, len(others), self.tokens)
            self._moments[place, :, list(others)] = rows.swapaxes(0, 1)
            self._moments[list(others), :, place] = rows.transpose(1, 2, 0)
        return place

    def form(self, place: int) -> Array:
        """A source as a form."""
        form = np.zeros((len(self._moments), self.tokens))
        form[place] = 1.0
        return form

    def between(self, form: Array, others: list[Array]) -> Array:
        """Moments of a form with several others, (tokens, others · tokens)."""
        if not others:
            return np.zeros((self.tokens, 0))
        k = self._count
        reached = np.einsum("st,stuv->tuv", form[:k], self._moments[:k, :, :k])
        return np.einsum("tuv,muv->tmv", reached, np.stack(others)[:, :k]).reshape(self.tokens, -1)


@dataclass
class Group:
    """The applications of one sublayer (or pointwise function), with their arguments and outputs, and backwards δ and J_Fᵀδ.

    Backwards the later applications come first, so ``received`` and ``returned`` are in reversed order.
    """

    maps: Shared
    arguments: list[Array] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    received: list[Array] = field(default_factory=list)
    returned: list[int] = field(default_factory=list)


class Loop:
    """What the steps of one pass through a tied stack have in common; they are walked in order, and back in reversed order.

    Args:
        configuration: the network.
        tokens: size of the moment matrices.

    Raises:
        InvalidInput: norms inside the sublayer, or too many blocks and tokens for the memory.
    """

    def __init__(self, configuration: Configuration, tokens: int) -> None:
        variant = configuration.variant
        if any(sublayer_node(case.steps).inner for case in variant.cases):
            raise InvalidInput(
                f"no law for {variant.name}: norms inside a sublayer whose weights all blocks share (measure has it for any)"
            )
        self._configuration, self._generator = configuration, np.random.Generator(np.random.SFC64(2021))
        capacity = 1 + _applications(configuration)
        if capacity * tokens > LARGEST:
            raise InvalidInput(
                f"shared weights correlate all blocks: {capacity - 1} applications of {tokens} tokens are more than the "
                f"{LARGEST} that fit; use fewer blocks or --tokens"
            )
        self.forward, self.backward = Sources(capacity, tokens), Sources(capacity, tokens)
        self.streams: dict[str, Array] = {}
        self.gradients: dict[str, Array] = {}
        self._groups: dict[int | str, Group] = {}

    def walk(self, index: int | None) -> Callable[..., TiedWalk]:
        """As `Walk`, for sublayer ``index`` (from 0) of a block; None for entry and read-out, which hold none."""
        return partial(TiedWalk, loop=self, index=index)

    def group(self, node: Sublayer | Pointwise, index: int | None) -> Group:
        """The applications that share a node's weights; all places where a pointwise function stands are one group."""
        if isinstance(node, Pointwise):
            return self._groups.setdefault(node.function, Group(SharedPointwise(node.function)))
        assert index is not None
        if index not in self._groups:
            c = self._configuration
            maps = c.maps[index]
            self._groups[index] = Group(shared(maps, c.weights(maps), c.width // c.heads, c.causal, _POINTS, self._generator))
        return self._groups[index]


@dataclass
class TiedWalk(Walk):
    """A step's walk that knows the moments between its sources; ``members``: place of each of its nodes in its group."""

    loop: Loop = None  # type: ignore[assignment]
    index: int | None = None
    sources: dict[Any, Array] = field(default_factory=dict)
    members: dict[Expression, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.loop.streams:  # the entry, from the embedded input
            ((_, moment),) = self.streams.items()
            self.loop.streams = {"e": self.loop.forward.form(self.loop.forward.add(moment))}
        self.sources = {Stream(name): form for name, form in self.loop.streams.items()}
        super().__post_init__()
        self.loop.streams = {name: _over(self.forms[node], self.sources) for name, node in self.targets}

    def _form(self, node: Expression) -> Form:
        form = super()._form(node)
        if isinstance(node, Sublayer | Pointwise):
            group = self.loop.group(node, self.index)
            argument, forward = _over(self.forms[node.argument], self.sources), self.loop.forward
            between, own = group.maps.add(self.moments[node.argument], forward.between(argument, group.arguments))
            if own is not None:
                self.gram[node, node] = own
            source = forward.add(self.gram[node, node], group.outputs, between)
            self.members[node] = len(group.outputs)
            group.arguments.append(argument)
            group.outputs.append(source)
            _tell(self.gram, node, source, self.sources, forward)
        return form

    def backward(self, gradients: Mapping[tuple[str, str], Any], sublayer: Callable[[Any, Any], Any]) -> Backward:
        if not self.loop.gradients:  # the read-out, from the output's gradient
            ((pair, moment),) = gradients.items()
            self.loop.gradients = {pair[0]: self.loop.backward.form(self.loop.backward.add(moment))}
        result = super().backward(gradients, sublayer)
        assert isinstance(result, TiedBackward)
        incoming = [node.name for node in self.sources if isinstance(node, Stream)]
        self.loop.gradients = {name: _over(result.form(name), result.sources) for name in incoming}
        return result

    def _backward(self, gram: Gram) -> TiedBackward:
        sources = {("∂", name): form for name, form in self.loop.gradients.items()}
        return TiedBackward(self.carrier, gram, loop=self.loop, sources=sources)


@dataclass
class TiedBackward(Backward):
    """Gradients of a step, with the moments between its sources."""

    loop: Loop = None  # type: ignore[assignment]
    sources: dict[Any, Array] = field(default_factory=dict)

    def pass_down(self, node: Expression, step: Walk, sublayer: Callable[[Any, Any], Any]) -> None:
        received = self.forms.get(node, {})
        super().pass_down(node, step, sublayer)
        if isinstance(node, Sublayer | Pointwise):
            assert isinstance(step, TiedWalk)
            key, backward = ("J" if isinstance(node, Sublayer) else "φ", node), self.loop.backward
            group, form = self.loop.group(node, step.index), _over(received, self.sources)
            own = backward.between(form, [form])
            after = backward.between(form, group.received[::-1])
            between, own_returned = group.maps.backward(step.members[node], own, after)
            if own_returned is not None:
                self.gram[key, key] = own_returned
            source = backward.add(self.gram[key, key], group.returned[::-1], between)
            group.received.append(form)
            group.returned.append(source)
            _tell(self.gram, key, source, self.sources, backward)


def _over(form: Form, sources: Mapping[Any, Array]) -> Array:
    """A step's form as one over the sources of the whole pass."""
    shape = next(iter(sources.values()))
    return sum((coefficient * sources[source] for source, coefficient in form.items()), start=np.zeros_like(shape))


def _tell(gram: Gram, key: Any, source: int, known: dict[Any, Array], moments: Sources) -> None:
    """Put the moments of a new source with the step's others into its Gram matrix."""
    own = moments.form(source)
    for other, form in known.items():
        gram[key, other] = moments.between(own, [form])
        gram[other, key] = gram[key, other].T
    known[key] = own


def _applications(configuration: Configuration) -> int:
    """How often a sublayer or a pointwise function is applied in one pass."""
    variant = configuration.variant
    steps = [variant.start, (("y", variant.read_out),)]
    for layer in range(1, configuration.depth + 1):
        steps += [variant.steps_at(configuration.position(layer, index)) for index in range(len(configuration.maps))]
    return sum(isinstance(node, Sublayer | Pointwise) for step in steps for node in walk(*(root for _, root in step)))
