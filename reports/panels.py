"""Small multiples: one small panel a variant on common axes, to be compared by eye."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from reports.atlas import Panels
from reports.figures import COLOURS, DPI, GREY, LOOK, MARKERS, png
from reports.numbers import plain
from reports.records import Entry, Series

COLUMNS, PANEL = 6, (2.05, 1.55)
LIMITS = (1e-2, 1e2)
"""Of every panel's ordinate; what leaves them is written beside the edge."""
MOST_MARKERS = 9


def draw_panels(panels: Panels) -> bytes:
    """The panels as a PNG, the same bytes for the same numbers."""
    rows = math.ceil(len(panels.entries) / COLUMNS)
    with matplotlib.style.context(["default", LOOK | {"font.size": 9, "axes.titlesize": 9.5, "axes.titlepad": 4}]):
        canvas = Canvas(figsize=(COLUMNS * PANEL[0], rows * PANEL[1] + 0.9), dpi=DPI)
        agg = FigureCanvasAgg(canvas)
        sublayers = list(dict.fromkeys(entry.sublayers for own in panels.entries for entry in own))
        ((usual, _),) = Counter(entry.depth for own in panels.entries for entry in own).most_common(1)
        grid = canvas.subplots(rows, COLUMNS, sharex=True, sharey=True, squeeze=False)
        for place, axes in enumerate(grid.flat):
            if place < len(panels.entries):
                _panel(axes, panels.entries[place], sublayers, usual)
            else:
                axes.set_axis_off()
                above = grid[place // COLUMNS - 1, place % COLUMNS] if place >= COLUMNS else axes
                above.tick_params(labelbottom=True)
        canvas.suptitle(panels.title, x=0.01, ha="left", fontweight="bold", fontsize=12)
        canvas.supxlabel(f"layer l over depth L; L = {usual} unless a panel says otherwise", x=0.01, ha="left", fontsize=10)
        _legend(canvas, sublayers)
        agg.draw()
        return png(agg)


def _panel(axes: Axes, entries: tuple[Entry, ...], sublayers: list[str], usual: int) -> None:
    axes.set_yscale("log")
    axes.set_ylim(*LIMITS)
    axes.set_xlim(-0.04, 1.04)
    axes.set_xticks([0, 0.5, 1], ["0", "½", "1"])
    axes.set_yticks([1e-2, 1, 1e2], ["0.01", "1", "100"])
    axes.set_yticks([1e-1, 1e1], minor=True, labels=[])
    axes.axhline(1, color=GREY, linewidth=0.8, linestyle=(0, (1.5, 1.5)), zorder=0)
    axes.set_title(entries[0].variant, fontweight="normal")
    for entry in entries:
        place = sublayers.index(entry.sublayers)
        for series in entry.series:
            _add(axes, series, COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)], max(3.0, 5.5 - 1.5 * place))
    notes = [f"L = {entries[0].depth}"] if entries[0].depth != usual else []
    for name, points in (("up to", max), ("down to", min)):
        reached = points((y for e in entries for s in e.series if s.style == "law" for y in s.y if y), default=1.0)
        if not LIMITS[0] <= reached <= LIMITS[1]:
            notes.append(f"{name} {plain(reached, 2)}")
    if notes:
        # Above the middle, or below it where a curve leaves upwards.
        at, hang = (0.05, "bottom") if any(note.startswith("up") for note in notes) else (0.95, "top")
        axes.text(0.97, at, "\n".join(notes), transform=axes.transAxes, ha="right", va=hang, fontsize=8, color="#333333")


def _add(axes: Axes, series: Series, colour: str, marker: str, size: float) -> None:
    depth = max((x for x in series.x if x), default=1.0)
    points = [(x / depth, y, low, high) for x, y, low, high in _complete(series) if y > 0]
    if series.style == "law":
        axes.plot([p[0] for p in points], [p[1] for p in points], color=colour, linewidth=1.5, zorder=2)
        return
    step = math.ceil((len(points) - 1) / (MOST_MARKERS - 1)) if len(points) > MOST_MARKERS else 1
    x, y, low, high = zip(*points[::step], strict=True)
    bars = [[max(0.0, b - a) for a, b in zip(low, y, strict=True)], [max(0.0, b - a) for a, b in zip(y, high, strict=True)]]
    look: dict[str, Any] = {
        "color": colour,
        "marker": marker,
        "markersize": size,
        "markeredgecolor": "white",
        "markeredgewidth": 0.6,
    }
    axes.errorbar(x, y, bars, linestyle="none", elinewidth=1, capsize=0, zorder=3, **look)


def _complete(series: Series) -> list[tuple[float, float, float, float]]:
    ends = zip(series.x, series.y, series.low or series.y, series.high or series.y, strict=True)
    return [(x, y, y if low is None else low, y if high is None else high) for x, y, low, high in ends if None not in (x, y)]  # type: ignore[misc]


def _legend(canvas: Canvas, sublayers: list[str]) -> None:
    handles = [
        Line2D(
            [],
            [],
            color=COLOURS[k % len(COLOURS)],
            marker=MARKERS[k % len(MARKERS)],
            markersize=5,
            label=name.replace(",", " + "),
        )
        for k, name in enumerate(sublayers)
    ]
    handles.append(Line2D([], [], color=GREY, linewidth=1.5, label="line: predicted"))
    handles.append(Line2D([], [], color=GREY, linestyle="none", marker="o", markersize=5, label="points: measured"))
    canvas.legend(handles=handles, loc="outside lower right", ncols=len(handles), fontsize=9)
