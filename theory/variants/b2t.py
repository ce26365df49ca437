"""B2T connection: Post-LN whose last norm of a block also sees the block's own input, LN(b + h + F(h)), h = LN(b + F(b))."""

import sympy

from theory.algebra import LN, Case, F, Stream, Variant, i, k

x, b = Stream("x"), Stream("b")  # b: the block's input, kept for its last sublayer

VARIANT = Variant(
    name="b2t",
    update=[
        Case({"x": LN(2 * x + F(x)), "b": b}, when=sympy.Eq(k, 1)),
        Case({"x": LN(x + F(x)), "b": x}, when=sympy.Eq(i, 1)),
        Case({"x": LN(b + x + F(x)), "b": b}, when=sympy.Eq(i, k)),
        Case({"x": LN(x + F(x)), "b": b}),
    ],
    source="Takase et al. 2022 (B2T Connection), section 4; a block of one sublayer adds its input twice",
)
