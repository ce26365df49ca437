"""Peri-LN: norms on both sides of the branch, on embedding and output: x_l = x_{l-1} + RMS(F(RMS(x_{l-1}))), x_0 = RMS(e)."""

from theory.algebra import INPUT, RMS, F, Stream, Variant

x = Stream("x")

VARIANT = Variant(
    name="peri-ln",
    entry=RMS(INPUT),
    update=x + RMS(F(RMS(x))),
    read_out=RMS(x),
    source="Kim et al. 2025 (Peri-LN), section 3 (Gemma 2's and OLMo 2's placement is of this family)",
)
