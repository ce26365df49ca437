"""ResiDual: a Post-LN stream x that feeds the branch and a plain residual stream r, read out together."""

from theory.algebra import LN, F, Stream, Variant

x, r = Stream("x"), Stream("r")

VARIANT = Variant(
    name="residual",
    update={"x": LN(x + F(x)), "r": r + F(x)},
    read_out=x + LN(r),
    source="Xie et al. 2023 (ResiDual), section 2.2",
)
