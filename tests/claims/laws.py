"""Laws as the report prints them, taken from theory's derivation and never typed in."""

from __future__ import annotations

import sympy

from theory.laws.attention.report import law_latex
from theory.laws.law import derive
from theory.spectrum.derivation import worst_case
from theory.sublayers import sublayer
from theory.variants import load

_GRADIENT = r"\frac1d E\left|\partial\mathcal{L}/\partial x_l\right|^2"


def gradient_law(variant: str, text: str, homogeneous: bool = False) -> dict[str, str]:
    """The squared stream gradient of a variant for a unit gradient at the output; ``homogeneous`` puts κ² = s²."""
    law = derive(load(variant))
    formula = law.gradient_at(law.homogeneous) if homogeneous else law.gradient
    return {"latex": f"{_GRADIENT} = {sympy.latex(formula)}", "text": text}


def relative_gradient_law(variant: str, text: str, homogeneous: bool = True) -> dict[str, str]:
    """The squared gradient at layer l over the one at layer L."""
    law = derive(load(variant))
    formula = law.product.subs(law.homogeneous if homogeneous else {}).value
    left = r"\frac{E|\partial\mathcal{L}/\partial x_l|^2}{E|\partial\mathcal{L}/\partial x_L|^2}"
    return {
        "latex": f"{left} = {sympy.latex(sympy.factor(formula) if homogeneous else formula)}",
        "text": text,
    }


def stream_law(variant: str, text: str) -> dict[str, str]:
    """The stream's second moment."""
    return {"latex": f"q_l = {sympy.latex(derive(load(variant)).stream)}", "text": text}


def step_law(variant: str, text: str) -> dict[str, str]:
    """One step's gain χ."""
    return {"latex": rf"\chi = {sympy.latex(derive(load(variant)).backward)}", "text": text}


def worst_case_law(variant: str, text: str) -> dict[str, str]:
    """The class of the worst case over the typical one, from its derivation."""
    (step,) = (step for step in worst_case(load(variant)) if step.title == "Worst case: class")
    return {"latex": step.latex, "text": text}


def collapsed_gradient_law(variant: str, text: str) -> dict[str, str]:
    """The squared gradient m blocks below the output once attention has made the tokens alike, FFN any."""
    return {"latex": law_latex(load(variant), (sublayer("attention"), sublayer("gelu"))), "text": text}
