"""Expressions as text and as LaTeX."""

from __future__ import annotations

import sympy

from theory.algebra.expression import Expression, Matched, Norm, Pointwise, Scale, Stream, Sublayer, Sum

_NORM_NAMES = {"layer": "LN", "rms": "RMS"}
_GREEK = {"alpha": "α", "beta": "β", "gamma": "γ", "omega": "ω", "lambda": "λ"}


def to_text(node: Expression, index: str = "") -> str:
    """``LN(x + F(x))``; ``index`` is appended to every stream's name, such as ``_{l-1}``."""
    match node:
        case Stream(name):
            return name + index
        case Sublayer(argument, inner):
            return f"F{_inner(inner)}({to_text(argument, index)})"
        case Norm(argument, kind):
            return f"{_NORM_NAMES[kind]}({to_text(argument, index)})"
        case Pointwise(argument, function):
            return f"{function}({to_text(argument, index)})"
        case Matched(argument, reference):
            scaled = _bracket(argument, to_text(argument, index), "()")
            return f"(rms({to_text(reference, index)})/rms({to_text(argument, index)}))·{scaled}"
        case Scale(coefficient, argument):
            return f"{_factor(coefficient)}·{_bracket(argument, to_text(argument, index), '()')}"
        case Sum(terms):
            return " + ".join(to_text(term, index) for term in terms)
    raise TypeError(f"no text for {type(node).__name__}")


def to_latex(node: Expression, index: str = "") -> str:
    """LaTeX of an expression; ``index`` is appended to every stream's name."""
    match node:
        case Stream(name):
            return name + index
        case Sublayer(argument, inner):
            within = rf"_{{\mathrm{{{_inner(inner)[1:-1]}}}}}" if inner else ""
            return rf"F{within}\left({to_latex(argument, index)}\right)"
        case Norm(argument, kind):
            return rf"\mathrm{{{_NORM_NAMES[kind]}}}\left({to_latex(argument, index)}\right)"
        case Pointwise(argument, function):
            return rf"\{function}\left({to_latex(argument, index)}\right)"
        case Matched(argument, reference):
            scaled = _bracket(argument, to_latex(argument, index), (r"\left(", r"\right)"))
            of, over = (rf"\mathrm{{rms}}\left({to_latex(part, index)}\right)" for part in (reference, argument))
            return rf"\frac{{{of}}}{{{over}}}\,{scaled}"
        case Scale(coefficient, argument):
            scaled = _bracket(argument, to_latex(argument, index), (r"\left(", r"\right)"))
            return rf"{sympy.latex(coefficient)}\,{scaled}"
        case Sum(terms):
            return " + ".join(to_latex(term, index) for term in terms)
    raise TypeError(f"no LaTeX for {type(node).__name__}")


def _inner(inner: tuple[tuple[str, str], ...]) -> str:
    """``[LN middle]``."""
    return f"[{', '.join(f'{_NORM_NAMES[kind]} {place}' for place, kind in inner)}]" if inner else ""


def _factor(coefficient: sympy.Expr) -> str:
    text = str(coefficient)
    text = _GREEK.get(text, text)
    return f"({text})" if any(sign in text for sign in " +-/") else text


def _bracket(argument: Expression, text: str, brackets: tuple[str, str] | str) -> str:
    return f"{brackets[0]}{text}{brackets[1]}" if isinstance(argument, Sum) else text
