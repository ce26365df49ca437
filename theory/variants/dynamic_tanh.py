"""Dynamic tanh: tanh(x/2), coordinate by coordinate, where Pre-LN has its norms."""

import sympy

from theory.algebra import F, Stream, Variant, tanh

x = Stream("x")
alpha = sympy.Symbol("alpha", positive=True)

VARIANT = Variant(
    name="dynamic-tanh",
    update=x + F(tanh(alpha * x)),
    read_out=tanh(alpha * x),
    constants={alpha: sympy.Rational(1, 2)},
    learnable=(alpha,),
    source="Zhu et al. 2025 (Transformers without Normalization), section 4: α = 1/2",
)
