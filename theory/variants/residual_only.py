"""Residual connections without any norm: x_l = x_{l-1} + F(x_{l-1})."""

from theory.algebra import F, Stream, Variant

x = Stream("x")

VARIANT = Variant(
    name="residual-only",
    update=x + F(x),
    source="He et al. 2016 (identity mappings), eq. 4, without the norms",
)
