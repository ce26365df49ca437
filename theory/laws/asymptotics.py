"""Asymptotic classes: rate^L · L^exponent, and the words for it."""

from __future__ import annotations

from dataclasses import dataclass

import sympy


@dataclass(frozen=True)
class Growth:
    """Growth like ``rate``^t · t^``exponent`` as t → ∞."""

    rate: sympy.Expr
    exponent: sympy.Expr

    @property
    def flat(self) -> bool:
        """Neither exponential nor power."""
        return self.rate == 1 and self.exponent == 0

    def inverse(self) -> Growth:
        """Growth of the reciprocal."""
        return Growth(sympy.factor(1 / self.rate), -self.exponent)

    def times(self, other: Growth) -> Growth:
        """Growth of a product."""
        return Growth(sympy.factor(sympy.cancel(self.rate * other.rate)), sympy.simplify(self.exponent + other.exponent))

    def subs(self, values: dict[sympy.Symbol, sympy.Expr]) -> Growth:
        """The class with symbols replaced."""
        return Growth(sympy.sympify(self.rate).subs(values), sympy.sympify(self.exponent).subs(values))

    def describe(self, variable: str) -> str:
        """Such as ``flat in L``, ``power law L^(1)``, ``exponential: (3/2)^L``."""
        if self.flat:
            return f"flat in {variable}"
        parts = []
        if self.rate != 1:
            parts.append(f"({_plain(self.rate)})^{variable}")
        if self.exponent != 0:
            parts.append(f"{variable}^({_plain(self.exponent)})")
        kind = "exponential" if self.rate != 1 else "power law"
        return f"{kind}: {' · '.join(parts)}"


def _plain(value: sympy.Expr) -> str:
    if value.is_number and not value.is_Rational:
        return f"{float(value):.6g}"
    return plain(value)


def plain(formula: sympy.Expr) -> str:
    """A formula as one line of text with the field's letters."""
    text = str(formula)
    for written, meant in (
        ("\\kappa", "κ"),
        ("^2", "²"),
        ("**", "^"),
        ("alpha", "α"),
        ("beta", "β"),
        ("q_0", "q₀"),
        ("polygamma(0, ", "ψ("),
        ("gamma(", "Γ("),
        ("gamma", "γ"),
        ("tau", "τ"),
        ("_\\times", "_×"),
        ("\\dot{K}", "K̇"),
        ("*", "·"),
    ):
        text = text.replace(written, meant)
    return text


def growth_of_stream(stream: sympy.Expr, layer: sympy.Symbol) -> Growth:
    """Class of q_l = constant, q_0 + b l, or fixed + (q_0 − fixed)·A^l."""
    if not stream.has(layer):
        return Growth(sympy.Integer(1), sympy.Integer(0))
    powers = [node for node in stream.atoms(sympy.Pow) if node.exp == layer]
    if powers:
        return Growth(powers[0].base, sympy.Integer(0))
    return Growth(sympy.Integer(1), sympy.Integer(sympy.degree(stream, layer)))
