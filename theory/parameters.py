"""Squared gradients of every weight matrix along a stack, read from a profile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from theory.stack import Profile


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
            squares = step.applied.parameter_gradients(step.received)
            for matrix in step.maps.matrices:
                fan_in, _ = matrix.shape(configuration.width, configuration.expansion)
                square = squares[matrix.name] * step.fluctuations[matrix.name] * fan_in * configuration.width
                found.append(MatrixGradient(step.weights.variances[matrix.name], fan_in, square))
        yield found
