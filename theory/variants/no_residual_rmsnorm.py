"""A plain stack with RMSNorm after each sublayer and no residual: x_l = RMS(F(x_{l-1}))."""

from theory.algebra import RMS, F, Stream, Variant

x = Stream("x")

VARIANT = Variant(
    name="no-residual-rmsnorm",
    update=RMS(F(x)),
    source="Ba et al. 2016, section 3 (norm after the layer's weights)",
)
