"""The derivation of attention's law as steps, each formula printed from the expressions that the law is made of."""

from __future__ import annotations

from collections.abc import Iterable

import sympy

from theory.algebra import Variant
from theory.errors import NoClosedForm
from theory.laws.attention.block import TokenStep, ffn
from theory.laws.attention.collapse import Collapse, collapse, gamma
from theory.laws.attention.patterns import attention_maps
from theory.laws.attention.softmax import n, softmax, t
from theory.laws.recursion import q
from theory.laws.steps import DerivationStep, formula, formulas
from theory.sublayers import SublayerMaps


def attention_steps(variant: Variant, sublayers: tuple[SublayerMaps, ...]) -> list[DerivationStep]:
    """From Gaussian logits to the variant's law with attention: exchangeable tokens, bidirectional, unit gains.

    ``sublayers`` hold an attention; numbers are put in for their one kind of token-wise sublayer.
    """
    steps = [*_softmax_steps(), *_map_steps()]
    try:
        found = collapse(variant, sublayers)
    except NoClosedForm as reason:
        return [*steps, DerivationStep("No closed form", f"{reason}. predict has the numeric recursion.")]
    for maps, step in zip(sublayers, found.steps, strict=True):
        steps += _block_steps(maps, step)
    return [*steps, *_collapse_steps(found), *_number_steps(found, sublayers)]


def law_latex(variant: Variant, sublayers: tuple[SublayerMaps, ...]) -> str:
    """Squared gradient over the output's, m blocks below it, in LaTeX.

    Raises:
        NoClosedForm: as `collapse`, or no norm fixes the stream.
    """
    found = collapse(variant, sublayers)
    if not found.pinned:
        raise NoClosedForm("no norm fixes the stream: the two parts follow powers of the depth")
    return " = ".join((r"\frac{g_{L-m}}{g_L}", sympy.latex(found.gradient)))


def _softmax_steps() -> Iterable[DerivationStep]:
    s = softmax()
    yield DerivationStep(
        "Logits",
        "Exchangeable tokens: C_ii = 1, C_ij = c. Given many coordinates a head's logits are Gaussian, E ℓ_ij ℓ_i'k = "
        "C_ii' C_jk. What "
        "all keys of a row share drops out of the softmax; the rest is independent from key to key, of variance τ² in "
        "one row and of "
        "covariance τ_×² between two rows.",
        *formulas((r"\tau^2", "τ²", s.variance), (r"\tau_\times^2", "τ_×²", s.covariance)),
    )
    yield DerivationStep(
        "Moment generating function", "Gaussian integral.", *formula(r"E\,e^{tz}", sympy.powsimp(s.moment), f"E exp({t} z)")
    )
    yield DerivationStep(
        "Participation",
        "E a_ij a_i'j as a ratio of expectations (error of relative order 1/n; rows sum to 1 exactly), summed over "
        "keys: p of one row "
        "with itself, r of two rows.",
        *formulas((r"p = \sum_j E a_{ij}^2", "p", s.share), (r"r = \sum_j E a_{ij}a_{i'j}", "r", s.overlap)),
    )


def _map_steps() -> Iterable[DerivationStep]:
    maps = attention_maps()
    yield DerivationStep(
        "Attention forward",
        "Σ_jk E[a_ij a_i'k] C_jk: W_V and W_O of unit gain keep second moments.",
        *formulas(
            (r"E|o_i|^2/d", "E|o_i|²/d", maps.output.diagonal),
            (r"E\,o_i\cdot o_{i'}/d", "E o_i·o_i'/d", maps.output.between),
        ),
    )
    yield DerivationStep(
        "Backward through values",
        "Σ_ii' E[a_ij a_i'k] Γ_ii' with Γ_ii = g, Γ_ij = g_× = gγ; the sum over all pairs of tokens is kept.",
        *formulas(("V", "V", maps.values.diagonal), (r"V_\times", "V_×", maps.values.between)),
    )
    yield DerivationStep(
        "Gradient of the logits",
        "P_ij = a_ij δ_i·(v_j − o_i). Over Gaussian values E P_ij P_i'k = Γ_ii' a_ij a_i'k (C_jk − (AC)_ik − (AC)_i'j +"
        " (ACAᵀ)_ii'); "
        "summed over keys against C_jk, at any pattern of power sums P_pq = Σ_j a_ij^p a_i'j^q. Σ_jk E P_ij P_i'k itself is "
        f"{maps.scores_total}: a row's weights sum to one.",
        *formula(r"\textstyle\sum_{jk} E P_{ij}P_{ik} C_{jk}/g", maps.scores.diagonal, "Σ_jk E P_ij P_ik C_jk/g"),
    )
    yield DerivationStep(
        "Backward through queries",
        "Σ_j P_ij k_j, to leading order in 1/n (P_pq is of order n^(1−p−q)).",
        *formulas(("Q", "Q", maps.queries.diagonal), (r"Q_\times", "Q_×", maps.queries.between)),
    )
    yield DerivationStep(
        "Backward through keys",
        "Σ_i P_ij q_i: one factor 1 − c fewer than through queries, since all rows' queries add; its sum over keys vanishes.",
        *formulas(("K", "K", maps.keys.diagonal), (r"K_\times", "K_×", maps.keys.between)),
    )


