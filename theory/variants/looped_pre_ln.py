"""A looped Pre-LN block: the same weights in every block, x_l = x_{l-1} + F(LN(x_{l-1}))."""

from theory.algebra import LN, F, Stream, Variant

x = Stream("x")

VARIANT = Variant(
    name="looped-pre-ln",
    update=x + F(LN(x)),
    read_out=LN(x),
    tied=True,
    source="weight sharing across depth: Dehghani et al. 2019 (Universal Transformers); placement: Xiong et al. 2020, Table 1",
)
