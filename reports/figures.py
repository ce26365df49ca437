"""Figures: a law as a line, the statement as a grey dashed line, measurements as markers with intervals."""

from __future__ import annotations

import io
import math
import re
import textwrap
from typing import Any

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from PIL import Image

from reports.axes import arrange
from reports.records import Figure, Number, Series

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette, told apart by colour-blind readers; markers differ as well."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#6E6E6E"
DASHES = ((0, (5, 2.5)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (9, 3)))
SIZE, DPI, PALETTE = (10.0, 5.6), 100, 128
MOST_BELOW = 6
TITLE, LINE = 74, 100
CROWD = 30
LARGEST = 1e300
ORDER = {"statement": 1, "law": 2, "measured": 3, "heldout": 4, "reported": 5}
NAMES = {"heldout": "held out", "reported": "reported by the source"}
LOOK: dict[str, Any] = {
    "font.size": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#444444",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.8,
    "axes.titlesize": 14,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 12,
    "legend.frameon": False,
    "legend.fontsize": 11,
    "figure.constrained_layout.use": True,
}


def draw(figure: Figure) -> bytes:
    """The figure as a PNG, the same bytes for the same numbers."""
    with matplotlib.style.context(["default", LOOK]):
        canvas = Canvas(figsize=SIZE, dpi=DPI)
        agg = FigureCanvasAgg(canvas)
        axes = canvas.add_subplot()
        looks = _looks(figure.series)
        clouds = [_points(series, figure) for series in figure.series]
        _arrange(axes, figure, clouds)
        for place, (series, look) in enumerate(zip(figure.series, looks, strict=True)):
            if clouds[place]:
                later = [n for n in range(place + 1, len(clouds)) if figure.series[n].style == series.style]
                hidden = sum(_coincide(axes, clouds[place], clouds[n]) for n in later)
                _add(axes, series, look, clouds[place], min(3, hidden))
        if not any(clouds):
            axes.text(0.5, 0.5, "no finite values to draw", transform=axes.transAxes, ha="center", va="center", color=GREY)
        axes.set_title("\n".join(_shown(line) for line in textwrap.wrap(figure.title, TITLE)))
        axes.set_xlabel(_shown(figure.xlabel))
        axes.set_ylabel(_shown(figure.ylabel))
        _legend(canvas, figure.series, looks)
        agg.draw()
        return png(agg)


def png(agg: FigureCanvasAgg) -> bytes:
    """A palette in place of true colours: a third of the bytes, and no difference to be seen."""
    pixels = bytes(agg.buffer_rgba())
    image = Image.frombytes("RGBA", agg.get_width_height(), pixels).convert("RGB")
    file = io.BytesIO()
    image.quantize(PALETTE, dither=Image.Dither.NONE).save(file, format="png", optimize=True)
    return file.getvalue()


Points = list[tuple[float, float, float, float]]
"""x, y, low, high of each point that can be drawn."""


def _points(series: Series, figure: Figure) -> Points:
    nothing = (None,) * len(series.x)
    points = []
    for x, y, low, high in zip(series.x, series.y, series.low or nothing, series.high or nothing, strict=True):
        if _can_be(x, figure.xscale) and _can_be(y, figure.yscale):
            assert x is not None and y is not None
            points.append((x, y, min(y, _end(low, y)), max(y, _end(high, y))))
    return points


def _can_be(value: Number, scale: str) -> bool:
    return value is not None and abs(value) < LARGEST and (scale == "linear" or value > 1 / LARGEST)


def _end(value: Number, otherwise: float) -> float:
    return value if value is not None and abs(value) < LARGEST else otherwise


def _arrange(axes: Axes, figure: Figure, clouds: list[Points]) -> None:
    x = [point[0] for points in clouds for point in points]
    y = [value for points in clouds for point in points for value in point[1:] if _can_be(value, figure.yscale)]
    arrange(axes, (figure.xscale, figure.yscale), x, y)


