"""One step of a derivation, as a terminal and a report print it."""

from __future__ import annotations

from dataclasses import dataclass

import sympy

from theory.laws.asymptotics import plain


@dataclass(frozen=True)
class DerivationStep:
    """One step: what is done, and the formula it gives (LaTeX and plain text; empty when there is none)."""

    title: str
    reason: str
    latex: str = ""
    text: str = ""


def formula(left: str, right: sympy.Expr, left_text: str | None = None) -> tuple[str, str]:
    """``left = right`` in LaTeX and in plain text."""
    return f"{left} = {sympy.latex(right)}", f"{left_text or left} = {plain(right)}"


def formulas(*equations: tuple[str, str, sympy.Expr]) -> tuple[str, str]:
    """Several equations (LaTeX left, plain left, right) on one line."""
    printed = [formula(latex, right, text) for latex, text, right in equations]
    return r",\qquad ".join(latex for latex, _ in printed), "; ".join(text for _, text in printed)
