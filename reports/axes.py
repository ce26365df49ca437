"""Axes fit for what they show: limits, ticks and their labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

MARGIN = 0.05
LEAST_LOG_SPAN = math.log10(1.6)
LEAST_LINEAR_SPAN = 0.004
MOST_TICKS = 12


def arrange(axes: Axes, scales: tuple[str, str], x: Sequence[float], y: Sequence[float]) -> None:
    """Scale, limit and tick both axes for the numbers drawn on them."""
    for axis, scale, values in ((axes.xaxis, scales[0], x), (axes.yaxis, scales[1], y)):
        (axes.set_xscale if axis is axes.xaxis else axes.set_yscale)(scale)
        if not values:
            continue
        layers = axis is axes.xaxis and scale == "linear" and all(value == int(value) for value in values)
        limits = _log_limits(values) if scale == "log" else _linear_limits(values, least=1.0 if layers else 1e-300)
        (axes.set_xlim if axis is axes.xaxis else axes.set_ylim)(limits)
        if scale == "log":
            _log_ticks(axis, sorted(set(values)) if axis is axes.xaxis else [], limits)
        elif layers:
            axis.set_major_locator(MaxNLocator(nbins=10, integer=True))


def _log_limits(values: Iterable[float]) -> tuple[float, float]:
    logs = [math.log10(value) for value in values]
    middle, span = (max(logs) + min(logs)) / 2, max(max(logs) - min(logs), LEAST_LOG_SPAN)
    half = span * (0.5 + MARGIN)
    return 10 ** max(middle - half, -300), 10 ** min(middle + half, 300)


def _linear_limits(values: Iterable[float], least: float) -> tuple[float, float]:
    values = list(values)
    low, high = min(values), max(values)
    span = max(high - low, LEAST_LINEAR_SPAN * max(abs(low), abs(high)), least)
    middle, half = low / 2 + high / 2, span * (0.5 + MARGIN)
    return middle - half, middle + half


def _log_ticks(axis: Axis, data: Sequence[float], limits: tuple[float, float]) -> None:
    decades = math.log10(limits[1] / limits[0])
    powers = [value for value in data if math.log2(value) == round(math.log2(value))]
    if powers and len(powers) * 2 >= len(data):
        axis.set_major_locator(FixedLocator(powers[:: math.ceil(len(powers) / MOST_TICKS)]))
        axis.set_minor_locator(NullLocator())
    elif decades < 0.9:
        axis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 2.5, 5, 10]))
        axis.set_minor_locator(NullLocator())
    else:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 2.2 else (1,), numticks=9))
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda value, _: _label(value)))


def _label(value: float) -> str:
    if value <= 0:
        return ""
    if 1e-3 <= value < 1e4:
        return f"{value:.6g}"
    exponent = math.floor(math.log10(value) + 1e-9)
    front = value / 10**exponent
    return rf"$10^{{{exponent}}}$" if abs(front - 1) < 1e-6 else rf"${front:.3g}\!\times\!10^{{{exponent}}}$"
