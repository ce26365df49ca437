"""Figures of a claim: measurements with intervals, laws as lines, statements as dashed lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from empirical.estimands import log_scatter_relative
from empirical.statistics import estimate, mean_interval
from empirical.training import Arm
from tests.claims.sweeps import Sweep
from theory.quantities import quantity

Array = np.ndarray
Values = Mapping[str, Mapping[str, Array]]
"""Label of a cell → quantity → readings (members, rows)."""
Figure = Callable[[Values], dict[str, Any]]
Line = tuple[str, Sequence[float], Sequence[float]]
"""What a statement says: label, x, y."""
LEVEL = 0.99


def against_depth(
    title: str,
    ylabel: str,
    sweeps: Iterable[Sweep],
    name: str,
    row: int,
    power: float = 1.0,
    lines: Iterable[Line] = (),
    file: str = "depth",
) -> Figure:
    """One row of a quantity over depth, both axes logarithmic; the deepest network is marked as held out."""
    return lambda values: {
        "name": file,
        "title": title,
        "xlabel": "depth L",
        "ylabel": ylabel,
        "xscale": "log",
        "yscale": "log",
        "series": [series for sweep in sweeps for series in _over_depth(sweep, values, name, row, power)] + _statements(lines),
    }


def input_against_depth(sweeps: Sequence[Sweep], name: str, statement: str) -> Figure:
    """Post-LN's gradient norm at the input over the output's, against a statement that it is L + 1."""
    depths = list(sweeps[0].depths)
    return against_depth(
        "Post-LN: gradient norm at the input against depth",
        "norm at l = 0 over norm at the output",
        sweeps,
        name,
        0,
        0.5,
        lines=[(statement, depths, [depth + 1 for depth in depths])],
    )


def across_layers(
    title: str,
    ylabel: str,
    sweeps: Iterable[Sweep],
    name: str,
    power: float = 1.0,
    relative: bool = False,
    scales: tuple[str, str] = ("linear", "log"),
    lines: Iterable[Line] = (),
    file: str = "layers",
) -> Figure:
    """A quantity over the layers of each sweep's deepest network; ``relative`` to its last row."""
    first = quantity(name).first_layer
    return lambda values: {
        "name": file,
        "title": title,
        "xlabel": "block l" if first else "layer l",
        "ylabel": ylabel,
        "xscale": scales[0],
        "yscale": scales[1],
        "series": [series for sweep in sweeps for series in over_layers(sweep, values, name, power, relative)]
        + _statements(lines),
    }


def across_blocks(title: str, sweep: Sweep, file: str = "matrices") -> Figure:
    """The squared gradient of every weight matrix over the blocks of the deepest network, one curve a kind of matrix."""
    return lambda values: {
        "name": file,
        "title": title,
        "xlabel": "block l",
        "ylabel": "squared Frobenius norm",
        "xscale": "linear",
        "yscale": "log",
        "series": [series for kind in range(len(sweep.matrices)) for series in _over_blocks(sweep, values, kind)],
    }


def learning_curves(title: str, arms: Mapping[str, Arm], yardsticks: Mapping[str, str], file: str = "curves") -> Figure:
    """Held-out loss over steps, one curve an arm (by its label); ``yardsticks`` are losses to compare with: quantity → name."""

    def draw(values: Values) -> dict[str, Any]:
        first, steps = values[next(iter(arms))], max(arm.steps for arm in arms.values())
        return {
            "name": file,
            "title": title,
            "xlabel": "step",
            "ylabel": "held-out loss",
            "xscale": "linear",
            "yscale": "linear",
            "series": [_curve(label, arm.evaluated, values[label]["held-out-loss"]) for label, arm in arms.items()]
            + _levels(first, yardsticks, [0, steps]),
        }

    return draw


