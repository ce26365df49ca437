"""Numeric predictions: the recursion of any variant and any sublayers, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from theory.algebra import Sublayer
from theory.configuration import Configuration, check_quantity
from theory.errors import InvalidInput
from theory.propagation import Backward, Tokens, Walk
from theory.sublayers import SublayerMaps

Array = np.ndarray
Moments = dict[tuple[str, str], Array]


@dataclass(frozen=True)
class Profile:
    """Second moments along the stack: lists run over layers 0..L, matrices are (tokens, tokens)."""

    forward: tuple[Moments, ...]
    backward: tuple[Moments, ...]
    parameters: tuple[float, ...]
    """E‖∂𝓛/∂W‖_F² of the output matrix of each block's last sublayer, blocks 1..L."""


def profile(configuration: Configuration, tokens: int, inputs: Array | None = None, output: Array | None = None) -> Profile:
    """Propagate second moments forward and backward.

    Args:
        configuration: the network.
        tokens: size of the moment matrices (token-wise networks need only 1 or 2 of their tokens).
        inputs: moments of the embedded input, (tokens, tokens); identity unless given.
        output: moments of the gradient at the output, (tokens, tokens); identity unless given.

    Raises:
        InvalidInput: attention behind an argument that is not normalised.
    """
    variant, depth = configuration.variant, configuration.depth
    start = np.eye(tokens) if inputs is None else inputs
    forward: list[Moments] = [{(a, b): start for a in variant.streams for b in variant.streams}]
    steps: list[tuple[SublayerMaps, Walk]] = []
    for layer in range(1, depth + 1):
        state = forward[-1]
        for maps in configuration.maps:
            step = _step(configuration, maps, layer, state)
            steps.append((maps, step))
            state = step.outgoing()
        forward.append(state)
    read_out = Walk((("y", variant.read_out),), forward[-1], Tokens(), _coefficients(configuration, depth), _no_sublayer)
    upstream = np.eye(tokens) if output is None else output
    gradient = read_out.backward({("y", "y"): upstream}, _no_sublayer).incoming(variant.streams)
    backward, parameters = [gradient], []
    for number in range(len(steps) - 1, -1, -1):
        maps, step = steps[number]
        result = step.backward(gradient, _backward_map(configuration, maps))
        gradient = result.incoming(variant.streams)
        if number % len(configuration.sublayers) == len(configuration.sublayers) - 1:
            parameters.append(_parameter_gradient(configuration, maps, step, result))
        if number % len(configuration.sublayers) == 0:
            backward.append(gradient)
    return Profile(tuple(forward), tuple(backward[::-1]), tuple(parameters[::-1]))


def predict(configuration: Configuration, quantity: str) -> list[dict[str, float]]:
    """Rows ``{"layer", "mean", "low", "high"}`` of one quantity of the stream x, at leading order in 1/width.

    ``low`` and ``high`` equal ``mean``: the law has no sampling error.

    Raises:
        InvalidInput: unknown quantity, a cosine of a single token.
    """
    check_quantity(quantity)
    if quantity.endswith("cosine") and configuration.tokens < 2:
        raise InvalidInput(f"{quantity} compares two tokens: give --tokens 2 or more")
    tokens = _tokens(configuration, quantity)
    values = _read(_cached_profile(configuration, tokens), quantity)
    first = 1 if quantity == "parameter-gradient" else 0
    return [{"layer": first + k, "mean": v, "low": v, "high": v} for k, v in enumerate(values)]


def predicted(configuration: Configuration, quantity: str) -> Array:
    """The means of `predict` as an array over layers."""
    return np.array([row["mean"] for row in predict(configuration, quantity)])


def _tokens(configuration: Configuration, quantity: str) -> int:
    if not configuration.tokenwise or quantity == "parameter-gradient":
        return configuration.tokens
    return 2 if quantity.endswith("cosine") else 1


@lru_cache(maxsize=32)
def _cached_profile(configuration: Configuration, tokens: int) -> Profile:
    return profile(configuration, tokens)


def _read(result: Profile, quantity: str) -> list[float]:
    x = ("x", "x")
    match quantity:
        case "stream-gradient":
            return [float(np.diagonal(state[x]).mean()) for state in result.backward]
        case "stream-moment":
            return [float(np.diagonal(state[x]).mean()) for state in result.forward]
        case "token-cosine":
            return [mean_cosine(state[x]) for state in result.forward]
        case "gradient-cosine":
            return [mean_cosine(state[x]) for state in result.backward]
    return list(result.parameters)


def mean_cosine(moments: Array) -> float:
    """Mean over pairs of different tokens of M_ij / √(M_ii M_jj)."""
    rms = np.sqrt(np.diagonal(moments))
    cosines = moments / np.multiply.outer(rms, rms)
    count = len(moments)
    return float((cosines.sum() - np.trace(cosines)) / (count * (count - 1)))


def _coefficients(configuration: Configuration, layer: int):  # noqa: ANN202
    return lambda formula: configuration.variant.coefficient(formula, configuration.depth, layer)


def _step(configuration: Configuration, maps: SublayerMaps, layer: int, state: Moments) -> Walk:
    variances = configuration.variances(maps)
    return Walk(
        configuration.variant.steps,
        state,
        Tokens(),
        _coefficients(configuration, layer),
        lambda moments: maps.forward(moments, variances, configuration.causal),
    )


def _backward_map(configuration: Configuration, maps: SublayerMaps):  # noqa: ANN202
    variances = configuration.variances(maps)
    return lambda moments, gradient: maps.backward(moments, gradient, variances, configuration.causal)


def _no_sublayer(*moments: Array) -> Array:
    raise AssertionError("a read-out holds no sublayer")


def _parameter_gradient(configuration: Configuration, maps: SublayerMaps, step: Walk, result: Backward) -> float:
    """Summed over the applications of the sublayer (one, since equal nodes are one application)."""
    width, hidden = configuration.width, configuration.width * configuration.expansion
    entries = width * (hidden if len(maps.matrices) == 2 else width)
    variances = configuration.variances(maps)
    total = 0.0
    for node, gradient in result.at_sublayers.items():
        assert isinstance(node, Sublayer)
        total += maps.output_gradient(step.moments[node.argument], gradient, variances, configuration.causal)
    return entries * total
