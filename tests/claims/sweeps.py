"""Cells of a claim: one network at several depths, with labels, predictions and figures."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from empirical.measurement import Cell
from empirical.statistics import mean_interval
from theory.configuration import Configuration
from theory.finite_size import allowance
from theory.quantities import quantity
from theory.variants import load

Array = np.ndarray
LEVEL = 0.99


@dataclass(frozen=True)
class Sweep:
    """One variant with one block at several depths.

    Args:
        base_seed: the profile's; every cell mixes it with its label, so that cells are independent of each other.
    """

    variant: str
    sublayers: str
    depths: tuple[int, ...]
    base_seed: int
    width: int = 256
    tokens: int = 2
    heads: int = 4
    causal: bool = False
    gain: float = 1.0
    source: str = "isotropic"
    engine: str = "matrix-free"
    dtype: str = "float64"

    def configuration(self, depth: int) -> Configuration:
        """The network at one depth."""
        names = tuple(self.sublayers.split(","))
        return Configuration(load(self.variant), names, depth, self.width, self.tokens, self.heads, self.causal, self.gain)

    @property
    def name(self) -> str:
        """Label of the sweep in figures and checks."""
        more = [f"gain {self.gain:g}"] if self.gain != 1 else []
        more += [self.source] if self.source != "isotropic" else []
        more += ["causal"] if self.causal else []
        more += [self.dtype] if self.dtype != "float64" else []
        return ", ".join([f"{self.variant} {self.sublayers}", *more])

    def label(self, depth: int) -> str:
        """Label of one cell."""
        return f"{self.name}, d={self.width}, n={self.tokens}, L={depth}"

    @cached_property
    def labels(self) -> tuple[tuple[int, str], ...]:
        """(depth, label) of every cell, rising."""
        return tuple((depth, self.label(depth)) for depth in self.depths)

    @cached_property
    def cells(self) -> dict[str, Cell]:
        """The cells by label."""
        return {label: self._cell(depth, label) for depth, label in self.labels}

    @property
    def names(self) -> tuple[str, ...]:
        """The cells' labels."""
        return tuple(self.cells)

    @property
    def deepest(self) -> str:
        """Label of the deepest cell."""
        return self.labels[-1][1]

    def _cell(self, depth: int, label: str) -> Cell:
        seed = (self.base_seed << 32) + zlib.crc32(label.encode())
        return Cell(self.configuration(depth), self.source, self.engine, self.dtype, seed)

    def predicted(self, name: str, depth: int) -> Array:
        """Theory's values of a quantity, layer by layer."""
        return quantity(name).predicted(self.configuration(depth))

    def predicted_rows(self, name: str, row: int) -> Array:
        """Theory's value of one row at every depth."""
        return np.array([self.predicted(name, depth)[row] for depth in self.depths])

    def allowance(self, depth: int) -> float:
        """The largest finite-size term over the layers at one depth.

        Raises:
            ValueError: not known for this network.
        """
        terms = allowance(self.configuration(depth))
        if terms is None:
            raise ValueError(f"no finite-size term for {self.name}")
        return float(terms.max())


def over_depth(sweep: Sweep, values: Mapping[str, Any], name: str, row: int, power: float = 1.0) -> list[dict[str, Any]]:
    """Series of one row over depth: the law, the measured means, and the held-out deepest one."""
    law = sweep.predicted_rows(name, row) ** power
    found = [_interval(values[label][name][:, row], power) for _, label in sweep.labels]
    series = [{"label": f"{sweep.name}: law", "style": "law", "x": list(sweep.depths), "y": law.tolist(), "group": sweep.name}]
    parts = (("measured", slice(None, -1)), ("heldout", slice(-1, None)))
    for style, part in parts:
        label = f"{sweep.name}: {'held out' if style == 'heldout' else 'measured'}"
        series.append(_points(label, style, sweep.depths[part], found[part], sweep.name))
    return series


def over_layers(
    sweep: Sweep, values: Mapping[str, Any], name: str, power: float = 1.0, law: bool = True, relative: bool = False
) -> list[dict[str, Any]]:
    """Series of a quantity over the layers of the deepest network; ``relative`` to its last row."""
    first = quantity(name).first_layer
    readings = values[sweep.deepest][name]
    scale = readings[:, -1].mean() if relative else 1.0
    layers = list(range(first, first + readings.shape[1]))
    found = [_interval(readings[:, k] / scale, power) for k in range(readings.shape[1])]
    series = []
    if law:
        predicted = sweep.predicted(name, sweep.depths[-1])
        line = (predicted / (predicted[-1] if relative else 1.0)) ** power
        series.append({"label": f"{sweep.name}: law", "style": "law", "x": layers, "y": line.tolist(), "group": sweep.name})
    return [*series, _points(f"{sweep.name}: measured", "measured", layers, found, sweep.name)]


def statement_line(label: str, x: Sequence[float], y: Sequence[float]) -> dict[str, Any]:
    """What the statement says, as a line."""
    return {"label": label, "style": "statement", "x": list(x), "y": list(y)}


def _interval(readings: Array, power: float) -> tuple[float, float, float]:
    found = mean_interval(readings[:, None], LEVEL)
    low, high = max(float(found.low[0]), 0.0), float(found.high[0])
    return float(found.value[0]) ** power, low**power, high**power


def _points(label: str, style: str, x: Any, found: list[tuple[float, float, float]], group: str) -> dict[str, Any]:
    value, low, high = (list(part) for part in zip(*found, strict=True))
    return {"label": label, "style": style, "x": list(x), "y": value, "low": low, "high": high, "group": group}


def figure(name: str, title: str, xlabel: str, ylabel: str, scales: str, series: list[dict[str, Any]]) -> dict[str, Any]:
    """A figure's record; ``scales`` such as ``log-log`` or ``linear-log`` (x first)."""
    xscale, yscale = scales.split("-")
    return {
        "name": name,
        "title": title,
        "xlabel": xlabel,
        "ylabel": ylabel,
        "xscale": xscale,
        "yscale": yscale,
        "series": series,
    }