def losses_against_rate(title: str, lines: Mapping[str, Mapping[str, Arm]], yardsticks: Mapping[str, str], file: str) -> Figure:
    """Final losses against peak rates, one series a name; its arms are given by their labels."""

    def draw(values: Values) -> dict[str, Any]:
        series = []
        for name, arms in lines.items():
            found = [_interval(values[label]["final-loss"][:, 0], 1.0) for label in arms]
            series.append(_points(name, "measured", [arm.schedule.peak for arm in arms.values()], found, name))
        first = next(iter(lines.values()))
        rates, some = sorted(arm.schedule.peak for arm in first.values()), values[next(iter(first))]
        axes = {"xlabel": "peak rate", "ylabel": "held-out loss", "xscale": "log", "yscale": "linear"}
        return {"name": file, "title": title, "series": series + _levels(some, yardsticks, rates)} | axes

    return draw


def scores_by_arm(title: str, arms: Iterable[str], quantity: str, file: str) -> Figure:
    """One number of each arm, side by side."""

    def points(values: Values, place: int, label: str) -> dict[str, Any]:
        return _points(label, "measured", [place], [_interval(values[label][quantity][:, 0], 1.0)], label)

    return lambda values: {
        "name": file,
        "title": title,
        "xlabel": "arm",
        "ylabel": quantity,
        "xscale": "linear",
        "yscale": "linear",
        "series": [points(values, place, label) for place, label in enumerate(arms, 1)],
    }


def _curve(label: str, x: Sequence[int], readings: Array) -> dict[str, Any]:
    """Means with intervals over networks; values at the start, before anything is learned, would hide the rest."""
    found = mean_interval(readings[:, 1:], LEVEL)
    y, low, high = (part.tolist() for part in (found.value, found.low, found.high))
    return {"label": label, "style": "measured", "x": list(x)[1:], "y": y, "low": low, "high": high, "group": label}


def layers_along_training(
    title: str, arm: Arm, label: str, quantity: str, rows: Sequence[int], x: Sequence[int], xlabel: str, file: str
) -> Figure:
    """``rows`` of a squared gradient over the last of them, one series for each step after which gradients were read."""

    def series(values: Values, step: int) -> dict[str, Any]:
        readings = values[label][f"{quantity}@{step}"][:, list(rows)]
        found = [_interval(readings[:, k] / readings[:, -1].mean(), 1.0) for k in range(len(rows))]
        return _points(f"after {step} steps", "measured", x, found, str(step))

    return lambda values: {
        "name": file,
        "title": title,
        "xlabel": xlabel,
        "ylabel": "square over the last one's",
        "xscale": "linear",
        "yscale": "log",
        "series": [series(values, step) for step in arm.read if f"{quantity}@{step}" in values[label]],
    }


def groups_along_training(title: str, arm: Arm, label: str, groups: Sequence[str], file: str) -> Figure:
    """Squared gradient of every group of parameters over the steps after which gradients were read."""

    def series(values: Values, row: int) -> dict[str, Any]:
        steps = [step for step in arm.read if f"group-gradient@{step}" in values[label]]
        found = [_interval(values[label][f"group-gradient@{step}"][:, row], 1.0) for step in steps]
        return _points(groups[row], "measured", [step + 1 for step in steps], found, groups[row])

    return lambda values: {
        "name": file,
        "title": title,
        "xlabel": "step + 1",
        "ylabel": "squared gradient of all parameters of a group",
        "xscale": "log",
        "yscale": "log",
        "series": [series(values, row) for row in range(len(groups))],
    }


def _over_blocks(sweep: Sweep, values: Values, kind: int) -> list[dict[str, Any]]:
    of_kind, matrix = slice(kind, None, len(sweep.matrices)), sweep.matrices[kind]
    law = sweep.predicted("parameter-gradient", sweep.depths[-1])[of_kind]
    readings = values[sweep.deepest]["parameter-gradient"][:, of_kind]
    blocks = list(range(1, len(law) + 1))
    found = [_interval(readings[:, k], 1.0) for k in range(len(law))]
    line = {"label": f"{matrix}: law", "style": "law", "x": blocks, "y": law.tolist(), "group": matrix}
    return [line, _points(f"{matrix}: measured", "measured", blocks, found, matrix)]


