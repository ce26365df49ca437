"""Theory's rows of a cell, told of the two ends that its source gives the network."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from empirical.measurement import Cell, boundaries, device_named
from theory.boundary import Boundary
from theory.quantities import quantity

SEQUENCES, _TOGETHER = 64, 32
"""Sequences of real data that a prediction averages over. Gradients are linear in the output's Γ at given inputs, and
sequences' input moments differ little, so the moments of ``_TOGETHER`` sequences are averaged before they are propagated."""


@lru_cache(maxsize=64)
def ends(cell: Cell) -> tuple[Boundary, ...]:
    """Measured ends of the cell's first members; none for an isotropic source, which theory assumes anyhow."""
    if cell.source == "isotropic":
        return ()
    members = SEQUENCES if cell.source == "text" else 1  # other sources give every member the same moments
    groups = [range(first, min(first + _TOGETHER, members)) for first in range(0, members, _TOGETHER)]
    return tuple(_average(boundaries(cell, group, device_named("cpu"))) for group in groups)


def _average(measured: tuple[Boundary, ...]) -> Boundary:
    return Boundary(np.mean([end.inputs for end in measured], axis=0), np.mean([end.gradients for end in measured], axis=0))


@lru_cache(maxsize=4096)
def predicted(cell: Cell, name: str, infinite_width: bool = False) -> np.ndarray:
    """Values of a quantity, row by row."""
    return quantity(name).predicted(cell.configuration, ends(cell), infinite_width)
