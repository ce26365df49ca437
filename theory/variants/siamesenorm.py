"""SiameseNorm: a Post-LN stream x and a Pre-LN stream y that feed one branch together."""

from theory.algebra import LN, F, Stream, Variant

x, y = Stream("x"), Stream("y")
branch = F(x + LN(y))

VARIANT = Variant(
    name="siamesenorm",
    update={"x": LN(x + branch), "y": y + branch},
    read_out=x + LN(y),
    source="SiameseNorm 2026 (arXiv 2602.08064), the update as its README gives it, without the code's 1/√(2(l+1)) on the branch",
)
