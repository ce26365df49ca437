"""Once tokens are nearly alike: how fast 1 − c falls, and what becomes of the two parts of a gradient.

At c = 1 the map of (g, g_×) has two eigenvectors: the *coherent* part, which all tokens share (g = g_×), and the
*incoherent* part, which sums to zero over tokens (g + (n − 1)g_× = 0). A norm at the end of each step makes the rates
constant; else they follow the growing stream, and powers of the depth come out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import sympy

from theory.algebra import Variant
from theory.errors import NoClosedForm
from theory.laws.attention.block import TokenStep, token_steps
from theory.laws.attention.softmax import n
from theory.laws.recursion import q
from theory.sublayers import SublayerMaps

below = sympy.Symbol("m", positive=True)
"""Blocks below the output."""
gamma = sympy.Symbol("gamma", real=True)
"""Cosine between two tokens' gradients at the output."""


@dataclass(frozen=True)
class Collapse:
    """One block near c = 1; functions of q where no norm fixes the stream.

    Attributes:
        steps: the sublayers' steps.
        spread: factor on 1 − c.
        growth: q after the block.
        coherent, incoherent: factors on the two parts of the squared gradient.
        parts: the two parts' shares of the gradient at the output, for a gradient cosine γ there.
    """

    steps: tuple[TokenStep, ...]
    spread: sympy.Expr
    growth: sympy.Expr
    coherent: sympy.Expr
    incoherent: sympy.Expr
    parts: tuple[sympy.Expr, sympy.Expr]

    @property
    def pinned(self) -> bool:
        """Whether a norm fixes the stream, so that all factors are constants."""
        return self.growth == 1

    @property
    def gradient(self) -> sympy.Expr:
        """Squared gradient m blocks below the output over the output's, where factors are constants."""
        return self.parts[0] * self.coherent**below + self.parts[1] * self.incoherent**below

    @property
    def floor(self) -> sympy.Expr:
        """m at which the incoherent part has fallen to the coherent one, for γ = 0."""
        ratio = sympy.simplify(self.parts[1] / self.parts[0]).subs(gamma, 0)
        return sympy.simplify(sympy.log(ratio) / sympy.log(sympy.cancel(self.coherent / self.incoherent)))

    def exponent(self, factor: sympy.Expr) -> sympy.Expr:
        """The power of q_l to which a product of factors 1 + a/q + … grows where q grows by b a block: a/b."""
        added = sympy.limit(sympy.cancel(self.growth - q), q, sympy.oo)
        return sympy.factor(sympy.limit(sympy.cancel((factor - 1) * q), q, sympy.oo) / added)


@lru_cache(maxsize=64)
def collapse(variant: Variant, sublayers: tuple[SublayerMaps, ...]) -> Collapse:
    """Linearise one block at c = 1.

    Raises:
        NoClosedForm: as `token_steps`, or no attention among the sublayers.
    """
    if all(maps.tokenwise for maps in sublayers):
        raise NoClosedForm("no sublayer mixes tokens")
    steps = token_steps(variant, sublayers)
    spread, moment, matrix = sympy.Integer(1), q, sympy.eye(2)
    for step in steps:
        at = {q: moment}
        spread, moment = spread * step.spread_rate.subs(at), (step.growth.subs(at) if step.growth != 1 else sympy.Integer(1))
        matrix = matrix * step.backward_matrix.subs(at)
    if moment != 1 and not moment.has(q):
        raise NoClosedForm("the stream forgets its length although no norm fixes it")
    alike, apart = sympy.Matrix([1, 1]), sympy.Matrix([n - 1, -1])
    coherent, incoherent = (_eigenvalue(matrix, vector) for vector in (alike, apart))
    a, b = sympy.symbols("a b")
    solved = sympy.solve(list(a * alike + b * apart - sympy.Matrix([1, gamma])), (a, b), dict=True)[0]
    parts = sympy.factor(solved[a]), sympy.factor(solved[b] * (n - 1))
    return Collapse(steps, sympy.factor(spread), sympy.factor(moment), coherent, incoherent, parts)


def _eigenvalue(matrix: sympy.Matrix, vector: sympy.Matrix) -> sympy.Expr:
    image = (matrix * vector).applyfunc(sympy.factor)
    value = sympy.factor(image[0] / vector[0])
    if sympy.simplify(image[1] - value * vector[1]) != 0:
        raise ArithmeticError(f"{vector.T} is no eigenvector of {matrix}")
    return value
