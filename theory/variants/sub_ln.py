"""Sub-LN (Magneto): Pre-LN with a further norm before each sublayer's last matrix, branch weights scaled by √(ln 2L)."""

import sympy

from theory.algebra import LN, F, L, Stream, Variant

x = Stream("x")

VARIANT = Variant(
    name="sub-ln",
    update=x + F(LN(x), middle=LN),
    read_out=LN(x),
    gain=sympy.sqrt(sympy.log(2 * L)),
    source="Wang et al. 2022 (Foundation Transformers), section 2: γ = √(ln 2N) for encoder- or decoder-only stacks",
)
