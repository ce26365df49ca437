"""Asymptotic classes: rate^t · e^(c·t^ν) · t^exponent · (ln t)^logarithm, and the words for it."""

from __future__ import annotations

from dataclasses import dataclass

import sympy


@dataclass(frozen=True)
class Growth:
    """Growth like ``rate``^t · exp(``stretched``·t^``power``) · t^``exponent`` · (ln t)^``logarithm`` as t → ∞, 0 < power < 1."""

    rate: sympy.Expr
    exponent: sympy.Expr
    logarithm: sympy.Expr = sympy.Integer(0)
    stretched: sympy.Expr = sympy.Integer(0)
    power: sympy.Expr = sympy.Rational(1, 2)

    @property
    def flat(self) -> bool:
        """None of them."""
        return self.rate == 1 and self.exponent == 0 and self.logarithm == 0 and self.stretched == 0

    def inverse(self) -> Growth:
        """Growth of the reciprocal."""
        return Growth(sympy.factor(1 / self.rate), -self.exponent, -self.logarithm, -self.stretched, self.power)

    def times(self, other: Growth) -> Growth:
        """Growth of a product."""
        if self.stretched != 0 and other.stretched != 0 and self.power != other.power:
            raise ArithmeticError("a product of stretched exponentials of two powers is none")
        return Growth(
            sympy.factor(sympy.cancel(self.rate * other.rate)),
            sympy.simplify(self.exponent + other.exponent),
            sympy.simplify(self.logarithm + other.logarithm),
            sympy.simplify(self.stretched + other.stretched),
            self.power if self.stretched != 0 else other.power,
        )

    def to_the(self, power: sympy.Expr) -> Growth:
        """Growth of a power of it."""
        return Growth(self.rate**power, power * self.exponent, power * self.logarithm, power * self.stretched, self.power)

    def subs(self, values: dict[sympy.Symbol, sympy.Expr]) -> Growth:
        """The class with symbols replaced."""
        parts = (self.rate, self.exponent, self.logarithm, self.stretched, self.power)
        return Growth(*(sympy.sympify(part).subs(values) for part in parts))

    @property
    def kind(self) -> str:
        """``flat``, ``logarithmic``, ``power law``, ``stretched exponential`` or ``exponential``, after its fastest factor."""
        if self.rate != 1:
            return "exponential"
        if self.stretched != 0:
            return "stretched exponential"
        return "power law" if self.exponent != 0 else "logarithmic" if self.logarithm != 0 else "flat"

    def describe(self, variable: str) -> str:
        """Such as ``flat in L``, ``power law: L^(1)``, ``exponential: (3/2)^L``, ``logarithmic: (ln l)^(-1)``."""
        if self.flat:
            return f"flat in {variable}"
        parts = []
        if self.rate != 1:
            parts.append(f"({_plain(self.rate)})^{variable}")
        if self.stretched != 0:
            parts.append(f"exp({_plain(self.stretched)}·{variable}^({_plain(self.power)}))")
        if self.exponent != 0:
            parts.append(f"{variable}^({_plain(self.exponent)})")
        if self.logarithm != 0:
            parts.append(f"(ln {variable})^({_plain(self.logarithm)})")
        return f"{self.kind}: {' · '.join(parts)}"


FLAT = Growth(sympy.Integer(1), sympy.Integer(0))


def _plain(value: sympy.Expr) -> str:
    if value.is_number and not value.is_Rational:
        return f"{float(value):.6g}"
    return plain(value)


def plain(formula: sympy.Expr) -> str:
    """A formula as one line of text with the field's letters."""
    text = str(formula)
    for written, meant in (
        ("harmonic(", "H("),
        ("\\kappa", "κ"),
        ("\\phi", "φ"),
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
    """Class of q_l = constant, q_0 + b l, q_0 + b H_l (a harmonic number), or fixed + (q_0 − fixed)·A^l."""
    if not stream.has(layer):
        return FLAT
    if sums := stream.atoms(sympy.harmonic):
        return (
            FLAT
            if all(len(node.args) > 1 and node.args[1] > 1 for node in sums)
            else Growth(sympy.Integer(1), sympy.Integer(0), sympy.Integer(1))
        )
    powers = [node for node in stream.atoms(sympy.Pow) if node.exp == layer]
    if powers:
        return Growth(powers[0].base, sympy.Integer(0))
    return Growth(sympy.Integer(1), sympy.Integer(sympy.degree(stream, layer)))
