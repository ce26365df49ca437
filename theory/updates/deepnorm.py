"""DeepNorm's constants from the bound on one optimiser step, for any number of sublayers a block.

The form is x ↦ N(αx + F_β(x)) with S sublayers a block and L blocks; each sublayer has two matrices on its branch (W₁, W₂ or
W_V, W_O) whose standard deviation is scaled by β (Wang et al. 2022, section 4.3, with v = w = β).
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy

from theory.errors import InvalidInput
from theory.laws.asymptotics import plain
from theory.laws.steps import DerivationStep, formula

blocks, sublayers = sympy.symbols("L S", positive=True, integer=True)
alpha, beta = sympy.symbols("alpha beta", positive=True)
moment = sympy.Symbol("s_1^2", positive=True)
"""s² = κ² of the homogeneous sublayer at β = 1."""
bound = sympy.Symbol("c", positive=True)
"""What the summed relative update 2SLβ²/α² is to be; the paper's choice is 1."""


@dataclass(frozen=True)
class BoundedUpdate:
    """Constants that keep the update of one SGD step bounded in depth, and how they come about.

    Attributes:
        alpha, beta: formulas in L, for the given S.
        ratio: β²/α², all that the bound fixes.
        freedom: what the bound leaves open, and how it was settled, in words.
        steps: the derivation.
    """

    alpha: sympy.Expr
    beta: sympy.Expr
    ratio: sympy.Expr
    freedom: str
    steps: tuple[DerivationStep, ...]


def sublayer_update() -> sympy.Expr:
    """One sublayer's part of Θ/width: τ of its tangent kernel at the block's output, for homogeneous F_β and unit tokens.

    W₁ and W₂ each have the tangent kernel β²s₁² (the other matrix's variance), and the norm divides the gradient by
    r² = α² + β⁴s₁².
    """
    return 2 * beta**2 * moment / (alpha**2 + beta**4 * moment)


def bounded_update(per_block: int, level: sympy.Expr | int = 1) -> BoundedUpdate:
    """Solve S·L·(update of a sublayer) = O(1) for α and β, with the balanced split of what is left open.

    Args:
        per_block: S, sublayers of one block (2 in an encoder, 3 in a decoder with cross attention).
        level: the bound c on 2SLβ²/α².

    Raises:
        InvalidInput: fewer than one sublayer, or a bound that is not positive.
    """
    level = sympy.sympify(level)
    if per_block < 1 or not level.is_positive:
        raise InvalidInput(f"{per_block} sublayers a block at bound {level}: both must be positive")
    found_alpha, found_beta, ratio = _solve(per_block, level)
    freedom = "the bound fixes β²/α² only; α itself is free, and the balanced split 2β² = 1/α² settles it"
    steps = _steps(per_block, level, ratio, found_alpha, found_beta)
    return BoundedUpdate(found_alpha, found_beta, ratio.subs({sublayers: per_block, bound: level}), freedom, tuple(steps))


def _solve(per_block: int, level: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr, sympy.Expr]:
    """(α, β, and β²/α² for any S and c)."""
    square_alpha, square_beta = sympy.symbols("A B", positive=True)
    (on_family,) = sympy.solve(sympy.Eq(2 * sublayers * blocks * square_beta / square_alpha, bound), square_beta)
    # Balanced: the branch's matrices lose together what the stream gains, v² + w² = 1/α².
    (balanced,) = sympy.solve(sympy.Eq(2 * on_family, 1 / square_alpha), square_alpha)
    squares = balanced, on_family.subs(square_alpha, balanced)
    roots = (sympy.sqrt(square.subs({sublayers: per_block, bound: level})) for square in squares)
    found_alpha, found_beta = (sympy.powsimp(sympy.simplify(root)) for root in roots)
    return found_alpha, found_beta, on_family / square_alpha


