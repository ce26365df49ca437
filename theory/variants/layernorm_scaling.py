"""LayerNorm scaling: what the norm hands to the branch shrinks with depth, x_l = x_{l-1} + F(LN(x_{l-1})/√l)."""

import sympy

from theory.algebra import LN, F, Stream, Variant, l

x = Stream("x")

VARIANT = Variant(
    name="layernorm-scaling",
    update=x + F(1 / sympy.sqrt(l) * LN(x)),
    read_out=LN(x),
    source="Sun et al. 2025 (The Curse of Depth), section 4",
)
