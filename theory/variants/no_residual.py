"""A plain stack, neither residual nor norm: x_l = F(x_{l-1})."""

from theory.algebra import F, Stream, Variant

x = Stream("x")

VARIANT = Variant(
    name="no-residual",
    update=F(x),
    source="Schoenholz et al. 2017, section 2 (plain feed-forward stack)",
)
