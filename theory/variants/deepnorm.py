"""DeepNorm: x_l = LN(α x_{l-1} + F(x_{l-1})), branch weights scaled by β; encoder-only constants."""

import sympy

from theory.algebra import LN, F, L, Stream, Variant

x = Stream("x")
alpha = sympy.Symbol("alpha", positive=True)

VARIANT = Variant(
    name="deepnorm",
    update=LN(alpha * x + F(x)),
    constants={alpha: (2 * L) ** sympy.Rational(1, 4)},
    gain=(8 * L) ** sympy.Rational(-1, 4),
    source="Wang et al. 2022 (DeepNet), section 4.3: α = (2L)^(1/4), β = (8L)^(-1/4)",
)
