"""The worst case's derivation as numbered steps: from a step's two paths to the edge and its growth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import sympy

from theory.algebra import Variant
from theory.errors import NoClosedForm
from theory.finite_width.paths import TWO_PATHS, derived
from theory.laws.asymptotics import plain
from theory.laws.closed import depth, layer
from theory.laws.depth_constants import constants_at_depth, follow_depth
from theory.laws.law import Law, closed_form, q0
from theory.laws.limits import leading_term
from theory.laws.recursion import q
from theory.laws.steps import DerivationStep
from theory.sublayers import SublayerMaps, TokenWise

A, B, psi, t, w = sympy.symbols("A B psi t w", positive=True)
spread = sympy.Symbol("V_F", positive=True)
"""Variance of the sublayer's own squared singular values, scaled to mean one."""
_theta, _total = sympy.symbols("theta V", positive=True)


@lru_cache(maxsize=1)
def step_variance() -> sympy.Expr:
    """V of J = a·1 + b·J_F, the first-order term of its S-transform: −S'(0)/S(0), with the curve's parameter t → 0."""
    direct = sympy.series((sympy.sqrt(1 + 4 * A * w) - 1) / 2, w, 0, 3).removeO()
    branch = t * (1 + (1 - spread) * t) / B  # w = t(1 + t)S_T(t)/B and S_T = 1 − V_F t + …
    reached = t + direct.subs(w, branch)
    transform = sympy.cancel(branch / (reached * (1 + reached)))
    at_zero, slope = (formula.subs(t, 0) for formula in (transform, sympy.diff(transform, t)))
    return sympy.factor(-slope / at_zero / sympy.diff(reached, t).subs(t, 0))


def linear_transform() -> sympy.Expr:
    """S(ψ) of a linear sublayer's step, from w = t/B and ψ = t + u with u(1 + u) = A w: the root that vanishes with ψ."""
    square, linear, constant = sympy.Poly((psi - B * w) * (1 + psi - B * w) - A * w, w).all_coeffs()
    below = -sympy.factor(linear)
    root = 2 * sympy.factor(constant) / (below + sympy.sqrt(below**2 - 4 * square * sympy.factor(constant)))
    return root / (psi * (1 + psi))


@dataclass(frozen=True)
class Growth:
    """How the edge over the mean grows: ``slope`` times m (``linear``) or times the logarithm of L/l."""

    linear: bool
    slope: sympy.Expr

    def describe(self) -> str:
        """In words, with the formula."""
        variable = "m = L − l, the number of blocks" if self.linear else "ln(L/l)"
        return f"edge over mean grows like {plain(self.slope)} times {variable}"


def growth(law: Law, variances: tuple[sympy.Expr, ...]) -> Growth | None:
    """Class of the edge over the mean, from the blocks' V at q_j; None where ΣV has neither class.

    ΣV is all that is left of the steps when it is large: log S = −Vψ at ψ ~ 1/ΣV.

    Args:
        law: the variant's.
        variances: V_F of each sublayer.
    """
    along = sympy.cancel(sympy.together(_block_variance(law, variances)))
    if not along.has(layer):
        return Growth(True, sympy.E * sympy.factor(along))
    if not along.is_rational_function(layer):
        return None
    falling = sympy.limit(layer * along, layer, sympy.oo)
    return Growth(False, sympy.E * sympy.factor(falling)) if falling.is_finite and falling != 0 else None


def _block_variance(law: Law, variances: tuple[sympy.Expr, ...]) -> sympy.Expr:
    """V of block l + 1's steps at q_l, from an input of unit moment."""
    block, moment = sympy.Integer(0), q
    for step, moments, own in zip(law.steps, law.moments, variances, strict=True):
        gains = {A: step.direct**2, B: step.branch**2 * moments.gain, spread: own}
        block += step_variance().subs(gains).subs(q, moment)
        moment = step.forward.subs(q, moment)
    return block.subs(q, law.stream.subs(q0, 1))


