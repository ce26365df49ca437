"""Admin: Post-LN whose residual is scaled, once before training, to the spread that all earlier branches have added up to."""

from theory.algebra import LN, F, Matched, Stream, Variant

x, y = Stream("x"), Stream("y")  # y: the sum before the last norm, whose root mean square profiling records as ω
residual = Matched(x, y)

VARIANT = Variant(
    name="admin",
    update={"x": LN(residual + F(x)), "y": residual + F(x)},
    source="Liu et al. 2020 (Admin), section 4.2: ω_i² = 1 + Σ_{j<i} Var f_j by profiling, and their released code",
)
