"""The depth at which a gradient κ^m without residual becomes exactly zero, by floating-point format."""

from __future__ import annotations

from dataclasses import dataclass
from math import erfc, exp, expm1, inf, log, log1p, pi, sqrt

from theory.errors import InvalidInput
from theory.registry import find


@dataclass(frozen=True)
class Format:
    """A binary floating-point format with gradual underflow (IEEE 754-2019, section 3.3).

    Args:
        subnormal: exponent of the smallest subnormal number, 2^subnormal.
        normal: exponent of the smallest normal number.
    """

    subnormal: int
    normal: int


FORMATS = {
    "float64": Format(-1074, -1022),
    "float32": Format(-149, -126),
    "bfloat16": Format(-133, -126),
    "float16": Format(-24, -14),
}


def underflow_depth(squared_gain: float, dtype: str, start: float = 1.0, flush: bool = False) -> float:
    """Blocks m after which start·κ^m rounds to exactly 0.

    Rounding to nearest sends what is at most half of the smallest subnormal to 0; hardware that flushes subnormals (such as
    the bfloat16 dot products of some processors) everything below the smallest normal number. One network's gradient
    is zero when its largest coordinate is: about log(largest/rms)/log(1/κ) blocks later.

    Args:
        squared_gain: κ², of one block.
        dtype: name of the format.
        start: size of a coordinate at the output.
        flush: whether subnormal numbers are flushed to zero.

    Raises:
        InvalidInput: an unknown format; κ² not between 0 and 1 (nothing vanishes then); ``start`` not positive.
    """
    if not 0 < squared_gain < 1:
        raise InvalidInput(f"κ² is {squared_gain}: a gradient underflows only where 0 < κ² < 1")
    if not start > 0:
        raise InvalidInput(f"start is {start}: give the size of a coordinate at the output, above 0")
    form = find("dtype", dtype, FORMATS)
    bits = form.normal if flush else form.subnormal - 1
    return max(0.0, (log(start) - bits * log(2)) / (-0.5 * log(squared_gain)))


def surviving_layers(squared_gain: float, dtype: str, coordinates: int, flush: bool = False) -> float:
    """Expected number of layers, the output's included, at which a unit Gaussian gradient is not exactly 0.

    `underflow_depth` follows the root mean square; this follows the rounded distribution. In units of the smallest subnormal a
    coordinate is s·z, z standard normal, rounded to an integer, and the next block has s'² = κ² E[round(s z)²]; a layer counts
    while any of its coordinates is not 0. Rounding up adds variance, which keeps a slowly decaying gradient alive for some more
    blocks, and for κ² above about 0.77 for good (the answer is then infinite: noise of the smallest numbers, no gradient). With
    ``flush`` everything below the smallest normal number is 0. Sums are taken as exact before they are rounded (a wider
    accumulator).

    Raises:
        InvalidInput: as `underflow_depth`; fewer than one coordinate.
    """
    if coordinates < 1:
        raise InvalidInput(f"coordinates is {coordinates}: a layer has at least 1")
    form = find("dtype", dtype, FORMATS)
    exact = max(0, int(underflow_depth(squared_gain, dtype, flush=flush) - log(_EXACT) / (-0.5 * log(squared_gain))))
    unit = log(2) * (form.normal if flush else form.subnormal)
    s, total = exp(0.5 * exact * log(squared_gain) - unit), float(exact)
    while True:
        alive = -expm1(coordinates * log1p(-min(erfc(_threshold(flush) / (s * sqrt(2))), 1 - 1e-16)))
        total += alive
        if alive < 1e-9:
            return total
        before, s = s, sqrt(squared_gain * _rounded_square(s, flush))
        if s > before * (1 - 1e-9):
            return inf


_EXACT = 64.0
"""In units of the smallest number: above this size rounding does not matter (1/12 of 64² is 2e-5)."""


def _threshold(flush: bool) -> float:
    return 1.0 if flush else 0.5


def _rounded_square(s: float, flush: bool) -> float:
    """E[round(s z)²], or E[(s z)²; |s z| ≥ 1] where what is smaller is flushed."""
    if flush:
        return s * s * (erfc(1 / (s * sqrt(2))) + sqrt(2 / pi) / s * exp(-0.5 / s**2))
    return sum((2 * k - 1) * erfc((k - 0.5) / (s * sqrt(2))) for k in range(1, int(12 * s) + 2))