def worst_case(variant: Variant, sublayers: tuple[SublayerMaps, ...] = ()) -> list[DerivationStep]:
    """The steps from the variant's Jacobian to Λ(l), the squared operator norm from layer l to the output."""
    homogeneous = all(maps.homogeneous for maps in sublayers)
    law = closed_form(variant, max(1, len(sublayers)), homogeneous)
    if not derived(variant) or not all(maps.tokenwise for maps in sublayers):
        reason = "attention mixes tokens" if derived(variant) else f"it is {TWO_PATHS}"
        return [DerivationStep("Worst case", f"No law: {reason}. The operator norm is measured.")]
    steps = [
        DerivationStep(
            "Worst case: one step",
            "Λ is the largest squared singular value from layer l to the output. A step's Jacobian is a·1 + b·J_F, its "
            "coefficients read off the same walk; norms count as divisions (their projections have rank two). "
            "A = a² and B = b²κ² are the paths' gains.",
            *_paths(law),
        ),
        DerivationStep(
            "Worst case: sublayer",
            "J_F ends in a Gaussian matrix, so it is R-diagonal, and S-transforms of its free factors multiply: 1/(1+ψ) for a "
            "square Gaussian matrix, S_D for the squared slopes; in a hidden layer c times as wide ψ counts as ψ/c. "
            "T = J_F J_Fᵀ/κ².",
            r"S_T(\psi) = \frac{S_D(\psi/c)}{(1+\psi)(1+\psi/c)}\ \text{ for } W_2DW_1,"
            r"\qquad \frac{S_D(\psi)}{1+\psi}\ \text{ for } DW",
            "S_T(ψ) = S_D(ψ/c)/((1+ψ)(1+ψ/c)) for W₂DW₁, S_D(ψ)/(1+ψ) for DW",
        ),
        *(_slopes(maps) for maps in sublayers if isinstance(maps, TokenWise)),
        DerivationStep(
            "Worst case: addition",
            "Symmetrised singular-value laws of a·1 and b·J_F add freely (Haagerup & Larsen 2000); in the variable "
            "w = ψ(1+ψ)S(ψ) their free cumulant transforms add (Arizmendi & Pérez-Abreu 2009), "
            "which gives S_J as a curve with parameter t.",
            r"w = \frac{t(1+t)S_T(t)}{B},\quad u(1+u) = A w,\quad \psi = t + u,\quad S_J(\psi) = \frac{w}{\psi(1+\psi)}",
            "w = t(1+t)S_T(t)/B, u(1+u) = A·w, ψ = t + u, S_J(ψ) = w/(ψ(1+ψ))",
        ),
        DerivationStep(
            "Worst case: linear sublayer",
            "S_T = 1/(1+t) makes w = t/B, and the curve is the root of a quadratic equation.",
            rf"S_J(\psi) = {sympy.latex(linear_transform())}",
            f"S_J(ψ) = {_text(linear_transform())}",
        ),
        DerivationStep(
            "Worst case: variance of one step",
            "To first order in ψ: S_J = (1 − Vψ)/(A + B), V the variance of the squared singular values scaled to mean one; "
            "V_F is J_F's own (1 for W, 1 + (1 + V_D)/c for W₂DW₁).",
            rf"V = {sympy.latex(step_variance())}",
            f"V = {_text(step_variance())}",
        ),
        DerivationStep(
            "Worst case: product",
            "S-transforms of independent steps multiply; the edge is where the inverse of the moment series turns.",
            r"\Lambda(l) = G(l\to L)\,\chi_{out}\,\min_{\psi>0}\frac{1+\psi}{\psi}\prod_{j>l}\frac{1}{(A_j+B_j)\,S_j(\psi)}",
            "Λ(l) = G(l→L)·χ_out·min over ψ > 0 of (1+ψ)/ψ · ∏ over j > l of 1/((A_j+B_j)·S_j(ψ))",
        ),
        _asymptotic_step(),
    ]
    if isinstance(law, Law):
        steps += _depth_steps(law, sublayers) if follow_depth(variant) else _class_steps(law, sublayers)
    return [*steps, _finite_width_step()]


def _paths(law: Law | NoClosedForm) -> tuple[str, str]:
    if isinstance(law, NoClosedForm):
        return "J = a + b J_F", "J = a·1 + b·J_F"
    latex = [rf"J = {sympy.latex(s.direct)} + {sympy.latex(s.branch)}\,J_F" for s in law.steps]
    text = [f"J = {plain(s.direct)} + ({plain(s.branch)})·J_F" for s in law.steps]
    return r",\quad ".join(dict.fromkeys(latex)), "; ".join(dict.fromkeys(text))


def _slopes(maps: TokenWise) -> DerivationStep:
    slopes = maps.activation.slopes
    title = f"Worst case: slopes of {maps.name}"
    if slopes is None:
        return DerivationStep(
            title,
            "S_D(z) = x(1+z)/z with z = E[r x/(1 − r x)], r = φ'(u)²/E φ'² at u ~ N(0, q): a quadrature, inverted numerically.",
        )
    low, high = (slope**2 for slope in slopes)
    z, product = sympy.Symbol("z", positive=True), 4 * low * high / (low + high) ** 2
    value = sympy.factor(2 * (1 + z) / (1 + 2 * z + sympy.sqrt(sympy.factor(1 + 4 * z * (1 + z) * (1 - product)))))
    return DerivationStep(
        title,
        "Squared slopes, scaled to mean one, take two values with chance ½ each: a quadratic equation.",
        rf"S_D(z) = {sympy.latex(value)}",
        f"S_D(z) = {_text(value)}",
    )


