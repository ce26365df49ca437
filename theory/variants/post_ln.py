"""Post-LN: normalise after the residual sum, x_l = LN(x_{l-1} + F(x_{l-1}))."""

from theory.algebra import LN, F, Stream, Variant

x = Stream("x")

VARIANT = Variant(
    name="post-ln",
    update=LN(x + F(x)),
    source="Vaswani et al. 2017, section 3.1; Xiong et al. 2020, Table 1",
)
