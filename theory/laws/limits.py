"""Classes of formulas in the depth: factors with fractional powers of L, and A(L)^L, taken to L → ∞ by their leading terms.

Leading terms are read off polynomials in a root of L, because ``sympy.limit`` is known to err on sums of powers.
"""

from __future__ import annotations

from functools import reduce

import sympy

from theory.errors import NoClosedForm
from theory.laws.asymptotics import FLAT, Growth

_root = sympy.Symbol("u", positive=True)
_log = sympy.Symbol("h", positive=True)


def leading_term(expression: sympy.Expr, variable: sympy.Symbol) -> tuple[sympy.Expr, sympy.Rational]:
    """(c, p) of expression ~ c·variable^p, for a rational function of the variable's fractional powers.

    Raises:
        NoClosedForm: it is none.
    """
    exponents = [sympy.Rational(node.exp) for node in _powers(expression, variable)]
    root = reduce(sympy.ilcm, [exponent.q for exponent in exponents], 1)
    rational = sympy.cancel(sympy.together(expression.xreplace(_in_root(expression, variable, root))))
    above, below = sympy.fraction(rational)
    if not (above.is_polynomial(_root) and below.is_polynomial(_root)):
        raise NoClosedForm(f"{expression} is no rational function of powers of {variable}")
    if above == 0:
        return sympy.Integer(0), sympy.Integer(0)
    top, bottom = sympy.Poly(above, _root), sympy.Poly(below, _root)
    coefficient = sympy.factor(sympy.cancel(top.LC() / bottom.LC()))
    return coefficient, sympy.Rational(top.degree() - bottom.degree(), root)


def _powers(expression: sympy.Expr, variable: sympy.Symbol) -> list[sympy.Pow]:
    powers = [node for node in expression.atoms(sympy.Pow) if node.base == variable]
    if any(not node.exp.is_Rational for node in powers):
        raise NoClosedForm(f"{expression} has {variable} in an exponent")
    return powers


def _in_root(expression: sympy.Expr, variable: sympy.Symbol, root: int) -> dict[sympy.Expr, sympy.Expr]:
    replaced: dict[sympy.Expr, sympy.Expr] = {variable: _root**root}
    return replaced | {node: _root ** (root * node.exp) for node in _powers(expression, variable)}


def growth_of(expression: sympy.Expr, variable: sympy.Symbol) -> tuple[Growth, sympy.Expr]:
    """Class of a product of leading-term factors and A(L)^(aL + b), and the constant that the formula tends to if it is flat.

    Raises:
        NoClosedForm: a factor of another form.
    """
    growth, constant, rate = FLAT, sympy.Integer(1), sympy.Integer(1)
    for factor in sympy.Mul.make_args(sympy.expand_power_base(sympy.powsimp(expression, combine="exp"))):
        base, exponent = factor.as_base_exp()
        if exponent.has(variable):  # all bases to the power L are one rate
            slope, offset = _line(exponent, variable)
            rate *= base**slope
            factor = base**offset
        if factor.has(sympy.harmonic):
            base, exponent = factor.as_base_exp()
            found, limit = _logarithm(base, exponent, variable)
        elif factor.has(variable):
            limit, power = leading_term(factor, variable)
            found = Growth(sympy.Integer(1), power)
        else:
            found, limit = FLAT, factor
        growth, constant = growth.times(found), constant * limit
    found, limit = _exponential(sympy.factor(rate), variable)
    return growth.times(found), constant * limit


def _line(exponent: sympy.Expr, variable: sympy.Symbol) -> list[sympy.Expr]:
    line = sympy.Poly(exponent, variable) if exponent.is_polynomial(variable) else None
    if line is None or line.degree() != 1:
        raise NoClosedForm(f"the exponent {exponent} is not linear in {variable}")
    return list(line.all_coeffs())


def _logarithm(base: sympy.Expr, exponent: sympy.Expr, variable: sympy.Symbol) -> tuple[Growth, sympy.Expr]:
    """H_L ~ ln L (DLMF 5.11.2)."""
    inside = base.replace(sympy.harmonic, lambda _, order=1: _log if order == 1 else sympy.zeta(order))
    if inside.has(variable) or not inside.is_polynomial(_log):
        raise NoClosedForm(f"{base} is no polynomial of a harmonic number")
    top = sympy.Poly(inside, _log)
    return Growth(sympy.Integer(1), sympy.Integer(0), top.degree() * exponent), top.LC() ** exponent


def _exponential(rate: sympy.Expr, variable: sympy.Symbol) -> tuple[Growth, sympy.Expr]:
    """rate(L)^L: ln rate = ln rate_∞ + c·L^p + …, so that L·ln rate is linear, a smaller power or a constant."""
    if not rate.has(variable):
        return Growth(rate, sympy.Integer(0)), sympy.Integer(1)
    end, power = leading_term(rate, variable)
    if power != 0:
        raise NoClosedForm(f"{rate} has no positive finite limit")
    coefficient, power = leading_term(rate / end - 1, variable)
    growth = Growth(end, sympy.Integer(0))
    if power < -1 or coefficient == 0:
        return growth, sympy.Integer(1)
    if power == -1:
        return growth, sympy.exp(coefficient)
    return growth.times(Growth(sympy.Integer(1), sympy.Integer(0), stretched=coefficient, power=1 + power)), sympy.Integer(1)
