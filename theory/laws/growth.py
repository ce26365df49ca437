"""The class of a sequence without noise, read off its local exponents at doubling arguments: nothing is fitted.

With p_k = log(y_{2t}/y_t)/log 2 at t = 2^k: a power law has p_k → p, an exponential p_k ∝ 2^k, a stretched exponential e^{c t^ν}
p_k ∝ 2^{νk}, and a logarithm equal steps y_{2t} − y_t. How far the last two local numbers differ says how far it has converged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import sympy

from theory.laws.asymptotics import Growth

Kind = Literal[
    "flat", "logarithmic", "power", "stretched exponential", "exponential", "faster than exponential", "zero", "undecided"
]
_KINDS: dict[str, Kind] = {
    "flat": "flat",
    "logarithmic": "logarithmic",
    "power law": "power",
    "stretched exponential": "stretched exponential",
    "exponential": "exponential",
}
_NOTHING = 1e-9
"""Local exponents below this are rounding."""


@dataclass(frozen=True)
class Behaviour:
    """How a positive quantity depends on t.

    Attributes:
        kind: its class.
        words: the class as text, with its number, such as ``power law l^(-1)``.
        number: power's exponent, exponential's rate (factor a step), stretched exponential's power ν of t, logarithm's power.
        exact: from a closed form; else from the numeric recursion.
        uncertainty: of a numeric class, how far ``number`` still moved over the last doubling; 0 where it is exact.
    """

    kind: Kind
    words: str
    number: float | None = None
    exact: bool = False
    uncertainty: float = 0.0

    @property
    def summary(self) -> str:
        """The class in words, and how far a numeric one still moved over the last doubling."""
        return self.words if self.exact else f"{self.words} (last doubling: ±{self.uncertainty:.1g})"


def of_growth(growth: Growth, variable: str) -> Behaviour:
    """A class from a closed form, its moments put in."""
    kind: Kind = _KINDS[growth.kind]
    numbers = {
        "flat": sympy.Integer(0),
        "logarithmic": growth.logarithm,
        "power": growth.exponent,
        "stretched exponential": growth.power,
        "exponential": growth.rate,
    }
    return Behaviour(kind, growth.describe(variable), float(numbers[kind]), exact=True)


def read_class(arguments: Sequence[int], values: Sequence[float], variable: str) -> Behaviour:
    """The class of positive ``values`` at ``arguments`` t, 2t, 4t, … (four at least).

    A sequence that overflows or vanishes is cut there.
    """
    y = np.asarray(values, dtype=float)
    usable = np.isfinite(y) & (y > 1e-290)
    count = len(y) if usable.all() else int(np.argmin(usable))
    if np.all(y == 0):
        return Behaviour("zero", "zero", 0.0)
    if count < 4:
        return Behaviour("undecided", "undecided: too few depths before it leaves the range of floats")
    t, y = np.asarray(arguments[:count], dtype=float), y[:count]
    return _read(t, y, np.diff(np.log(y)) / np.log(2), variable)


def _read(t: np.ndarray, y: np.ndarray, p: np.ndarray, variable: str) -> Behaviour:
    moved = float(abs(p[-1] - p[-2]))
    if np.abs(p[-2:]).max() < _NOTHING:
        return Behaviour("flat", f"flat in {variable}", 0.0, uncertainty=float(abs(p[-1])))
    last = p[-1] / p[-2] if p[-2] else np.inf
    if last > 1.2:
        return _exponential(t, p, variable)
    if 0 <= last < 0.8 or abs(p[-1]) < 1e-3:
        return Behaviour("flat", f"flat in {variable}", 0.0, uncertainty=float(abs(p[-1])))
    if abs(p[-1]) <= moved:
        return Behaviour("flat", f"flat in {variable}, as far as it is decided", 0.0, uncertainty=moved)
    for power, z in ((1, y), (-1, 1 / y)):
        steps = np.diff(z)
        away = float(abs(steps[-1] / steps[-2] - 1))
        if steps[-1] > 0 and last < 1 and away < 1 - last:  # equal steps fit better than an equal exponent
            return Behaviour("logarithmic", f"logarithmic: (ln {variable})^({power})", float(power), uncertainty=away)
    return Behaviour("power", f"power law: {variable}^({p[-1]:.4g})", float(p[-1]), uncertainty=moved)


def _exponential(t: np.ndarray, p: np.ndarray, variable: str) -> Behaviour:
    power, earlier = (float(np.log2(ratio)) if ratio > 0 else np.nan for ratio in (p[-1] / p[-2], p[-2] / p[-3]))
    if power > 1.15:
        return Behaviour(
            "faster than exponential", f"faster than exponential in {variable}", power, uncertainty=abs(power - earlier)
        )
    if power > 0.85:
        rates = np.exp(p[-2:] * np.log(2) / t[-3:-1])
        words = f"exponential: ({rates[-1]:.6g})^{variable}"
        return Behaviour("exponential", words, float(rates[-1]), uncertainty=float(abs(rates[-1] - rates[-2])))
    sign = "" if p[-1] > 0 else "−"
    words = f"stretched exponential: exp({sign}c·{variable}^{power:.3g})"
    return Behaviour("stretched exponential", words, power, uncertainty=abs(power - earlier))
