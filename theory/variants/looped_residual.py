"""A looped block: the same weights in every block, around a residual without norm, x_l = x_{l-1} + F(x_{l-1})."""

from theory.algebra import F, Stream, Variant

x = Stream("x")

VARIANT = Variant(
    name="looped-residual",
    update=x + F(x),
    tied=True,
    source="weight sharing across depth: Dehghani et al. 2019 (Universal Transformers); the article's loop with a shortcut",
)