def _asymptotic_step() -> DerivationStep:
    """Large ΣV: ψ = θ/ΣV, and min over θ of e^θ/θ."""
    leading = sympy.exp(_theta) / _theta
    (place,) = sympy.solve(sympy.diff(leading, _theta), _theta)
    slope = leading.subs(_theta, place)
    return DerivationStep(
        "Worst case: many steps",
        "Where ΣV is large the minimum lies at ψ = θ/ΣV, so only the first-order terms of the S-transforms are left "
        f"(Kargin 2008): (1+ψ)/ψ · e^(ΣV·ψ) → ΣV · e^θ/θ, least at θ = {place}.",
        rf"\frac{{\Lambda}}{{\mathrm{{mean}}}} \to {sympy.latex(slope)}\,\sum_{{j>l}} V_j",
        f"Λ/mean → {slope}·ΣV_j",
    )


def _class_steps(law: Law, sublayers: tuple[SublayerMaps, ...]) -> Iterable[DerivationStep]:
    names = [sympy.Symbol(f"V_{{F{i}}}" if len(law.steps) > 1 else "V_F", positive=True) for i in range(1, len(law.steps) + 1)]
    found = growth(law, tuple(names))
    if found is None:
        return
    variable = "m" if found.linear else r"\ln(L/l)"
    yield DerivationStep(
        "Worst case: class",
        ("V is the same in every block" if found.linear else "V_j falls as 1/j") + f": {found.describe()}.",
        rf"\frac{{\Lambda}}{{\mathrm{{mean}}}} \sim {sympy.latex(found.slope)}\,{variable}",
        found.describe(),
    )
    if not sublayers:
        return
    values: dict[sympy.Symbol, float] = {}
    for moments, name, maps in zip(law.moments, names, sublayers, strict=True):
        assert isinstance(maps, TokenWise)
        square, gain = maps.activation.moments(1.0)
        values |= {moments.square: square, moments.gain: gain, name: maps.spread(1.0, 1) - 1}
    slope = float(found.slope.subs(values))
    yield DerivationStep(
        f"Worst case: {','.join(maps.name for maps in sublayers)}",
        f"With the sublayer's numbers at a normalised input, unit gain and expansion 1, the slope is {slope:.6g}.",
        text=f"slope = {slope:.6g}",
    )


def _depth_steps(law: Law, sublayers: tuple[SublayerMaps, ...]) -> Iterable[DerivationStep]:
    """ΣV over all blocks where the constants follow the depth, to leading order; nothing where it has no leading term."""
    try:
        total, power = leading_term(depth * _variance_at_depth(law, sublayers), depth)
    except NoClosedForm:
        return
    words = (
        "ΣV = 0: a product of multiples of the identity, the edge is the mean"
        if total == 0
        else f"ΣV vanishes like L^({power}): the edge tends to the mean"
        if power < 0
        else f"ΣV tends to {plain(total)}: the edge over the mean stays bounded"
        if power == 0
        else f"ΣV grows like {plain(total)}·L^({power}), and the edge over the mean like e times that"
    )
    yield DerivationStep(
        "Worst case: class",
        f"With the constants' formulas put in, over all L blocks {words}.",
        rf"\sum V \sim {sympy.latex(total)} L^{{{power}}}",
        words,
    )


def _variance_at_depth(law: Law, sublayers: tuple[SublayerMaps, ...]) -> sympy.Expr:
    """V of a block at q_j, constants and gain put in.

    Raises:
        NoClosedForm: it follows the block, or a gain that does not vanish.
    """
    values = constants_at_depth(law, sublayers)
    along = _block_variance(law, (spread,) * len(law.steps)).subs(values)
    if along.has(layer):
        raise NoClosedForm("V follows the block")
    return along


def _finite_width_step() -> DerivationStep:
    return DerivationStep(
        "Worst case: finite width",
        "At the minimum z is a parabola, so the density ends as a square root and the largest eigenvalue follows Tracy and "
        "Widom's law (β = 1, mean −1.2065); for real matrices a dimension d counts as d − ½. Both hold for ΣV well below d.",
        r"E\log\frac{\Lambda_d}{\Lambda} = -1.2065\left(\tfrac12\,\partial_\psi^2\log z\right)^{1/3}d^{-2/3}"
        r" - \frac{1}{2d\,\psi^*}",
        "E log(Λ_d/Λ) = −1.2065·(½ ∂²log z/∂ψ²)^(1/3)·d^(−2/3) − 1/(2dψ*)",
    )


def _text(formula: sympy.Expr) -> str:
    return plain(formula).replace("psi", "ψ")
