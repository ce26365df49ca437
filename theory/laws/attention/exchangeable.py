"""Second moments of exchangeable tokens: one entry on the diagonal, one off it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy

from theory.errors import NoClosedForm


@dataclass(frozen=True)
class Pair:
    """A matrix M_ii = ``diagonal``, M_ij = ``between``, of sympy expressions."""

    diagonal: sympy.Expr
    between: sympy.Expr

    def __add__(self, other: Any) -> Pair:
        return self if other == 0 else Pair(self.diagonal + other.diagonal, self.between + other.between)

    __radd__ = __add__

    def __mul__(self, factor: Any) -> Pair:
        return Pair(factor * self.diagonal, factor * self.between)

    __rmul__ = __mul__

    def each(self, function: Any) -> Pair:
        """``function`` of both entries."""
        return Pair(function(self.diagonal), function(self.between))

    @property
    def cosine(self) -> sympy.Expr:
        """Of two tokens."""
        return sympy.cancel(self.between / self.diagonal)


class ExchangeableTokens:
    """The `theory.propagation.Carrier` of pairs: every token has the same coefficients."""

    one = sympy.Integer(1)

    def outer(self, left: Any, right: Any) -> Any:
        return left * right

    def rms(self, moment: Any) -> Any:
        return sympy.sqrt(moment.diagonal)

    def level(self, moment: Any) -> Any:
        return sympy.sqrt(moment.diagonal)

    def pointwise(self, function: str, moment: Any) -> tuple[Any, Any, Any]:
        raise NoClosedForm(f"{function} in place of a norm: its moments follow the stream's length")

    def tidy(self, moment: Any) -> Any:
        return moment.each(sympy.factor) if isinstance(moment, Pair) else moment
