"""Dropout keeps a Post-LN Transformer's tokens from becoming alike, and makes its coherent gradient fall at a constant rate.

Independent masks at every coordinate of a branch's output multiply its second moment by 1/(1 − P), and so the gradient's; what
two tokens share has two masks and is left as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy

from theory.algebra import Variant
from theory.laws.attention.block import ffn, kernel, slopes, token_step
from theory.laws.attention.exchangeable import Pair
from theory.laws.attention.softmax import c, overlap, share
from theory.laws.steps import DerivationStep, formulas

rate = sympy.Symbol("P", positive=True)
"""Probability that a coordinate is dropped."""
mixing = sympy.Symbol("v", positive=True)
"""Gain of W_V W_O."""
RELU = (sympy.sqrt(1 - c**2) + c * (sympy.pi - sympy.acos(c))) / sympy.pi
"""K(c)/s² of ReLU (Cho & Saul 2009, eq. 6 at unit variances)."""


def dropped(moments: Pair) -> Pair:
    """Second moments behind a dropout."""
    return Pair(moments.diagonal / (1 - rate), moments.between)


@dataclass(frozen=True)
class DropoutLaw:
    """Many exchangeable tokens, attention then a ReLU FFN.

    Attributes:
        cosine: c after one block, in c.
        gain: factor on the squared coherent gradient of one block, in c.
        steps: how they are found.
    """

    cosine: sympy.Expr
    gain: sympy.Expr
    steps: tuple[DerivationStep, ...]

    def at(self, dropout: float, values: float, square: float) -> tuple[float, float]:
        """(fixed point of c, growth of the gradient's norm per block towards the output) for numbers P, v and s²."""
        point = {rate: dropout, mixing: values, ffn.square: square}
        onwards = sympy.lambdify(c, self.cosine.subs(point))
        alike = 0.5
        for _ in range(4000):
            alike = min(float(onwards(alike)), 1.0)
        return alike, float(self.gain.subs(point).subs(c, alike)) ** -0.5


def dropout_law(variant: Variant) -> DropoutLaw:
    """Derive the law of a variant whose steps end in a norm.

    Raises:
        NoClosedForm: as `token_step`.
    """
    attention, feed_forward = (
        token_step(variant, mixes, mixing if mixes else sympy.Integer(1), dropped) for mixes in (True, False)
    )
    relu = {kernel: lambda at: ffn.square * RELU.subs(c, at), slopes: lambda at: ffn.square * sympy.diff(RELU, c).subs(c, at)}
    between = _many_tokens(attention.forward.cosine)
    cosine, gain = _many_tokens(feed_forward.forward.cosine), feed_forward.coherent_gain
    for function, closed in relu.items():
        cosine, gain = cosine.replace(function, closed), gain.replace(function, closed)
    steps = (
        DerivationStep(
            "Dropout",
            "Independent masks on a branch's output: its square gains 1/(1 − P), what two tokens share does not. "
            "v is the gain of W_V W_O; many tokens.",
            *formulas(
                ("c'_{\\mathrm{attn}}", "c' after attention", between),
                ("c'_{\\mathrm{ffn}}", "c' after the FFN", _many_tokens(feed_forward.forward.cosine)),
            ),
        ),
        DerivationStep(
            "Coherent gradient with dropout",
            "The norm divides by the square that dropout has raised, the coherent gradient has not gained: it falls at "
            "every step, at a constant rate at the fixed point of c.",
            *formulas(
                (r"\lambda_{\mathrm{attn}}", "λ of attention", attention.coherent_gain),
                (r"\lambda_{\mathrm{ffn}}", "λ of the FFN", feed_forward.coherent_gain),
            ),
        ),
    )
    return DropoutLaw(cosine.subs(c, between), attention.coherent_gain * gain.subs(c, between), steps)


def _many_tokens(expression: sympy.Expr) -> sympy.Expr:
    return sympy.factor(expression.subs({share: 0, overlap: 0}))
