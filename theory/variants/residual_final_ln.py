"""Residual connections with one LayerNorm, before the output: x_l = x_{l-1} + F(x_{l-1}), y = LN(x_L)."""

from theory.algebra import LN, F, Stream, Variant

x = Stream("x")

VARIANT = Variant(
    name="residual-final-ln",
    update=x + F(x),
    read_out=LN(x),
    source="He et al. 2016 (identity mappings), eq. 4, without the norms but a final one",
)
