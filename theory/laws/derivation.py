"""A law's derivation as numbered steps that a terminal and a report can print."""

from __future__ import annotations

from collections.abc import Iterable

import sympy

from theory.algebra import Norm, Stream, Variant, to_latex, to_text, walk
from theory.errors import NoClosedForm
from theory.laws.asymptotics import plain
from theory.laws.attention.report import attention_steps
from theory.laws.kinds import moments_at, solve
from theory.laws.law import Law
from theory.laws.recursion import Step, q
from theory.laws.solved import Solved
from theory.laws.steps import DerivationStep, formula
from theory.laws.tied import tied_steps
from theory.sublayers import SublayerMaps


def derivation(variant: Variant, sublayers: tuple[SublayerMaps, ...] = ()) -> list[DerivationStep]:
    """The steps from the variant's equation to its law, with numbers for ``sublayers`` where they are given."""
    steps = [
        DerivationStep(
            "Equation", f"{variant.source}. Written once; everything below is read off it.", variant.latex, variant.equation
        )
    ]
    if variant.tied:
        return [*steps, *tied_steps(variant, sublayers)]
    steps += [
        DerivationStep(
            "Model",
            "Weights are independent with zero mean, fresh in every sublayer; the width goes to infinity, so a norm divides by a "
            "deterministic root mean square and sublayer outputs are uncorrelated with the stream. s² = E|F(x̂)|²/d at a "
            "normalised input, κ² = E|J_Fᵀv|²/|v|².",
        ),
    ]
    if not all(maps.tokenwise for maps in sublayers):
        steps += attention_steps(variant, sublayers)
        return [*steps, *(_class_steps(variant, sublayers) if steps[-1].title == "No closed form" else ())]
    law = solve(variant, sublayers)
    if isinstance(law, NoClosedForm):
        return [
            *steps,
            DerivationStep("No closed form", f"{law}. The numeric recursion over the same walk still holds: predict uses it."),
            *_class_steps(variant, sublayers),
        ]
    if isinstance(law, Solved):
        return [*steps, *law.steps, *_class_steps(variant, sublayers)]
    for number, step in enumerate(law.steps, start=1):
        steps += _walk_steps(law, step, number)
    steps += _closed_steps(law)
    steps += _special_steps(law)
    if sublayers:
        steps += _numeric_steps(law, sublayers)
    return steps


def _class_steps(variant: Variant, sublayers: tuple[SublayerMaps, ...]) -> Iterable[DerivationStep]:
    """Classes with the sublayers' numbers, or read off the numeric recursion where no closed form gives them."""
    if not sublayers:
        return
    from theory.laws.classes import gradient_class

    found = gradient_class(variant, tuple(maps.name for maps in sublayers))
    how = "From the law above" if found.exact else "Read off the numeric recursion at doubling depths, not fitted"
    yield DerivationStep(
        f"Class for {','.join(maps.name for maps in sublayers)}",
        f"{how}. {found.describe()}",
    )


def _walk_steps(law: Law, step: Step, number: int) -> Iterable[DerivationStep]:
    where = "" if len(law.steps) == 1 else f", sublayer {number}"
    for node, moment in step.moments:
        if isinstance(node, Stream):
            continue
        purpose = "divide by the root of" if _is_normed(law.variant, node) else "read"
        left = rf"E\left|{to_latex(node)}\right|^2/d"
        yield DerivationStep(
            f"Forward{where}",
            f"Terms with independent weights add in square. The walk meets {to_text(node)}; the next node will {purpose} it.",
            *formula(left, moment, f"E|{to_text(node)}|²/d"),
        )
    yield DerivationStep(
        f"Forward recursion{where}",
        "A norm at the end of the step fixes the stream at q = 1."
        if step.forward == 1
        else "One step of the stream's second moment q.",
        *formula(r"q'", step.forward, "q'"),
    )
    yield DerivationStep(
        f"Backward{where}",
        "Reverse mode on second moments: a sum copies the gradient, a norm divides it by its root mean square (its projection is "
        "of order 1/d), J_Fᵀ multiplies its square by κ² and decorrelates it, so direct path and branch add in square.",
        *formula(r"\chi", step.backward, "χ"),
    )


def _is_normed(variant: Variant, node: object) -> bool:
    return any(isinstance(n, Norm) and n.argument == node for case in variant.cases for _, root in case.steps for n in walk(root))


