"""One step of a variant on exchangeable tokens, read off the walk of its expression: (q, c; g, γ) ↦ (q', c'; g', γ')."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sympy

from theory.algebra import Position, Sublayer, Variant, sublayer_node
from theory.errors import NoClosedForm
from theory.laws.attention.exchangeable import ExchangeableTokens, Pair
from theory.laws.attention.patterns import attention_maps, between, square
from theory.laws.attention.softmax import c, n, overlap, share, softmax
from theory.laws.recursion import fixed_by_norm, generic_moments, q, repeated_steps
from theory.propagation import Walk
from theory.sublayers import SublayerMaps

kernel, slopes = sympy.Function("K"), sympy.Function(r"\dot{K}")
"""E φ(u)φ(v) and E φ'(u)φ'(v) of an FFN at unit variances and correlation c, times its output matrix's gain."""
ffn = generic_moments()[0]
"""s² = K(1) and κ² = K̇(1)."""
epsilon = sympy.Symbol("epsilon", positive=True)
"""1 − c."""


_UNIT = sympy.Integer(1)


@dataclass(frozen=True)
class TokenStep:
    """One sublayer's step.

    Attributes:
        attention: whether its sublayer is attention.
        forward: second moments of the stream after it, entering with q and cosine c.
        backward: of the gradient before it, with g and g_× = gγ after it.
    """

    attention: bool
    forward: Pair
    backward: Pair

    def near_collapse(self, expression: sympy.Expr) -> sympy.Expr:
        """``expression`` at c = 1 − ε, with K = s² − κ²ε by Price's theorem (K' = K̇)."""
        shares = softmax().values
        smooth = expression.replace(kernel, lambda at: ffn.square - ffn.gain * (1 - at)).replace(slopes, lambda _: ffn.gain)
        return smooth.subs(shares).subs(c, 1 - epsilon)

    @property
    def spread_rate(self) -> sympy.Expr:
        """Factor on a small 1 − c."""
        spread = self.near_collapse(1 - self.forward.between / self.forward.diagonal)
        return sympy.factor(sympy.diff(spread, epsilon).subs(epsilon, 0))

    @property
    def growth(self) -> sympy.Expr:
        """q' at c = 1."""
        return sympy.factor(self.near_collapse(self.forward.diagonal).subs(epsilon, 0))

    @property
    def backward_matrix(self) -> sympy.Matrix:
        """The map of (g, g_×) at c = 1."""
        rows = (self.backward.diagonal, self.backward.between)
        linear = [self.near_collapse(row).subs(epsilon, 0) for row in rows]
        return sympy.Matrix([[sympy.factor(sympy.diff(row, entry)) for entry in (square, between)] for row in linear])

    @property
    def coherent_gain(self) -> sympy.Expr:
        """Factor on Σ_ij Γ_ij/n² at any c, for many tokens: what all tokens' gradients share."""
        few = {share: share / n, overlap: overlap / n}
        total = (self.backward.diagonal + (n - 1) * self.backward.between).subs(few) / n
        return sympy.factor(sympy.limit(sympy.cancel(total / between), n, sympy.oo))


def token_step(
    variant: Variant,
    attention: bool,
    scale: sympy.Expr = _UNIT,
    behind: Callable[[Pair], Pair] = lambda moments: moments,
    index: int = 1,
    count: int = 1,
) -> TokenStep:
    """Walk a single-stream variant's step on exchangeable tokens.

    Args:
        variant: the expression.
        attention: whether the step's sublayer is attention; else an FFN.
        scale: gain of its value and output matrices.
        behind: a linear map on the moments of the sublayer's output, and of the gradient that comes back (dropout).
        index, count: which sublayer of the block it is, and of how many.

    Raises:
        NoClosedForm: what `repeated_steps` refuses, norms inside the sublayer, or a sublayer whose input no norm has fixed.
    """
    place = Position(1, 1, index, count, "attention" if attention else "ffn")
    steps = repeated_steps(variant, place)
    if sublayer_node(steps).inner:
        raise NoClosedForm("norms inside the sublayer")
    entering = sympy.Integer(1) if fixed_by_norm(steps, place) else q
    stream = Pair(entering, entering * c)

    def forward(_: Sublayer, moments: Pair) -> Pair:
        if moments.diagonal != 1:
            raise NoClosedForm("no norm fixes the sublayer's input, so the softmax and the kernels follow the stream's length")
        if attention:
            return behind(scale * attention_maps().output.each(lambda entry: entry.subs(c, moments.between)))
        return behind(scale * Pair(ffn.square, kernel(moments.between)))

    def backward(moments: Pair, gradient: Pair) -> Pair:
        gradient = behind(scale * gradient)
        if not attention:
            return Pair(ffn.gain * gradient.diagonal, slopes(moments.between) * gradient.between)
        received = {square: gradient.diagonal, between: gradient.between, c: moments.between}
        return attention_maps().backward.each(lambda entry: entry.subs(received, simultaneous=True))

    step = Walk(steps, {("x", "x"): stream}, ExchangeableTokens(), lambda formula: formula, forward)
    after = step.backward({("x", "x"): Pair(square, between)}, backward)
    return TokenStep(attention, step.outgoing()["x", "x"], after.incoming(("x",))["x", "x"])


def token_steps(variant: Variant, sublayers: tuple[SublayerMaps, ...]) -> tuple[TokenStep, ...]:
    """The steps of one block, in order.

    Raises:
        NoClosedForm: as `token_step`.
    """
    return tuple(
        token_step(variant, not maps.tokenwise, index=index, count=len(sublayers))
        for index, maps in enumerate(sublayers, start=1)
    )
