"""The law of a variant: recursion, closed form, asymptotic class, and the derivation that leads there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import sympy

from theory.algebra import Position, Variant, sublayer_node
from theory.errors import NoClosedForm
from theory.laws.asymptotics import Growth, growth_of_stream
from theory.laws.closed import Product, depth, layer, multiply_out, q0, solve_forward
from theory.laws.proof import Proof, prove
from theory.laws.recursion import (
    Moments,
    Step,
    generic_moments,
    q,
    read_out_gain,
    repeated_steps,
    symbolic_step,
)


@dataclass(frozen=True)
class Law:
    """What a single-stream variant's expression implies for a block of one or more sublayers.

    Attributes:
        forward, backward: one block's map of q and its squared gain, functions of q.
        stream: q_l, with q_0 the input's moment.
        product: the blocks' gains multiplied out, G(l→L).
        read_out: squared gain of the read-out at q = q_L.
        gradient: E|∂𝓛/∂x_l|² per coordinate for a unit gradient at the output.
        proof: the exact comparison with the recursion.
    """

    variant: Variant
    moments: tuple[Moments, ...]
    steps: tuple[Step, ...]
    forward: sympy.Expr
    backward: sympy.Expr
    stream: sympy.Expr
    product: Product
    read_out: sympy.Expr
    gradient: sympy.Expr
    proof: Proof

    def growth_in_depth(self, values: dict[sympy.Symbol, sympy.Expr] | None = None) -> Growth:
        """Class of the gradient in L at fixed l; ``values`` puts numbers for s² and κ²."""
        values = values or {}
        product = self.product.subs(values)
        stream = self.growth_of_stream().subs(values)
        read_out = stream.inverse() if self.read_out.has(q) else Growth(sympy.Integer(1), sympy.Integer(0))
        return Growth(product.rate, product.exponent).times(read_out)

    def growth_in_layer(self, values: dict[sympy.Symbol, sympy.Expr] | None = None) -> Growth:
        """Class of the gradient in l at fixed L."""
        product = self.product.subs(values or {})
        return Growth(product.rate, product.exponent).inverse()

    def growth_of_stream(self) -> Growth:
        """Class of q_l in l."""
        return growth_of_stream(self.stream, layer)

    @property
    def homogeneous(self) -> dict[sympy.Symbol, sympy.Expr]:
        """The substitution κ² = s² of a positively homogeneous sublayer (Euler's identity); none with a norm in its middle."""
        return {m.gain: m.square for m in self.moments if m.degree == 1}

    def gradient_at(self, values: dict[sympy.Symbol, sympy.Expr]) -> sympy.Expr:
        """The gradient's closed form with numbers or symbols put for the moments."""
        read_out = self.read_out.subs(q, self.stream.subs(layer, depth))
        return sympy.factor(self.product.subs(values).value * read_out.subs(values))


@lru_cache(maxsize=256)
def derive(variant: Variant, sublayers: int = 1, homogeneous: bool = True) -> Law:
    """Derive the law of a single-stream variant from its expression.

    Args:
        variant: the expression.
        sublayers: number of sublayers in a block.
        homogeneous: whether F(tx) = tF(x), which matters where no norm fixes the branch's input.

    Raises:
        NoClosedForm: with the reason; `theory.prediction` still has the numeric recursion.
        ArithmeticError: the closed form failed the exact comparison (a bug).
    """
    moments = tuple(
        replace(m, inner=sublayer_node(repeated_steps(variant, Position(1, 1, index, sublayers))).inner)
        for index, m in enumerate(generic_moments(sublayers, homogeneous), start=1)
    )
    steps = tuple(symbolic_step(variant, m, index, sublayers) for index, m in enumerate(moments, start=1))
    forward, backward = q, sympy.Integer(1)
    for step in steps:
        backward = backward * step.backward.subs(q, forward)
        forward = sympy.cancel(step.forward.subs(q, forward))
    stream = solve_forward(forward)
    product = multiply_out(backward, stream)
    read_out = read_out_gain(variant)
    gradient = product.value * read_out.subs(q, stream.subs(layer, depth))
    proof = prove(forward, backward, stream, product.value)
    return Law(variant, moments, steps, forward, backward, stream, product, read_out, gradient, proof)


def closed_form(variant: Variant, sublayers: int = 1, homogeneous: bool = True) -> Law | NoClosedForm:
    """The law, or the reason why there is none, for those who print both."""
    try:
        return derive(variant, sublayers, homogeneous)
    except NoClosedForm as reason:
        return reason


__all__ = ["Law", "NoClosedForm", "closed_form", "derive", "q0"]
