"""Where a geometric gradient overtakes every bound in proportion to the number of blocks above."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import sympy
from sympy import LambertW

from theory.laws.steps import DerivationStep, formula

gain = sympy.Symbol("chi", positive=True)
"""χ: a block's factor on the squared gradient."""
constant = sympy.Symbol("C", positive=True)
blocks = sympy.Symbol("u", positive=True)
"""L − l + 1."""


@dataclass(frozen=True)
class Crossing:
    """χ^((u−1)/2) = C·u, in norm.

    Attributes:
        depth: the larger solution u, for χ > 1.
        steps: how it is found.
    """

    depth: sympy.Expr
    steps: tuple[DerivationStep, ...]

    def at(self, chi: float, bound: float = 1.0) -> float:
        """L − l + 1 beyond which the typical norm exceeds ``bound``·(L − l + 1); infinite for χ ≤ 1."""
        return float(self.depth.subs({gain: chi, constant: bound}).evalf()) if chi > 1 else float("inf")


@lru_cache(maxsize=1)
def crossing() -> Crossing:
    """Solve for the crossing. Sympy gives Lambert's principal branch, the small solution; the large one is on branch −1."""
    equation = sympy.Eq(gain ** ((blocks - 1) / 2), constant * blocks)
    principal = next(root for root in sympy.solve(equation, blocks) if _is_root(equation, root))
    depth = principal.replace(LambertW, lambda argument: LambertW(argument, -1))
    if not _is_root(equation, depth):
        raise ArithmeticError(f"{depth} does not solve {equation}")
    steps = (
        DerivationStep(
            "Bound",
            "Typical norm χ^((L−l)/2) against C·(L − l + 1) with one constant C for all depths: for χ ≤ 1 the bound holds "
            "with C = 1; for χ > 1 no constant serves, an exponential overtakes any line.",
            f"{sympy.latex(equation.lhs)} = {sympy.latex(equation.rhs)}",
            "χ^((u−1)/2) = C·u,  u = L − l + 1",
        ),
        DerivationStep(
            "Crossing",
            "The larger solution, Lambert's W on branch −1.",
            *formula("u", depth),
        ),
    )
    return Crossing(depth, steps)


def _is_root(equation: sympy.Eq, root: sympy.Expr) -> bool:
    point = {gain: sympy.Rational(6, 5), constant: sympy.Integer(2)}
    difference = (equation.lhs - equation.rhs).subs(blocks, root).subs(point)
    return bool(abs(sympy.N(difference, 30)) < 1e-20)
