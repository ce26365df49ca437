"""Numeric predictions: the recursion of any variant and any sublayers, layer by layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from theory.configuration import Configuration
from theory.errors import InvalidInput
from theory.propagation import Backward, Tokens, Walk
from theory.sublayers import SublayerMaps

Array = np.ndarray
Moments = dict[tuple[str, str], Array]
"""Second moments by pair of streams, each (tokens, tokens)."""


@dataclass(frozen=True)
class SublayerStep:
    """One sublayer step of a block, walked forward and backward."""

    maps: SublayerMaps
    walk: Walk
    gradients: Backward


@dataclass(frozen=True)
class Profile:
    """Second moments along the stack: ``forward`` and ``backward`` at layers 0..L, ``blocks`` for blocks 1..L."""

    configuration: Configuration
    forward: tuple[Moments, ...]
    backward: tuple[Moments, ...]
    blocks: tuple[tuple[SublayerStep, ...], ...]


@dataclass(frozen=True)
class Quantity:
    """Something that theory predicts and a probe of the same name measures, layer by layer.

    Args:
        name: as on the command line.
        definition: one line, with the normalisation.
        read: its values from a profile.
        first_layer: layer of the first value: 0 for streams, 1 for blocks.
        tokens: how many tokens a token-wise network needs for it (None: all of the configuration's).
    """

    name: str
    definition: str
    read: Callable[[Profile], list[float]]
    first_layer: int = 0
    tokens: int | None = 1

    def predict(self, configuration: Configuration) -> list[dict[str, float]]:
        """Rows ``{"layer", "mean", "low", "high"}``, at leading order in 1/width.

        ``low`` and ``high`` equal ``mean``: a law has no sampling error.

        Raises:
            InvalidInput: two tokens are needed and there is one; a sublayer without a law here; overflow.
        """
        if self.tokens == 2 and configuration.tokens < 2:
            raise InvalidInput(f"{self.name} compares two tokens: give --tokens 2 or more")
        tokens = configuration.tokens if self.tokens is None or not configuration.tokenwise else self.tokens
        with np.errstate(all="ignore"):
            values = self.read(profile(configuration, tokens))
        if not np.all(np.isfinite(values)):
            raise InvalidInput(
                f"{self.name} of {configuration.variant.name} overflows at depth {configuration.depth}: "
                "use fewer blocks or a smaller gain"
            )
        return [{"layer": self.first_layer + k, "mean": v, "low": v, "high": v} for k, v in enumerate(values)]

    def predicted(self, configuration: Configuration) -> Array:
        """The means of `predict`, one per layer."""
        return np.array([row["mean"] for row in self.predict(configuration)])


@lru_cache(maxsize=64)
def profile(configuration: Configuration, tokens: int) -> Profile:
    """Propagate second moments of isotropic inputs forward, and of an isotropic unit output gradient backward.

    Args:
        configuration: the network.
        tokens: size of the moment matrices (token-wise networks need only 1 or 2 of their tokens).

    Raises:
        InvalidInput: attention behind an argument that is not normalised.
    """
    variant, depth = configuration.variant, configuration.depth
    forward: list[Moments] = [{(a, b): np.eye(tokens) for a in variant.streams for b in variant.streams}]
    walks: list[list[Walk]] = []
    for layer in range(1, depth + 1):
        state = forward[-1]
        walks.append([])
        for maps in configuration.maps:
            walks[-1].append(_walk(configuration, maps, layer, state))
            state = walks[-1][-1].outgoing()
        forward.append(state)
    read_out = Walk((("y", variant.read_out),), forward[-1], Tokens(), _coefficients(configuration, depth), _no_sublayer)
    gradient = read_out.backward({("y", "y"): np.eye(tokens)}, _no_sublayer).incoming(variant.streams)
    backward, blocks = [gradient], []
    for block in reversed(walks):
        steps = []
        for maps, walk in zip(reversed(configuration.maps), reversed(block), strict=True):
            gradients = walk.backward(gradient, _backward_map(configuration, maps))
            gradient = gradients.incoming(variant.streams)
            steps.append(SublayerStep(maps, walk, gradients))
        backward.append(gradient)
        blocks.append(tuple(reversed(steps)))
    return Profile(configuration, tuple(forward), tuple(reversed(backward)), tuple(reversed(blocks)))


def _coefficients(configuration: Configuration, layer: int) -> Callable[[Any], float]:
    return lambda formula: configuration.variant.coefficient(formula, configuration.depth, layer)


def _walk(configuration: Configuration, maps: SublayerMaps, layer: int, state: Moments) -> Walk:
    weights = configuration.weights(maps)
    return Walk(
        configuration.variant.steps,
        state,
        Tokens(),
        _coefficients(configuration, layer),
        lambda moments: maps.forward(moments, weights, configuration.causal),
    )


def _backward_map(configuration: Configuration, maps: SublayerMaps) -> Callable[[Array, Array], Array]:
    weights = configuration.weights(maps)
    return lambda moments, gradient: maps.backward(moments, gradient, weights, configuration.causal)


def _no_sublayer(*moments: Array) -> Array:
    raise AssertionError("a read-out holds no sublayer")


def mean_square(moments: Moments) -> float:
    """Second moment of the stream x, averaged over tokens."""
    return float(np.diagonal(moments["x", "x"]).mean())


def mean_cosine(moments: Moments) -> float:
    """Mean over pairs of different tokens of M_ij / √(M_ii M_jj), for the stream x."""
    matrix = moments["x", "x"]
    rms = np.sqrt(np.diagonal(matrix))
    cosines = matrix / np.multiply.outer(rms, rms)
    count = len(matrix)
    return float((cosines.sum() - np.trace(cosines)) / (count * (count - 1)))
