"""HybridNorm: norms on queries, keys and values in attention; the FFN's residual is taken behind its norm."""

from theory.algebra import LN, Case, F, Stream, Variant

x = Stream("x")

VARIANT = Variant(
    name="hybridnorm",
    update=[
        Case(x + F(x, query=LN, key=LN, value=LN), sublayer="attention"),
        Case(LN(x) + F(LN(x))),
    ],
    read_out=LN(x),
    source="Zhuo et al. 2025 (HybridNorm), section 3, and its released code (there RMSNorm); with a final norm",
)
