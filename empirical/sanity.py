"""Is a measurement valid at all? Asked before every claim, in the order in which faults hide each other."""

from __future__ import annotations

from collections import defaultdict
from math import sqrt

import numpy as np

from empirical.layers import WeightRecord
from empirical.measurement import Cell, Readings
from empirical.probes import PROBES
from theory.quantities import QUANTITIES

_SIGMAS = 6.0
"""A weight variance further from its intention than this many standard errors is a fault (chance 2e-9 a matrix)."""


class InvalidMeasurement(FloatingPointError):
    """The readings are not a measurement of the intended network; the message is one line."""


def gate(cell: Cell, readings: Readings, zeros_allowed: bool = False) -> list[str]:
    """What was checked, one line each.

    Args:
        cell: what was meant to be measured.
        readings: what was measured.
        zeros_allowed: underflow itself is what is measured; ratios of what has underflowed are then not looked at.

    Raises:
        InvalidMeasurement: a reading is missing, not finite, or zero where its law is not; weights of another variance than
            intended; two layers with the same weights, or with other weights where all share one block's.
    """
    return [
        _complete(cell, readings),
        _finite(cell, readings, zeros_allowed),
        _variances(readings),
        _different(cell, readings),
    ]


def _complete(cell: Cell, readings: Readings) -> str:
    missing = set(cell.quantities) - set(readings.values)
    if missing:
        raise InvalidMeasurement(f"no readings of {', '.join(sorted(missing))}")
    for name, values in readings.values.items():
        rows, depth = len(QUANTITIES[name].labels(cell.configuration)), cell.configuration.depth
        if values.shape != (readings.members, rows):
            raise InvalidMeasurement(f"{name}: {values.shape[1]} readings a network where depth {depth} has {rows}")
    total = sum(values.size for values in readings.values.values())
    return f"all {total} readings of {readings.members} networks are there"


def _finite(cell: Cell, readings: Readings, zeros_allowed: bool) -> str:
    gated = False
    for name, values in readings.values.items():
        if zeros_allowed and PROBES[name].is_ratio:
            continue
        _, rows = np.nonzero(~np.isfinite(values))
        if len(rows):
            raise InvalidMeasurement(
                f"{name} is not finite at {_place(cell, name, rows[0])} in {cell.dtype}: use a wider dtype or fewer blocks"
            )
        if PROBES[name].may_vanish or zeros_allowed:
            continue
        zeros = (values == 0).any(axis=0)
        gated |= bool(zeros.any())
        rows = np.nonzero(zeros & ~_zero_by_law(cell, name) if zeros.any() else zeros)[0]
        if len(rows):
            place = _place(cell, name, rows[-1])
            raise InvalidMeasurement(
                f"{name} is exactly zero at {place} in {cell.dtype}: it underflows; use a wider dtype or fewer blocks"
            )
    if zeros_allowed:
        return "every reading is finite"
    return "every reading is finite and non-zero" + (", but for zeros behind closed gates" if gated else "")


def _zero_by_law(cell: Cell, name: str) -> np.ndarray:
    """Rows that theory says are exactly 0, in blocks with a gate that starts closed; a law that merely underflows is none."""
    configuration, rows = cell.configuration, QUANTITIES[name].labels(cell.configuration)
    closed = [bool(row["layer"]) and configuration.has_closed_gate(row["layer"]) for row in rows]
    if not any(closed):
        return np.zeros(len(rows), dtype=bool)
    return np.array(closed) & (QUANTITIES[name].predicted(configuration, infinite_width=True) == 0)


def _place(cell: Cell, name: str, row: int) -> str:
    label = QUANTITIES[name].labels(cell.configuration)[row]
    return f"layer {label['layer']}" + (f" ({label['matrix']})" if "matrix" in label else "")


def _variances(readings: Readings) -> str:
    pooled: dict[tuple[int, str], dict[tuple[float, ...], WeightRecord]] = defaultdict(dict)
    for batch in readings.weights:
        for (_, index, matrix), record in batch.items():
            pooled[index, matrix][record.fingerprint] = record  # clones are one draw
    worst = 0.0
    for (index, matrix), distinct in pooled.items():
        records = list(distinct.values())
        count = sum(record.count for record in records)
        measured = sum(record.mean_square * record.count for record in records) / count
        ratio = measured / records[0].intended
        excess = 4 / 5 if records[0].uniform else 2  # Var x²/E[x²]²
        if abs(ratio - 1) > _SIGMAS * sqrt(excess / count):
            raise InvalidMeasurement(f"sublayer {index + 1}, {matrix}: the weights' variance is {ratio:.4f} of the intended one")
        worst = max(worst, abs(ratio - 1))
    biases = sum(matrix.startswith("bias of ") for _, matrix in pooled)
    kinds = f"{len(pooled) - biases} kinds of matrix" + (f", {biases} of bias" if biases else "")
    return f"weight variances within {worst:.2%} of the intended ones ({kinds})"


def _different(cell: Cell, readings: Readings) -> str:
    tied = cell.configuration.variant.tied
    for batch in readings.weights:
        prints = {key: record.fingerprint for key, record in batch.items() if key[0] == 1 or not tied}
        if len(set(prints.values())) < len(prints):
            raise InvalidMeasurement("two matrices of one network hold the same weights: layers are clones of each other")
        if tied and any(record.fingerprint != prints.get((1, *key[1:])) for key, record in batch.items()):
            raise InvalidMeasurement("the blocks hold different weights, and this variant's share one block's")
    return "all blocks share one block's weights" if tied else "the weights of all layers differ"
