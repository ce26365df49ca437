"""Numbers as people read them: as many digits as the interval allows."""

from __future__ import annotations

import math

from reports.records import Check, Number, Reported

MOST_DIGITS = 6


def plain(value: Number, digits: int = 4) -> str:
    """One number with ``digits`` significant digits: ``1.96``, ``1.2e+27``, ``NaN``, ``—`` where there is none."""
    if value is None:
        return "—"
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value + 0.0:.{digits}g}"


def with_interval(value: Number, low: Number, high: Number) -> tuple[str, str]:
    """A value and its interval, both to two digits of the interval's half-width.

    ``(0.003, -0.01, 0.02)`` → ``("0.003", "[-0.010, 0.020]")``.
    """
    if value is None or low is None or high is None or not all(map(math.isfinite, (value, low, high))) or not low < high:
        return plain(value), "—" if low is None and high is None else f"[{plain(low)}, {plain(high)}]"
    top = _exponent(max(map(abs, (value, low, high))))
    last = max(_exponent(high / 2 - low / 2) - 1, top + 1 - MOST_DIGITS)
    if value and (low > 0 or high < 0):
        last = min(last, _exponent(value))
    shown = [_to_digit(number, last, top) for number in (value, low, high)]
    return shown[0], f"[{shown[1]}, {shown[2]}]"


def _exponent(value: float) -> int:
    return math.floor(math.log10(abs(value))) if value else -300


def _to_digit(value: float, last: int, top: int) -> str:
    if -4 <= top < 5:
        return f"{round(value, -last) + 0.0:.{max(0, -last)}f}"
    if round(value, -last) == 0:
        return "0"
    return f"{value:.{max(0, _exponent(value) - last)}e}"


def ours(row: Reported) -> str:
    """Our figures beside a source's: ``2.51 [2.45, 2.57], 3.2``."""
    figures = (with_interval(*figure) for figure in row.measured)
    return ", ".join(
        [*(value if interval == "—" else f"{value} {interval}" for value, interval in figures), *filter(None, [row.ours])]
    )


def measured(check: Check) -> str:
    """A check's measurement with its interval and unit."""
    value, interval = with_interval(check.measured, check.low, check.high)
    return " ".join(part for part in (value, "" if interval == "—" else interval, check.unit) if part)


def band(ends: tuple[Number, Number]) -> str:
    """A band: ``[0.9, 1.1]``, ``≥ 2``, ``≤ 3`` or ``any``."""
    low = None if ends[0] is None or ends[0] == -math.inf else ends[0]
    high = None if ends[1] is None or ends[1] == math.inf else ends[1]
    if low is None and high is None:
        return "any"
    if high is None:
        return f"≥ {plain(low)}"
    return f"≤ {plain(high)}" if low is None else f"[{plain(low)}, {plain(high)}]"


def duration(seconds: Number) -> str:
    """``12.3 s``, ``4 min 5 s``, ``2 h 3 min``."""
    if seconds is None or not math.isfinite(seconds):
        return "unknown time"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
