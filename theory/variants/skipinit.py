"""SkipInit with the gate's second choice: x_l = x_{l-1} + F(x_{l-1})/√L, no norm (its first choice, 0, is ReZero's)."""

import sympy

from theory.algebra import F, L, Stream, Variant

x = Stream("x")
alpha = sympy.Symbol("alpha", positive=True)

VARIANT = Variant(
    name="skipinit",
    update=x + alpha * F(x),
    constants={alpha: 1 / sympy.sqrt(L)},
    learnable=(alpha,),
    source="De & Smith 2020 (SkipInit), section 4: a scalar per branch that starts at 0 or 1/√(number of branches)",
)
