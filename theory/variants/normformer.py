"""NormFormer: Pre-LN with a norm behind attention and one behind the activation of the FFN (head scales start at 1)."""

from theory.algebra import LN, Case, F, Stream, Variant

x = Stream("x")

VARIANT = Variant(
    name="normformer",
    update=[
        Case(x + LN(F(LN(x))), sublayer="attention"),
        Case(x + F(LN(x), middle=LN)),
    ],
    read_out=LN(x),
    source="Shleifer et al. 2021 (NormFormer), section 2; behind the activation as in its released code",
)
