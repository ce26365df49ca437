"""Sandwich-LN: normalise the branch on both sides, x_l = x_{l-1} + LN(F(LN(x_{l-1})))."""

from theory.algebra import LN, F, Stream, Variant

x = Stream("x")

VARIANT = Variant(
    name="sandwich-ln",
    update=x + LN(F(LN(x))),
    read_out=LN(x),
    source="Ding et al. 2021 (CogView), section 2.4; not the reordering of the same name (Press et al. 2019)",
)
