"""QK-norm: Pre-LN whose attention normalises queries and keys, head by head."""

from theory.algebra import LN, F, Stream, Variant

x = Stream("x")

VARIANT = Variant(
    name="qk-norm",
    update=x + F(LN(x), query=LN, key=LN),
    read_out=LN(x),
    source="Dehghani et al. 2023 (ViT-22B), section 2; after Henry et al. 2020, with LayerNorm",
)
