"""The depth at which a gradient κ^m without residual becomes exactly zero, by floating-point format."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

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
