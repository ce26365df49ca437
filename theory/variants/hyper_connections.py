"""Hyper-connections with four streams, static: sublayer t reads stream t mod 4, and its output is added to all of them.

The streams change names in a ring after every sublayer, so that x is always the one that is read next.
"""

from theory.algebra import LN, F, Stream, Variant

x, h1, h2, h3 = map(Stream, ("x", "h1", "h2", "h3"))
branch = F(LN(x))

VARIANT = Variant(
    name="hyper-connections",
    update={"x": h1 + branch, "h1": h2 + branch, "h2": h3 + branch, "h3": x + branch},
    read_out=LN(x + h1 + h2 + h3),
    source="Zhu et al. 2024 (Hyper-Connections), static matrices at their initial value, Pre-LN",
)
