"""Exact Gaussian expectations of polynomials in x, φ(x), Φ(x), by Stein's lemma.

φ and Φ are the standard normal density and distribution function; x ~ N(0, q). The ring they generate
is closed under differentiation (φ' = −xφ, Φ' = φ), so E[x g(x)] = q E[g'(x)] (Stein 1981) removes one
power of x after the other, down to E[φ^b Φ^c], which is known in closed form for c ≤ 2.
"""

from __future__ import annotations

from functools import cache

import sympy

q = sympy.Symbol("q", positive=True)
"""Second moment of the pre-activation."""
x, pdf, cdf = sympy.symbols("x phi Phi", real=True)


def gaussian_expectation(polynomial: sympy.Expr) -> sympy.Expr:
    """E[polynomial(x, φ(x), Φ(x))] for x ~ N(0, q), as an exact function of q.

    Raises:
        ValueError: when Φ occurs to a power above 2 (no closed form).
    """
    poly = sympy.Poly(sympy.expand(polynomial), x, pdf, cdf)
    return sympy.simplify(sum(coefficient * _monomial(*powers) for powers, coefficient in poly.terms()))


@cache
def _monomial(a: int, b: int, c: int) -> sympy.Expr:
    """E[x^a φ^b Φ^c]. Stein on the remaining factor: E[x·x^{a-1}φ^bΦ^c] = q E[(x^{a-1}φ^bΦ^c)']."""
    if a == 0:
        return _base(b, c)
    total: sympy.Expr = sympy.Integer(0)
    if a > 1:
        total += (a - 1) * _monomial(a - 2, b, c)
    if c:
        total += c * _monomial(a - 1, b + 1, c - 1)
    # The derivative of φ^b gives −b x φ^b, which is the expectation itself: bring it to the left.
    return sympy.together(q * total / (1 + b * q))


def _base(b: int, c: int) -> sympy.Expr:
    """E[φ^b Φ^c]: the factor φ^b turns N(0, q) into N(0, q/(1+bq)) times its normalisation."""
    weight = (2 * sympy.pi) ** sympy.Rational(-b, 2) / sympy.sqrt(1 + b * q)
    variance = q / (1 + b * q)
    match c:
        case 0:
            return weight
        case 1:
            return weight / 2
        case 2:  # an orthant probability (Sheppard 1899)
            return weight * (sympy.Rational(1, 4) + sympy.asin(variance / (1 + variance)) / (2 * sympy.pi))
    raise ValueError(f"E[Phi^{c}] has no closed form here: use quadrature")
