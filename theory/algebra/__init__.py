"""The language of variants: expressions and what is made of them."""

from theory.algebra.expression import (
    LN,
    RMS,
    Expression,
    F,
    L,
    Matched,
    Norm,
    Pointwise,
    Scale,
    Stream,
    Sublayer,
    Sum,
    i,
    k,
    l,
    tanh,
    walk,
)
from theory.algebra.placement import Case, Position, Streams, SublayerKind, sublayer_node
from theory.algebra.printing import to_latex, to_text
from theory.algebra.variant import INPUT, Variant

__all__ = [
    "INPUT",
    "LN",
    "RMS",
    "Case",
    "Expression",
    "F",
    "L",
    "Matched",
    "Norm",
    "Pointwise",
    "Position",
    "Scale",
    "Stream",
    "Streams",
    "Sublayer",
    "SublayerKind",
    "Sum",
    "Variant",
    "i",
    "k",
    "l",
    "sublayer_node",
    "tanh",
    "to_latex",
    "to_text",
    "walk",
]
