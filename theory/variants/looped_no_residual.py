"""A looped block without a residual: the same weights in every block, x_l = F(x_{l-1})."""

from theory.algebra import F, Stream, Variant

x = Stream("x")

VARIANT = Variant(
    name="looped-no-residual",
    update=F(x),
    tied=True,
    source="weight sharing across depth: Dehghani et al. 2019 (Universal Transformers); the article's loop without a shortcut",
)
