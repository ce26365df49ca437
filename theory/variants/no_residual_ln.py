"""A plain stack with LayerNorm after each sublayer and no residual: x_l = LN(F(x_{l-1}))."""

from theory.algebra import LN, F, Stream, Variant

x = Stream("x")

VARIANT = Variant(
    name="no-residual-ln",
    update=LN(F(x)),
    source="Ba et al. 2016, section 3 (norm after the layer's weights)",
)
