"""KEEL: Post-LN with a highway-like residual and a norm on the branch's input, x_l = LN(α x_{l-1} + F(LN(x_{l-1})))."""

import sympy

from theory.algebra import LN, F, L, Stream, Variant

x = Stream("x")
alpha = sympy.Symbol("alpha", positive=True)

VARIANT = Variant(
    name="keel",
    update=LN(alpha * x + F(LN(x))),
    constants={alpha: L},
    source="Chen & Wei 2026 (Post-LayerNorm Is Back), the rule with α = L as second-hand accounts give it",
)
