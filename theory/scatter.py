"""How single networks' gradients scatter around their mean: log|g|² to first order in 1/width."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import sympy

from theory.errors import InvalidInput
from theory.finite_width.derivation import SUBLAYERS as HOMOGENEOUS
from theory.finite_width.derivation import A, B, scatter
from theory.laws.asymptotics import plain
from theory.laws.closed import layer
from theory.laws.law import derive
from theory.laws.recursion import q
from theory.laws.steps import DerivationStep
from theory.stack import Profile
from theory.variants import load

Array = np.ndarray


def log_gradient(profile: Profile) -> Iterator[tuple[Array, Array]]:
    """(mean, variance over networks) of log(|∂𝓛/∂x_l|²/d) at layers 0..L, each (tokens,).

    To first order E log X = log E X − ½ Var log X whatever the law; many blocks make it log-normal (Hanin & Nica 2019).

    Raises:
        InvalidInput: terms of order 1/width are not derived for the variant.
    """
    if profile.scatter is None:
        name = profile.configuration.variant.name
        raise InvalidInput(
            f"no scatter is derived for {name}: its terms of order 1/width are not derived, or the width is infinite "
            "(measure has it for any)"
        )
    for moments, variance in zip(profile.backward, profile.scatter, strict=True):
        yield np.log(np.diagonal(moments["x", "x"])) - variance / 2, variance


def scatter_steps() -> list[DerivationStep]:
    """From one Pre-LN step's scatter to its sum over the stack."""
    step = derive(load("pre-ln"))
    square, gain = step.moments[0].square, step.moments[0].gain
    per_block = sympy.factor(scatter(HOMOGENEOUS["ffn"]).subs({A: 1, B: gain / q}))
    leading = sympy.limit(per_block.subs(gain, square).subs(q, square * layer) * layer, layer, sympy.oo)
    return [
        DerivationStep(
            "Scatter: what follows the lengths",
            "Norms above divide by lengths that scatter: S = d log|g_l|²/d log|x_l|² is −1 behind the final norm, and "
            "a Pre-LN step turns S into "
            "S·A_f/(A_f + B_f) − B/(A + B). For κ² = s² the two shares agree, so that S = −1 all along the stack.",
            r"S' = S\,\frac{q}{q+s^2} - \frac{\kappa^2}{q+\kappa^2} = -1 \text{ for } S = -1",
            "S' = S·q/(q + s²) − κ²/(q + κ²) = −1 for S = −1, κ² = s²",
        ),
        DerivationStep(
            "Scatter: one step",
            "With S = −1 a step adds what a Post-LN step does: gradient and length scatter alike, 4V_j in all, with "
            "B/A = κ²/q_j.",
            f"d\\,\\Delta_j = {sympy.latex(per_block)}",
            f"d·Δ_j = {plain(per_block)}",
        ),
        DerivationStep(
            "Scatter: sum over blocks",
            "q_j = q₀ + s²j, so that the terms fall as 1/j and not faster: a logarithm. It is bounded at a fixed "
            "fraction l/L, and grows without "
            "bound at a fixed layer. Post-LN's terms do not fall: 4V·m/d.",
            rf"\Delta_j \sim \frac{{{sympy.latex(leading)}}}{{d\,j}}, \qquad \sum_{{j=l+1}}^L \Delta_j \sim "
            rf"\frac{{{sympy.latex(leading)}}}{{d}} \ln\frac Ll",
            f"Δ_j ~ {plain(leading)}/(d·j), Σ Δ_j ~ ({plain(leading)}/d)·ln(L/l)",
        ),
    ]
