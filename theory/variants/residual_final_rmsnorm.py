"""Residual connections with one RMSNorm, before the output: x_l = x_{l-1} + F(x_{l-1}), y = RMS(x_L)."""

from theory.algebra import RMS, F, Stream, Variant

x = Stream("x")

VARIANT = Variant(
    name="residual-final-rmsnorm",
    update=x + F(x),
    read_out=RMS(x),
    source="He et al. 2016 (identity mappings), eq. 4, without the norms but a final one",
)
