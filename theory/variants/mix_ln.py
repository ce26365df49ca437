"""Mix-LN: Post-LN in the first quarter of the blocks, Pre-LN above."""

from theory.algebra import LN, Case, F, L, Stream, Variant, l

x = Stream("x")

VARIANT = Variant(
    name="mix-ln",
    update=[
        Case(LN(x + F(x)), when=l <= L / 4),
        Case(x + F(LN(x))),
    ],
    read_out=LN(x),
    source="Li et al. 2024 (Mix-LN), section 3; a quarter of the blocks, as for their 250M model",
)
