"""Pre-LN: normalise the branch's input, x_l = x_{l-1} + F(LN(x_{l-1})), and once more before the output."""

from theory.algebra import LN, F, Stream, Variant

x = Stream("x")

VARIANT = Variant(
    name="pre-ln",
    update=x + F(LN(x)),
    read_out=LN(x),
    source="Xiong et al. 2020, Table 1; final norm: their section 3.2",
)
