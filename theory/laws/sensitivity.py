"""The output's sensitivity to its weights in closed form (Liu et al. 2020): a sum over blocks, Θ(L) or Θ(log L).

A relative perturbation δ·W̃ of one matrix of a positively homogeneous sublayer moves F by δ²E|F|² in square (F is linear in
each of its matrices' scales), independently of all other matrices. Block j therefore adds what it moves its own output
by, times the squared gradient there. The sum over j = l+1 … L is closed by its summand's shape and proved by the difference it
leaves: S(l−1) − S(l) is the summand, S(L) = 0.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache

import sympy

from theory.algebra import Variant
from theory.errors import NoClosedForm
from theory.laws.asymptotics import plain
from theory.laws.closed import depth, layer
from theory.laws.derivation import derivation
from theory.laws.law import Law, derive
from theory.laws.recursion import q
from theory.laws.steps import DerivationStep, formula

matrices = sympy.Symbol("M", positive=True, integer=True)
"""Weight matrices of one sublayer."""


@dataclass(frozen=True)
class SensitivityLaw:
    """E|y(W + δW̃) − y(W)|²/(d δ²) with the weights of blocks l+1 … L perturbed, for homogeneous sublayers.

    Attributes:
        law: the variant's gradient law that it rests on.
        term: what block l adds, in l (``layer``) and L (``depth``).
        total: the sum over blocks l+1 … L.
        kind: ``linear`` or ``logarithmic`` in the number of blocks.
    """

    law: Law
    term: sympy.Expr
    total: sympy.Expr
    kind: str


@lru_cache(maxsize=64)
def sensitivity(variant: Variant, sublayers: int = 1) -> SensitivityLaw:
    """Derive the law of a single-stream variant with homogeneous sublayers of ``M`` matrices each.

    Raises:
        NoClosedForm: with the reason; the quantity ``output-sensitivity`` still has the numeric recursion.
        ArithmeticError: the closed form failed its proof (a bug).
    """
    law = derive(variant, sublayers, homogeneous=True)
    if any(m.degree != 1 for m in law.moments):
        raise NoClosedForm("a norm inside the sublayer, so its first matrix's scale does not move it")
    values = law.homogeneous
    entering = law.stream.subs(layer, layer - 1)
    moved, moment = sympy.Integer(0), q
    for step in law.steps:
        moved = moved * step.backward.subs(q, moment) + matrices * step.response.subs(q, moment)
        moment = sympy.cancel(step.forward.subs(q, moment))
    at_block = (moved.subs(q, entering) if moved.has(q) else moved).subs(values)
    term = sympy.factor(sympy.cancel(sympy.together(at_block * law.gradient_at(values))))
    if any(node.exp.has(layer) for node in term.atoms(sympy.Pow)):
        term = sympy.simplify(term)  # powers of the same base, written apart
    total, kind = _sum(term)
    _prove(term, total)
    return SensitivityLaw(law, term, total, kind)


def _sum(term: sympy.Expr) -> tuple[sympy.Expr, str]:
    """Σ_{j=l+1}^{L} of constants and of c/(j + a), by partial fractions."""
    total, kind = sympy.Integer(0), "linear"
    if not term.is_rational_function(layer):
        raise NoClosedForm("the blocks' shares are not a rational function of the block")
    for part in sympy.Add.make_args(sympy.apart(term, layer) if term.has(layer) else term):
        if not part.has(layer):
            total += part * (depth - layer)
            continue
        inverse = sympy.cancel(1 / part)
        if not inverse.is_polynomial(layer) or sympy.degree(inverse, layer) != 1:
            raise NoClosedForm("the blocks' shares are neither constant nor one over a linear function of the block")
        slope, offset = sympy.Poly(inverse, layer).all_coeffs()
        shift = sympy.cancel(offset / slope)
        total += (sympy.digamma(depth + 1 + shift) - sympy.digamma(layer + 1 + shift)) / slope
        kind = "logarithmic"
    return total, kind


def _prove(term: sympy.Expr, total: sympy.Expr, points: int = 4) -> None:
    """S(L) = 0 and S(l) − S(l+1) = term(l+1), exactly at random rationals, with ψ(x) = ψ(x−1) + 1/(x−1) (DLMF 5.5.2)."""
    below = total.subs(layer, layer + 1).replace(
        lambda node: isinstance(node, sympy.polygamma) and node.has(layer),
        lambda node: sympy.digamma(node.args[1] - 1) + 1 / (node.args[1] - 1),
    )
    left = sympy.expand(total - below) - term.subs(layer, layer + 1)  # the ψ cancel
    draw = random.Random(0)
    for _ in range(points):
        at = draw.randint(1, 9)
        free = sorted(total.free_symbols - {depth, layer}, key=str)
        point = {symbol: sympy.Rational(draw.randint(1, 10**6), draw.randint(1, 10**6)) for symbol in free}
        point |= {layer: at, depth: at + draw.randint(1, 9)}
        if sympy.expand(total.subs(layer, depth)) != 0 or left.subs(point) != 0:
            raise ArithmeticError(f"the closed sum {total} does not have the summand {term}")


def sensitivity_steps(variant: Variant, sublayers: int = 1) -> list[DerivationStep]:
    """The derivation from the variant's equation to the output's sensitivity."""
    found = sensitivity(variant, sublayers)
    left, text = r"\frac1{d\,\delta^2} E|\delta y|^2", "E|δy|²/(d δ²)"
    share = rf"{left}\Big|_{{\mathrm{{block}}\ l}}"
    growth = {
        "linear": "Every block adds the same: Θ(L) in depth, proportional to L − l over the last blocks.",
        "logarithmic": "ψ(x) = log x + O(1/x) (DLMF 5.11.2): Θ(log L) in depth, log(L/l) over the last blocks.",
    }[found.kind]
    return [
        *derivation(variant),
        DerivationStep(
            "One matrix",
            "A homogeneous F scales with each of its M matrices, so W + δ·W̃ moves F by δ²E|F|² in square, independently of the "
            "others; the block hands this on to its own output.",
            *formula(r"\frac1{d\,\delta^2} E|\delta x_l|^2", matrices * found.law.steps[0].response, "E|δx_l|²/(d δ²)"),
        )
        if sublayers == 1
        else DerivationStep("Each matrix", "Every sublayer moves its own output; the later ones hand this on with their gain χ."),
        DerivationStep(
            "One block",
            "Times the squared gradient at layer l: E|δy|² = Σ_W Var(W) E‖∂(v·y)/∂W‖_F² for an isotropic unit gradient v.",
            *formula(share, found.term, f"block l's part of {text}"),
        ),
        DerivationStep(
            "Sum",
            "Over blocks l + 1 … L, by partial fractions.",
            f"{left} = {printed(found.total)}",
            f"{text} = {plain(found.total)}",
        ),
        DerivationStep("Proof", "S(L) = 0 and S(l) − S(l+1) = the summand, exactly, with ψ(x+1) = ψ(x) + 1/x (DLMF 5.5.2)."),
        DerivationStep("Class of the sensitivity", growth),
    ]


def printed(total: sympy.Expr) -> str:
    """LaTeX of a sum, with the digamma function by its letter."""
    psi = sympy.Function(r"\psi")
    return str(sympy.latex(total.replace(sympy.polygamma, lambda _, x: psi(x))))