def scatter_across_layers(title: str, sweeps: Iterable[Sweep]) -> Figure:
    """Variance over networks of log|∂𝓛/∂x_l|² over the layers of each sweep's deepest network."""
    return lambda values: {
        "name": "scatter",
        "title": title,
        "xlabel": "layer l",
        "ylabel": "variance of log |∂𝓛/∂x_l|² over networks",
        "xscale": "linear",
        "yscale": "log",
        "series": [series for sweep in sweeps for series in _scatter(sweep, values)],
    }


def _scatter(sweep: Sweep, values: Values) -> list[dict[str, Any]]:
    names, depth = ("log-gradient", "squared-log-gradient"), sweep.depths[-1]
    mean, square = (sweep.predicted(name, depth) for name in names)
    layers = list(range(depth + 1))
    own = {name: values[sweep.deepest][name] for name in names}
    found = estimate(log_scatter_relative("own", np.ones(depth + 1)), {"own": own}, LEVEL)
    points = [tuple(float(np.exp(part[k])) for part in (found.value, found.low, found.high)) for k in layers]
    return [
        {"label": f"{sweep.name}: law", "style": "law", "x": layers, "y": (square - mean**2).tolist(), "group": sweep.name},
        _points(f"{sweep.name}: measured", "measured", layers, points, sweep.name),  # type: ignore[arg-type]
    ]


def _over_depth(sweep: Sweep, values: Values, name: str, row: int, power: float) -> list[dict[str, Any]]:
    law = sweep.predicted_rows(name, row) ** power
    found = [_interval(values[label][name][:, row], power) for _, label in sweep.labels]
    series = [{"label": f"{sweep.name}: law", "style": "law", "x": list(sweep.depths), "y": law.tolist(), "group": sweep.name}]
    for style, part, words in (("measured", slice(None, -1), "measured"), ("heldout", slice(-1, None), "held out")):
        series.append(_points(f"{sweep.name}: {words}", style, sweep.depths[part], found[part], sweep.name))
    return series


def over_layers(sweep: Sweep, values: Values, name: str, power: float = 1.0, relative: bool = False) -> list[dict[str, Any]]:
    """Law and measurement of a quantity at every layer of the sweep's deepest network."""
    first = quantity(name).first_layer
    readings = values[sweep.deepest][name]
    layers = list(range(first, first + readings.shape[1]))
    scale = readings[:, -1].mean() if relative else 1.0
    found = [_interval(readings[:, k] / scale, power) for k in range(readings.shape[1])]
    predicted = sweep.predicted(name, sweep.depths[-1])
    line = (predicted / (predicted[-1] if relative else 1.0)) ** power
    law = {"label": f"{sweep.name}: law", "style": "law", "x": layers, "y": line.tolist(), "group": sweep.name}
    return [law, _points(f"{sweep.name}: measured", "measured", layers, found, sweep.name)]


def _statements(lines: Iterable[Line]) -> list[dict[str, Any]]:
    return [{"label": label, "style": "statement", "x": list(x), "y": list(y)} for label, x, y in lines]


def _levels(readings: Mapping[str, Array], yardsticks: Mapping[str, str], x: Sequence[float]) -> list[dict[str, Any]]:
    """A level line for each yardstick (quantity → name) that the readings have."""
    levels = {name: float(readings[quantity].mean()) for quantity, name in yardsticks.items() if quantity in readings}
    return _statements((name, x, [level] * len(x)) for name, level in levels.items())


def _interval(readings: Array, power: float) -> tuple[float, float, float]:
    found = mean_interval(readings[:, None], LEVEL)
    low, high = max(float(found.low[0]), 0.0), float(found.high[0])
    return float(found.value[0]) ** power, low**power, high**power


def _points(label: str, style: str, x: Sequence[float], found: list[tuple[float, float, float]], group: str) -> dict[str, Any]:
    value, low, high = (list(part) for part in zip(*found, strict=True))
    return {"label": label, "style": style, "x": list(x), "y": value, "low": low, "high": high, "group": group}
