"""Post-LN with RMSNorm: x_l = RMS(x_{l-1} + F(x_{l-1}))."""

from theory.algebra import RMS, F, Stream, Variant

x = Stream("x")

VARIANT = Variant(
    name="post-rmsnorm",
    update=RMS(x + F(x)),
    source="placement: Vaswani et al. 2017, section 3.1; norm: Zhang & Sennrich 2019, eq. 4",
)
