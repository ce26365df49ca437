"""Squared gradients of every weight matrix along a stack, read from a profile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from theory.algebra import Sublayer
from theory.prediction import Profile


@dataclass(frozen=True)
class MatrixGradient:
    """One weight matrix of one block.

    Attributes:
        variance: weight variance times fan-in.
        fan_in: rows.
        square: E‖∂𝓛/∂W‖_F².
    """

    variance: float
    fan_in: int
    square: float


def matrix_gradients(profile: Profile) -> Iterator[list[MatrixGradient]]:
    """The matrices of block 1, 2, … L, each block's in order of application."""
    configuration = profile.configuration
    for block in profile.blocks:
        found = []
        for step in block:
            variances = configuration.variances(step.maps)
            ((node, gradient),) = step.gradients.at_sublayers.items()
            assert isinstance(node, Sublayer)
            moments = step.walk.moments[node.argument]
            squares = step.maps.parameter_gradients(moments, gradient, variances, configuration.causal)
            for name, value in squares.items():
                fan_in = step.maps.fan_in(name, configuration.width, configuration.expansion)
                found.append(MatrixGradient(variances[name], fan_in, value * fan_in * configuration.width))
        yield found