def _closed_steps(law: Law) -> Iterable[DerivationStep]:
    yield DerivationStep("Solve forward", "First-order linear recursion with constant coefficients.", *formula("q_l", law.stream))
    yield DerivationStep(
        "Multiply backward",
        "The blocks' gains at q_j, multiplied from l to L − 1; linear factors in j give ratios of Gamma functions.",
        *formula(r"G(l \to L)", law.product.value, "G(l→L)"),
    )
    if law.read_out != 1:
        yield DerivationStep(
            "Read-out",
            "The final norm divides the gradient by the stream's root mean square.",
            *formula(r"\chi_{out}", law.read_out.subs(q, sympy.Symbol("q_L")), "χ_out"),
        )
    yield DerivationStep(
        "Law",
        "Squared gradient per coordinate for a unit Gaussian gradient at the output.",
        *formula(r"E\left|\partial\mathcal{L}/\partial x_l\right|^2/d", law.gradient, "E|∂𝓛/∂x_l|²/d"),
    )
    yield DerivationStep(
        "Proof",
        f"Closed form and iterated recursion agree exactly at {law.proof.points} random rational points, "
        f"depths {law.proof.depths} (rational functions that agree there are equal: Schwartz–Zippel).",
    )


def _special_steps(law: Law) -> Iterable[DerivationStep]:
    if not law.homogeneous:
        yield DerivationStep(
            "Norm in the middle",
            "s² and κ² are those of the sublayer with its norm: for W₂φ(W₁a) s² = 1, κ² = E φ'²/Var φ (LayerNorm) or "
            "E φ'²/E φ² (RMSNorm), times the matrices' gains that it lets through. Where φ is homogeneous the norm takes the "
            "input's length out, F(tx) = F(x): Euler's κ² = s² does not hold.",
        )
        yield DerivationStep(
            "Asymptotic class",
            f"In depth at fixed l: {law.growth_in_depth().describe('L')}. "
            f"Across the layers of one network: {law.growth_in_layer().describe('l')}.",
        )
        return
    gradient = law.gradient_at(law.homogeneous)
    yield DerivationStep(
        "Homogeneous sublayers",
        "F(tx) = tF(x) gives J_F x = F(x), hence κ² = s² (Euler); factors that differ by an integer telescope.",
        *formula(r"E\left|\partial\mathcal{L}/\partial x_l\right|^2/d", gradient, "E|∂𝓛/∂x_l|²/d"),
    )
    general, special = law.growth_in_depth(), law.growth_in_depth(law.homogeneous)
    across, across_special = law.growth_in_layer(), law.growth_in_layer(law.homogeneous)
    yield DerivationStep(
        "Asymptotic class",
        f"In depth at fixed l: {general.describe('L')}; for κ² = s²: {special.describe('L')}. "
        f"Across the layers of one network: {across.describe('l')}; for κ² = s²: {across_special.describe('l')}.",
    )


def values_of(law: Law, sublayers: tuple[SublayerMaps, ...]) -> dict[sympy.Symbol, sympy.Expr] | None:
    """Numbers for the law's s² and κ² at unit gain: exact where sympy has them, else by quadrature; None with attention."""
    if not all(maps.tokenwise for maps in sublayers):
        return None
    return moments_at(law.variant, law.moments, sublayers)


def _numeric_steps(law: Law, sublayers: tuple[SublayerMaps, ...]) -> Iterable[DerivationStep]:
    names = ",".join(maps.name for maps in sublayers)
    values = moments_at(law.variant, law.moments, sublayers)
    parts = [f"{plain(symbol)} = {plain(value)} ≈ {float(value):.6f}" for symbol, value in values.items()]
    yield DerivationStep(
        f"Sublayers {names}",
        "Gaussian moments at a normalised input, unit gain (Stein's lemma; quadrature where there is no closed form): "
        + ", ".join(parts),
        r",\quad ".join(f"{sympy.latex(symbol)} = {sympy.latex(value)}" for symbol, value in values.items()),
        ", ".join(parts),
    )
    yield DerivationStep(
        f"Class for {names}",
        f"In depth: {law.growth_in_depth(values).describe('L')}; across layers: {law.growth_in_layer(values).describe('l')}.",
    )