def _looks(all_series: tuple[Series, ...]) -> list[dict[str, Any]]:
    coloured = [s for s in all_series if s.style != "statement"]
    groups = list(dict.fromkeys(s.group or s.label for s in coloured))
    dashes = iter(DASHES * len(all_series))
    looks: list[dict[str, Any]] = []
    for series in all_series:
        if series.style == "statement":
            looks.append({"color": GREY, "linestyle": next(dashes), "linewidth": 2})
            continue
        place = groups.index(series.group or series.label)
        colour = COLOURS[place % len(COLOURS)]
        marker = MARKERS[(place + place // len(COLOURS)) % len(MARKERS)]
        looks.append(_look(series.style, colour, marker, len(series.x) > CROWD))
    return looks


def _look(style: str, colour: str, marker: str, crowded: bool) -> dict[str, Any]:
    if style == "law":
        return {"color": colour, "linestyle": "-", "linewidth": 1.4 if crowded else 2}
    size = 4.5 if crowded else 7
    look: dict[str, Any] = {"color": colour, "linestyle": "none", "marker": marker, "markersize": size}
    look |= {"markeredgecolor": "white", "markeredgewidth": 0 if crowded else 1}
    if style == "heldout":
        look |= {"markersize": size + 2, "markerfacecolor": "white", "markeredgecolor": colour, "markeredgewidth": 2}
    if style == "reported":
        look |= {"marker": "*", "markersize": 16, "markeredgecolor": "black", "markeredgewidth": 1}
    return look


def _coincide(axes: Axes, some: Points, other: Points) -> bool:
    """Whether one cloud would hide the other: at most x they share, their heights differ by less than a marker."""
    to_axes = axes.transData + axes.transAxes.inverted()
    heights = [{x: float(to_axes.transform((x, y))[1]) for x, y, _, _ in points} for points in (some, other)]
    shared = heights[0].keys() & heights[1].keys()
    return 2 * sum(abs(heights[0][x] - heights[1][x]) < 0.015 for x in shared) > len(shared)


def _add(axes: Axes, series: Series, look: dict[str, Any], points: Points, hidden: int) -> None:
    """Draw a series, the larger the more later series would hide it."""
    x, y, low, high = zip(*points, strict=True)
    order = ORDER[series.style]
    look = look | {size: look[size] + more * hidden for size, more in (("linewidth", 2.5), ("markersize", 4)) if size in look}
    if low == y == high:
        axes.plot(x, y, **look, zorder=order, clip_on=series.style in ("law", "statement"))
        return
    bars = [[b - a for a, b in zip(low, y, strict=True)], [b - a for a, b in zip(y, high, strict=True)]]
    axes.errorbar(
        x,
        y,
        bars,
        **look,
        elinewidth=1.6 + 1.4 * hidden,
        capsize=0 if len(x) > CROWD else 3.5 + 2 * hidden,
        capthick=1.6,
        zorder=order,
    )


def _legend(canvas: Canvas, all_series: tuple[Series, ...], looks: list[dict[str, Any]]) -> None:
    if not all_series:
        return
    entries = [(series.label, look) for series, look in zip(all_series, looks, strict=True)]
    pairs = {(s.group, s.style) for s in all_series}
    if len(entries) > MOST_BELOW and None not in {s.group for s in all_series} and len(pairs) == len(entries):
        entries = _key(all_series, looks)
    beside = len(entries) > MOST_BELOW
    width = 26 if beside else 44
    handles = [
        Line2D([], [], **look, label="\n".join(_shown(line) for line in textwrap.wrap(label, width)) or " ")
        for label, look in entries
    ]
    if beside:
        lines = sum(str(handle.get_label()).count("\n") + 1.8 for handle in handles)
        canvas.set_figheight(max(SIZE[1], 0.17 * lines + 0.5))
        canvas.legend(handles=handles, loc="outside right center", labelspacing=0.8)
        return
    longest = max(len(label) for label, _ in entries)
    rows = math.ceil(len(handles) / max(1, LINE // (min(longest, width) + 6)))
    canvas.legend(handles=handles, loc="outside lower center", ncols=math.ceil(len(handles) / rows))


def _key(all_series: tuple[Series, ...], looks: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """One entry a group and one a style, in place of one a series."""
    entries: dict[str, dict[str, Any]] = {}
    for series, look in zip(all_series, looks, strict=True):
        if series.style != "statement" and (series.group not in entries or series.style == "measured"):
            entries[series.group or series.label] = look
    for series, look in zip(all_series, looks, strict=True):
        if series.style == "statement":
            entries[series.label] = look
        elif len({s.style for s in all_series}) > 1:
            grey = {k: GREY if k in ("color", "markeredgecolor") and v != "white" else v for k, v in look.items()}
            entries.setdefault(
                NAMES.get(series.style, series.style), grey | ({"marker": "o"} if series.style in ("measured", "heldout") else {})
            )
    return list(entries.items())


def _shown(text: str) -> str:
    """Text with letters that the font has, ``x_l`` with its index set low, and no formula that could fail to parse."""
    text = text.replace("𝓛", "ℒ").replace("𝒪", "O").replace("$", r"\$")
    return re.sub(r"(?<=\w)_(\w)(?!\w)", r"$_{\1}$", text)