def update_limit(per_block: int, level: sympy.Expr | int = 1) -> sympy.Expr:
    """Limit of S·L·(update of a sublayer) as L → ∞ at the balanced constants, from the degrees of a rational function."""
    root = sympy.Symbol("u", positive=True)  # u = √(SL/c): α² = u, β² = 1/(2u)
    exact = sympy.cancel(
        sympy.sympify(level) * root**2 * sublayer_update().subs({alpha: sympy.sqrt(root), beta: 1 / sympy.sqrt(2 * root)})
    )
    above, below = (sympy.Poly(part, root) for part in sympy.fraction(exact))
    if above.degree() != below.degree():
        raise ArithmeticError(f"the update is not bounded: {exact}")
    return sympy.cancel(above.LC() / below.LC())


def coherent_factor(per_block: int) -> sympy.Expr:
    """log ∏ (α + β²)/√(α² + β⁴) over all sublayers, to leading order in L: what the paper's equation (8) replaces by 0.

    The paper's model has width 1, where direct path and branch add coherently: the factor is 1 + β²/α a sublayer.
    """
    found_alpha, found_beta, _ = _solve(per_block, sympy.Integer(1))
    return sympy.powsimp(sympy.simplify(per_block * blocks * found_beta**2 / found_alpha))


def _steps(
    per_block: int, level: sympy.Expr, ratio: sympy.Expr, found_alpha: sympy.Expr, found_beta: sympy.Expr
) -> list[DerivationStep]:
    left_by_adam = sympy.powsimp(sympy.simplify(per_block * blocks * found_beta / found_alpha))
    return [
        DerivationStep(
            "Form",
            "One step of SGD moves the output by −ηΘv, Θ the sum of the matrices' tangent kernels. Two matrices of variance β² "
            "on each branch, S sublayers a block, L blocks.",
            r"x \mapsto N(\alpha x + F_\beta(x))",
            "x ↦ N(αx + F_β(x))",
        ),
        DerivationStep(
            "One sublayer",
            "A matrix's kernel is the other matrix's variance times s₁², and the norm divides the gradient by α² + β⁴s₁². "
            "Homogeneous sublayers hand it on with χ = (α² + κ²)/(α² + s²) = 1.",
            *formula(r"\theta", sublayer_update(), "θ"),
        ),
        DerivationStep(
            "Bound",
            "S·L sublayers add coherently. To leading order (α² ≫ β⁴) the sum is S·L·2β²s₁²/α²; keeping it at c·s₁² "
            "fixes the ratio and nothing else.",
            *formula(r"\beta^2/\alpha^2", ratio, "β²/α²"),
        ),
        DerivationStep(
            "Balanced split",
            "α is free along the family; 2β² = 1/α² lets the branch's matrices lose what the stream gains.",
            *formula(r"\alpha", found_alpha, "α"),
        ),
        DerivationStep(
            f"Constants for S = {per_block}, c = {plain(level)}",
            "S = 2 is the paper's encoder, S = 3 its decoder.",
            *formula(r"\beta", found_beta, "β"),
        ),
        DerivationStep(
            "Check",
            "At these constants S·L·θ is a rational function of √L whose limit is finite; the singular values' spread adds "
            "Σ V ∝ SLβ⁴/α² ∝ L^(−1/2) → 0.",
            *formula(r"\lim_{L\to\infty} S L\,\theta", update_limit(per_block, level), "lim S·L·θ"),
        ),
        DerivationStep(
            "The step that the paper drops",
            "Its proof takes width 1, where direct path and branch add coherently, and replaces (α + vw)/√(α² + v²w²) by 1 in "
            "equation (8). At its own constants the product of these factors over the 2L sublayers of an encoder grows with "
            "depth; in a wide network path and branch are uncorrelated, the factor is √((α² + κ²)/(α² + s²)) = 1, and the step "
            "is not needed.",
            *formula(r"\log \textstyle\prod (\alpha+\beta^2)/\sqrt{\alpha^2+\beta^4}", coherent_factor(2), "log ∏"),
        ),
        DerivationStep(
            "Adam",
            "A sign step moves a matrix's output by its own size, so a sublayer's part falls as β/α instead of β²/α²: at these "
            "constants the sum over S·L sublayers still grows as the root of the depth.",
            *formula(r"S L\,\beta/\alpha", left_by_adam, "S·L·β/α"),
        ),
    ]
