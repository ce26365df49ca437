"""The language of variants: expressions and what is made of them."""

from theory.algebra.expression import LN, RMS, Expression, F, L, Norm, Scale, Stream, Sublayer, Sum, l, walk
from theory.algebra.printing import to_latex, to_text
from theory.algebra.variant import Variant

__all__ = [
    "LN",
    "RMS",
    "Expression",
    "F",
    "L",
    "Norm",
    "Scale",
    "Stream",
    "Sublayer",
    "Sum",
    "Variant",
    "l",
    "to_latex",
    "to_text",
    "walk",
]
