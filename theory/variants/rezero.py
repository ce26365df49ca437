"""ReZero: a gate that starts at 0 on the branch, no norm: x_l = x_{l-1} + α F(x_{l-1}); at initialisation the identity."""

import sympy

from theory.algebra import F, Stream, Variant

x = Stream("x")
alpha = sympy.Symbol("alpha", nonnegative=True)

VARIANT = Variant(
    name="rezero",
    update=x + alpha * F(x),
    constants={alpha: sympy.Integer(0)},
    learnable=(alpha,),
    source="Bachlechner et al. 2020 (ReZero), section 3, eq. 1: α = 0",
)