def _block_steps(maps: SublayerMaps, step: TokenStep) -> Iterable[DerivationStep]:
    kernels = (
        ""
        if step.attention
        else " K(c) = E φ(u)φ(v), K̇(c) = E φ'(u)φ'(v) at correlation c, times the output matrix's gain; K(1) = s², K̇(1) = κ²."
    )
    yield DerivationStep(
        f"Step of {maps.name}",
        f"The walk of the variant's expression on (q, qc).{kernels}",
        *formulas(("q'", "q'", step.forward.diagonal), ("c'", "c'", step.forward.cosine)),
    )
    yield DerivationStep(
        f"Gradient through {maps.name}",
        "The walk backwards on (g, g_×).",
        *formulas(("g'", "g'", step.backward.diagonal), (r"g_\times'", "g_×'", step.backward.between)),
    )
    yield DerivationStep(
        f"Coherent gradient through {maps.name}",
        "What all tokens' gradients share, for many tokens and any c: it grows downwards where the tokens are not yet alike.",
        *formula(r"g_\times'/g_\times", step.coherent_gain, "g_×'/g_×"),
    )


def _collapse_steps(found: Collapse) -> Iterable[DerivationStep]:
    yield DerivationStep(
        "Collapse",
        "c = 1 is a fixed point; series in 1 − c with K(c) = s² − κ²(1 − c) + … (Price's theorem: K' = K̇). Factor of "
        "one block on a small "
        "1 − c.",
        *formula(r"\frac{1-c'}{1-c}", found.spread, "(1 − c')/(1 − c)"),
    )
    yield DerivationStep(
        "Two parts of the gradient",
        "Eigenvalues of the map of (g, g_×) at c = 1, over one block: the coherent part (1, 1), which all tokens share,"
        " and the incoherent "
        "part (n − 1, −1), which sums to zero over tokens and which attention, averaging, does not pass on.",
        *formulas(
            (r"\lambda_{\mathrm{coherent}}", "λ_coherent", found.coherent),
            (r"\lambda_{\mathrm{incoherent}}", "λ_incoherent", found.incoherent),
        ),
    )
    if not found.pinned:
        yield DerivationStep(
            "Powers of the depth",
            "No norm fixes the stream, which grows by a constant a block; factors 1 + a/q multiply to powers of q, about l.",
            *formulas(
                ("q'", "q'", found.growth),
                (r"\log(1-c)/\log q", "log(1 − c)/log q", found.exponent(found.spread)),
                (r"\log g_{\mathrm{coh}}/\log(q_L/q_l)", "log g_coherent/log(q_L/q_l)", found.exponent(found.coherent)),
                (
                    r"\log g_{\mathrm{incoherent}}/\log(q_L/q_l)",
                    "log g_incoherent/log(q_L/q_l)",
                    found.exponent(found.incoherent),
                ),
            ),
        )
        return
    yield DerivationStep(
        "Law of collapsed tokens",
        "The gradient at the output in its two parts (γ its cosine across tokens), m blocks below it.",
        *formula(r"\frac{g_{L-m}}{g_L}", found.gradient, "g_(L−m)/g_L"),
    )
    if found.incoherent != 0:
        yield DerivationStep(
            "Floor",
            "The incoherent part dies out; independent gradients (γ = 0) leave the coherent one, 1/n of the square, which "
            "it meets m "
            "blocks below the output.",
            *formulas(
                (r"g_{\mathrm{floor}}/g_L", "g_floor/g_L", found.parts[0].subs(gamma, 0) * found.coherent ** sympy.Symbol("m")),
                ("m_{\\mathrm{floor}}", "m_floor", found.floor),
            ),
        )


def _number_steps(found: Collapse, sublayers: tuple[SublayerMaps, ...]) -> Iterable[DerivationStep]:
    names = {maps.name for maps in sublayers if maps.tokenwise}
    exact = next((maps.exact_moments() for maps in sublayers if maps.tokenwise), None)
    if len(names) != 1 or exact is None:
        return
    values = dict(zip((ffn.square, ffn.gain), exact, strict=True))
    factors = found.spread, found.coherent, found.incoherent
    if found.pinned and not set().union(*(f.free_symbols for f in factors)) - {ffn.square, ffn.gain, n}:
        numbers = [factor.subs(values).evalf(6) for factor in factors]
        titles = ["(1 − c')/(1 − c)", "λ_coherent", "λ_incoherent"]
        latex = [r"\frac{1-c'}{1-c}", r"\lambda_{\mathrm{coherent}}", r"\lambda_{\mathrm{incoherent}}"]
    elif not found.pinned and not found.growth.free_symbols - {ffn.square, q}:
        numbers = [found.exponent(factor).subs(values).evalf(6) for factor in factors]
        titles = ["exponent of 1 − c", "of the coherent gradient", "of the incoherent one"]
        latex = [rf"\text{{{title}}}" for title in titles]
    else:
        return
    yield DerivationStep(
        f"Attention with {names.pop()}", "Numbers of one block.", *formulas(*zip(latex, titles, numbers, strict=True))
    )
