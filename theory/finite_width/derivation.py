"""V in symbols: one constant from free probability, from the mean's excess and from the scatter, for homogeneous sublayers.

A positively homogeneous φ has φ(z) = z φ'(z), and φ' depends on the sign of z alone: Gaussian moments of φ and φ' together are
those of z times R = E φ'⁴/(E φ'²)², 1 for linear, 2 for ReLU.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy

from theory.laws.steps import DerivationStep, formula
from theory.spectrum.derivation import A, B, spread, step_variance

R, c = sympy.symbols("R c", positive=True)
"""Slope ratio; hidden width over width."""


@dataclass(frozen=True)
class Homogeneous:
    """A homogeneous sublayer's `theory.sublayers.Fluctuations` in symbols (degree, alignment and along are 1).

    Attributes:
        free: variance V_F of its own squared singular values, from S-transforms: 1 a Gaussian matrix, (R − 1) the slopes.
        length, gradient, coupling, conditioned: as there, from the conditional Gaussian calculus.
    """

    name: str
    free: sympy.Expr
    length: sympy.Expr
    gradient: sympy.Expr
    coupling: sympy.Expr
    conditioned: sympy.Expr


_ZERO, _ONE, _TWO = map(sympy.Integer, (0, 1, 2))
SUBLAYERS = {
    "linear": Homogeneous("W a", _ONE, _TWO, _TWO, _ZERO, _ZERO),
    "ffn": Homogeneous("W₂ φ(W₁ a)", 1 + R / c, 2 + (3 * R - 1) / c, 2 + (3 * R - 1) / c, (R - 1) / c, R / c),
    "attention": Homogeneous("W_O W_V a, tokens alike", _TWO, sympy.Integer(4), sympy.Integer(4), _ZERO, _ONE),
}
VALUES = {"linear": ("linear", {}), "relu": ("ffn", {R: _TWO, c: _ONE}), "attention": ("attention", {})}
"""Sublayers by their names in `theory.sublayers`, at one hidden width."""


def variance(kind: Homogeneous) -> sympy.Expr:
    """V of a block x + F(x), scaled or normalised, from S-transforms; A and B are the paths' squared gains."""
    return sympy.factor(step_variance().subs(spread, kind.free))


def excess(kind: Homogeneous) -> sympy.Expr:
    """d times the relative excess of E|g|² over one Post-LN block, the four effects of `theory.finite_width` added up."""
    total = A + B
    lengths = (4 * A * B + kind.length * B**2) / total**2
    branch, direct = B / total, A / total
    coupled = -kind.coupling * branch**2
    orthogonal = -(kind.conditioned + 1) * branch**2  # h·y = 0 ties h·u to h·x: lost behind u, and along a
    handed_back = -2 * direct * branch
    return sympy.factor(lengths + coupled + orthogonal + handed_back)


def scatter(kind: Homogeneous) -> sympy.Expr:
    """d times what one Post-LN block adds to Var log|g|²: log|h + Jᵀh|² less log|x + u|², and what ties the two."""
    total = A + B
    of_gradient = (4 * A * B + kind.gradient * B**2) / total**2
    of_length = (4 * A * B + kind.length * B**2) / total**2
    return sympy.factor(of_gradient + of_length - 2 * kind.coupling * (B / total) ** 2)


def one_constant(name: str) -> list[DerivationStep]:
    """The steps to V of a sublayer and to its three laws.

    Args:
        name: ``linear``, ``relu`` or ``attention``.

    Raises:
        ArithmeticError: the three do not have the same V (a bug).
    """
    key, values = VALUES[name]
    kind = SUBLAYERS[key]
    free, mean, spread_of_log = variance(kind), excess(kind), scatter(kind)
    if sympy.expand(mean - free) != 0 or sympy.expand(spread_of_log - 4 * free) != 0:
        raise ArithmeticError(
            f"V of {kind.name}: {free} from S-transforms, {mean} from the mean, {spread_of_log}/4 from the scatter"
        )
    special = sympy.factor(free.subs(values))
    return [
        DerivationStep(
            "One constant: free factors",
            "−S'(0)/S(0) of the S-transform of a law of mean one is its variance. S-transforms of free factors "
            "multiply, so variances "
            "of normalised laws add: 1 for a square Gaussian matrix, R − 1 for the slopes (over c in a hidden layer c "
            "times as wide). "
            f"F = {kind.name}.",
            *formula("V_F", kind.free),
        ),
        DerivationStep(
            "One constant: direct path and branch",
            "First order of the free sum a·1 + b·J_F; A = a², B = b²κ². For several sublayers or blocks V adds up, as "
            "S-transforms multiply.",
            *formula("V", step_variance().subs(spread, sympy.Symbol("V_F"))),
        ),
        DerivationStep("One constant: V of the block", "The two together.", *formula("V", free)),
        DerivationStep(
            "One constant: worst case", "Edge of the product of m blocks (Kargin 2008).", r"\Lambda(m)/m \to e\,V", "Λ(m)/m → e·V"
        ),
        DerivationStep(
            "One constant: mean",
            "Conditional Gaussian calculus, no free probability: E[1/r²] of r² = |x + u|²/d gives (4AB + ℓB²)/(A + "
            "B)², ℓ = d·Var|u|²/E[|u|²]²; "
            "lengths and slopes coupled, the part of h along u that h·y = 0 removes, and the part that W given u hands "
            "back take the rest off. "
            "The same V, compared as expressions. LayerNorm acts in d − 1 directions, which changes nothing at this order.",
            *formula(r"d\,(E G(1) - 1)", mean, "d·(E G(1) − 1)"),
        ),
        DerivationStep(
            "One constant: scatter",
            "log|g|² changes by log|h + Jᵀh|² − log r². Given the forward pass the two scatter independently but for "
            "hidden units that "
            "are on for both. Exactly 4V; blocks add up to a log-normal law (Hanin & Nica 2019).",
            *formula(r"d\,\mathrm{Var}\log G(1)", spread_of_log, "d·Var log G(1)"),
        ),
        DerivationStep(
            f"One constant: {name}",
            "At unit gain A = 1 and B = s². Only a homogeneous F has all three: for GELU or tanh h·Ja and h·u differ, "
            "χ ≠ 1, and excess and "
            "scatter follow their own sums (the numeric recursion has them), while e·V stays.",
            *formula("V", special),
        ),
    ]
