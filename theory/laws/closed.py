"""Closed forms of the recursions: q_l, and the product G(l→L) of the blocks' gains."""

from __future__ import annotations

from dataclasses import dataclass

import sympy

from theory.errors import NoClosedForm
from theory.laws.recursion import q

depth = sympy.Symbol("L", integer=True, nonnegative=True)
layer = sympy.Symbol("l", integer=True, nonnegative=True)
q0 = sympy.Symbol("q_0", positive=True)


def solve_forward(block: sympy.Expr) -> sympy.Expr:
    """q_l for q_l = block(q_{l-1}), a first-order linear recursion with constant coefficients.

    Raises:
        NoClosedForm: the recursion is not linear in q.
    """
    if not block.has(q):
        return block  # a norm at the end of the block: q is the same after every block
    poly = sympy.Poly(sympy.expand(block), q) if sympy.expand(block).is_polynomial(q) else None
    if poly is None or poly.degree() > 1:
        raise NoClosedForm("the forward recursion is not linear in q")
    slope, offset = poly.coeff_monomial(q), poly.coeff_monomial(1)
    if slope == 1:
        return q0 + offset * layer
    fixed = offset / (1 - slope)
    return fixed + (q0 - fixed) * slope**layer


@dataclass(frozen=True)
class Product:
    """∏_{j=l}^{L-1} of ``rate``·∏(j + numerator)/∏(j + denominator): an exponential times Gamma ratios."""

    rate: sympy.Expr
    numerator: tuple[sympy.Expr, ...] = ()
    denominator: tuple[sympy.Expr, ...] = ()

    @property
    def value(self) -> sympy.Expr:
        """The product as a formula in l and L, telescoped where shifts differ by an integer."""
        steps = depth - layer
        result = self.rate**steps
        remaining = list(self.denominator)
        for shift in self.numerator:
            partner = next((other for other in remaining if sympy.simplify(shift - other).is_Integer), None)
            if partner is None:
                result *= _gamma_ratio(shift)
                continue
            remaining.remove(partner)
            result *= _telescoped(partner, int(sympy.simplify(shift - partner)))
        for shift in remaining:
            result /= _gamma_ratio(shift)
        return result

    @property
    def exponent(self) -> sympy.Expr:
        """p in G ~ rate^(L-l) · (L/l)^p: Γ(L+a)/Γ(L+b) ~ L^(a-b) (DLMF 5.11.12)."""
        return sympy.simplify(sum(self.numerator) - sum(self.denominator))

    def subs(self, values: dict[sympy.Symbol, sympy.Expr]) -> Product:
        """The product with symbols replaced."""
        return Product(
            sympy.factor(sympy.cancel(self.rate.subs(values))),
            tuple(sympy.sympify(s).subs(values) for s in self.numerator),
            tuple(sympy.sympify(s).subs(values) for s in self.denominator),
        )


def _gamma_ratio(shift: sympy.Expr) -> sympy.Expr:
    return sympy.gamma(depth + shift) / sympy.gamma(layer + shift)


def _telescoped(shift: sympy.Expr, steps: int) -> sympy.Expr:
    """∏_{j=l}^{L-1} (j + shift + steps)/(j + shift): only ``|steps|`` factors survive at each end."""
    low, high = (shift, shift + steps) if steps >= 0 else (shift + steps, shift)
    kept = sympy.Integer(1)
    for k in range(abs(steps)):
        kept *= (depth + low + k) / (layer + low + k)
    return kept if steps >= 0 else 1 / kept


def multiply_out(gain: sympy.Expr, stream: sympy.Expr) -> Product:
    """The product over blocks of ``gain`` at q = q_j, for ``stream`` = q_l as a formula in l.

    Raises:
        NoClosedForm: the gain is not a ratio of linear factors in j.
    """
    step = sympy.factor(sympy.cancel(sympy.together(gain.subs(q, stream))))
    if not step.has(layer):
        return Product(step)
    above, below = sympy.fraction(step)
    above_rate, numerator = _linear_factors(above)
    below_rate, denominator = _linear_factors(below)
    return Product(sympy.factor(above_rate / below_rate), numerator, denominator)


def _linear_factors(polynomial: sympy.Expr) -> tuple[sympy.Expr, tuple[sympy.Expr, ...]]:
    if not polynomial.is_polynomial(layer):
        raise NoClosedForm("the gain is not a rational function of the layer")
    constant, factors = sympy.factor_list(polynomial, layer)
    shifts: list[sympy.Expr] = []
    for factor, power in factors:
        poly = sympy.Poly(factor, layer)
        if poly.degree() > 1:
            raise NoClosedForm("the gain has a factor of degree two or more in the layer")
        slope, offset = poly.coeff_monomial(layer), poly.coeff_monomial(1)
        if poly.degree() == 0:
            constant *= offset**power
            continue
        constant *= slope**power
        shifts += [sympy.cancel(offset / slope)] * power
    return constant, tuple(shifts)
