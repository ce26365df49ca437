"""Laws of the wider kinds of variants, against recursions written by hand from the papers' equations, in fractions or floats."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.algebra import LN, F, L, Stream, Variant, l
from theory.errors import NoClosedForm
from theory.laws.asymptotics import Growth
from theory.laws.classes import closed_class, gradient_class, numeric_class
from theory.laws.closed import depth, layer, q0
from theory.laws.depth_constants import with_constants
from theory.laws.derivation import derivation
from theory.laws.growth import read_class
from theory.laws.kinds import solve
from theory.laws.law import derive
from theory.laws.limits import growth_of, leading_term
from theory.laws.saturated import saturated
from theory.laws.segments import border, joined
from theory.laws.solved import Solved
from theory.laws.streams.constant import blocks, constant_coefficients
from theory.laws.streams.matched import norm_of_another, partner
from theory.laws.streams.merged import equal_streams, merged_variant, rounds
from theory.laws.streams.slaved import slaved
from theory.laws.telescoping import telescoped
from theory.spectrum.derivation import worst_case
from theory.sublayers import sublayer
from theory.variants import load, registry

x = Stream("x")
gains = st.fractions(min_value=Fraction(1, 20), max_value=3, max_denominator=30)
positive = st.fractions(min_value=Fraction(1, 20), max_value=9, max_denominator=30)
S, K = sympy.Symbol("s^2", positive=True), sympy.Symbol(r"\kappa^2", positive=True)
quick = settings(deadline=None, derandomize=True, max_examples=10)


def exact(number: Fraction) -> sympy.Rational:
    return sympy.Rational(number.numerator, number.denominator)


# --- telescoping -----------------------------------------------------------------------------------------------------------


@quick
@given(s=gains, start=positive, total=st.integers(1, 12), data=st.data())
def test_layernorm_scaling_is_one_over_a_harmonic_sum(s: Fraction, start: Fraction, total: int, data: st.DataObject) -> None:
    """Sun et al. 2025: x + F(LN(x)/√l): q_l = q_(l−1) + s²/l and χ_l = 1 + s²/(l q_(l−1)), behind a final norm."""
    at = data.draw(st.integers(0, total))
    stream, gradient = [start], Fraction(1)
    for block in range(1, total + 1):
        gradient *= 1 + s / (block * stream[-1]) if block > at else 1
        stream.append(stream[-1] + s / block)
    gradient /= stream[-1]
    found = telescoped(load("layernorm-scaling"))
    assert found.gradient is not None
    assert found.gradient.subs({S: exact(s), q0: exact(start), layer: at, depth: total}) == exact(gradient)


def test_layernorm_scaling_grows_like_a_logarithm_far_below_the_papers_bounds() -> None:
    """Sun et al. 2025 quote Θ(L) to Θ(e^L) for Pre-LN's variance: at initialisation it is L, and ln L with their scaling."""
    scaled, pre = gradient_class(load("layernorm-scaling"), ("relu",)), gradient_class(load("pre-ln"), ("relu",))
    assert (scaled.forward.kind, scaled.forward.number) == ("logarithmic", 1)
    assert (pre.forward.kind, pre.forward.number) == ("power", 1)
    assert scaled.in_depth.kind == "flat" and scaled.across_layers.words == "logarithmic: (ln l)^(-1)"


# (q, s², L) → (q', χ) for κ² = s², from the papers' block equations, and whether a norm ends the network.
HOMOGENEOUS = {
    "post-ln": (lambda q, s, depth: (Fraction(1), (1 + s) / (q + s * q)), False),
    "keel": (lambda q, s, depth: (Fraction(1), (depth**2 + s / q) / (depth**2 * q + s)), False),
    "skipinit": (lambda q, s, depth: (q + s * q / depth, 1 + s / depth), False),
    "rezero": (lambda q, s, depth: (q, Fraction(1)), False),
    "sandwich-ln": (lambda q, s, depth: (q + 1, 1 + 1 / q), True),
    "hybridnorm": (lambda q, s, depth: (1 + s, (1 + s) / q), True),
    "no-residual": (lambda q, s, depth: (s * q, s), False),
}


@pytest.mark.parametrize("name", HOMOGENEOUS)
@quick
@given(s=gains, start=positive, total=st.integers(1, 8), data=st.data())
def test_every_homogeneous_single_stream_telescopes(
    name: str, s: Fraction, start: Fraction, total: int, data: st.DataObject
) -> None:
    step, normed = HOMOGENEOUS[name]
    at = data.draw(st.integers(1, total))
    moment, gradient = start, Fraction(1)
    for block in range(1, total + 1):
        moment, chi = step(moment, s, total)
        gradient *= chi if block > at else 1
    gradient /= moment if normed else 1
    found = telescoped(load(name))
    assert found.gradient is not None
    value = found.gradient.subs({S: exact(s), q0: exact(start), layer: at, depth: total})
    assert value == exact(gradient)


def test_a_branch_over_the_root_of_the_block_gives_gamma_functions() -> None:
    """x + F(x)/√l: q_l = q_0 ∏(1 + s²/j)."""
    found = telescoped(Variant("faded", x + 1 / sympy.sqrt(l) * F(x), "here"))
    assert found.gradient is not None
    value = sympy.gammasimp(found.gradient.subs({S: sympy.Rational(1, 3), layer: 2, depth: 5}))
    assert value == math.prod([Fraction(1) + Fraction(1, 3 * j) for j in (3, 4, 5)])
    assert found.in_depth == Growth(sympy.Integer(1), S)


# --- placements by block ---------------------------------------------------------------------------------------------------


@quick
@given(s=gains, k=gains, total=st.integers(4, 14), data=st.data())
def test_mix_ln_by_hand(s: Fraction, k: Fraction, total: int, data: st.DataObject) -> None:
    """Li et al. 2024: Post-LN for l ≤ L/4, Pre-LN above, a final norm."""
    at = data.draw(st.integers(1, total))
    moment, gradient = Fraction(1), Fraction(1)
    for block in range(1, total + 1):
        if block <= total // 4:
            chi, moment = (1 + k) / (moment + s), Fraction(1)
        else:
            chi, moment = 1 + k / moment, moment + s
        gradient *= chi if block > at else 1
    gradient /= moment
    lower, upper = joined(load("mix-ln")).at({})
    closed = lower if at <= total // 4 else upper
    found = sympy.gammasimp(closed.subs({S: exact(s), K: exact(k), border: total // 4, depth: total, layer: at, q0: 1}))
    assert found == exact(gradient)


def test_mix_ln_classes_by_segment() -> None:
    found = gradient_class(load("mix-ln"), ("tanh",))
    chi = 1.464403 / 1.394294  # THEORY.md, section 2: tanh
    assert found.in_depth.kind == "exponential" and found.in_depth.number == pytest.approx(chi**0.25, rel=1e-5)
    assert (
        "blocks up to B: exponential" in found.across_layers.words and "above: power law: (l − B)^" in found.across_layers.words
    )


# --- several streams -------------------------------------------------------------------------------------------------------


@quick
@given(root=st.fractions(1, 4, max_denominator=12).filter(lambda r: r > 1), k=gains, m=st.integers(1, 9), end=positive)
def test_residual_by_hand(root: Fraction, k: Fraction, m: int, end: Fraction) -> None:
    """Xie et al. 2023: ∂x = (∂x' + Jᵀ∂x')/ρ + Jᵀ∂r', ∂r = ∂r' with ρ = √(1 + s²) and 1/√q_L at the read-out."""
    s, last = root**2 - 1, end**2
    xx, xr, rr = Fraction(1), 1 / end, 1 / last
    for _ in range(m):
        received = xx / root**2 + 2 * xr / root + rr
        xx, xr = xx / root**2 + k * received, xr / root
    found = constant_coefficients(load("residual"))
    assert found.gradient is not None
    gradient = found.gradient.subs({layer: 0, depth: m}).subs({q0: exact(last) - exact(s) * m, S: exact(s), K: exact(k)})
    assert sympy.nsimplify(gradient) == exact(xx)


def test_residual_does_not_vanish_where_post_ln_does() -> None:
    """χ < 1: Post-LN's part dies out, and what ResiDual's second stream hands down is of order 1/L."""
    found = constant_coefficients(load("residual"), special=False)
    values = {S: sympy.Integer(1), K: sympy.Rational(1, 2)}  # χ = 3/4
    assert found.subs(values).in_depth == Growth(sympy.Integer(1), sympy.Integer(-1))
    assert found.subs({S: sympy.Rational(1, 2), K: sympy.Integer(1)}).in_depth.rate == sympy.Rational(4, 3)
    assert constant_coefficients(load("residual"), special=True).limit == 2


@quick
@given(root=st.fractions(1, 4, max_denominator=12).filter(lambda r: r > 1), k1=gains, k2=gains, s2=gains)
def test_one_block_of_b2t(root: Fraction, k1: Fraction, k2: Fraction, s2: Fraction) -> None:
    """h = LN(b + F₁(b)), x' = LN(b + h + F₂(h)): paths through h and past it are coherent (Takase et al. 2022, section 4)."""
    d1 = 1 / root
    expected = ((1 + d1) ** 2 + d1**2 * k2 + d1**2 * k1 * (1 + k2)) / (2 + 2 * d1 + s2)
    found = constant_coefficients(load("b2t"), 2)
    names = [symbol for of in found.moments for symbol in (of.square, of.gain)]
    point = dict(zip(names, map(exact, (root**2 - 1, k1, s2, k2)), strict=True))
    assert found.gradient is not None
    assert sympy.nsimplify(found.gradient.subs({layer: 0, depth: 1}).subs(point)) == exact(expected)


def test_b2t_is_flat_for_relu_and_milder_than_post_ln_for_tanh() -> None:
    assert gradient_class(load("b2t"), ("relu", "relu")).in_depth.kind == "flat"
    mild, post = (gradient_class(load(name), ("tanh", "tanh")).in_depth.number for name in ("b2t", "post-ln"))
    assert mild is not None and post is not None and 1 < mild < post


def test_hyper_connections_are_pre_ln_once_their_streams_are_called_one() -> None:
    merged = merged_variant(load("hyper-connections"))
    assert merged.cases == load("pre-ln").cases
    ours, pre = derive(merged), derive(load("pre-ln"))
    assert sympy.simplify(ours.gradient - pre.gradient) == 0


@quick
@given(s=gains, start=positive, first=st.integers(0, 4), turns=st.integers(1, 3))
def test_the_read_stream_of_hyper_connections(s: Fraction, start: Fraction, first: int, turns: int) -> None:
    """κ² = s²: each reading adds 1/q_l − 1/q_(l+1), and 1/(16 q_L) is there from the read-out LN(Σ of four)."""
    total = first + 4 * turns
    q = [start + s * at for at in range(total + 1)]
    expected = 1 / (16 * q[total]) + sum(1 / q[at] - 1 / q[at + 1] for at in range(first, total, 4))
    found = equal_streams(load("hyper-connections"))
    assert found.gradient is not None
    value = found.gradient.subs({S: exact(s), q0: exact(start), layer: first, rounds: turns})
    assert float(value.evalf(20)) == pytest.approx(float(expected), rel=1e-12)


def test_admin_is_pre_ln_seen_behind_its_norm() -> None:
    """y is Pre-LN's stream, and x's gradient Pre-LN's times q_l: at κ² = s² it is 1 at every layer and depth."""
    assert partner(load("admin")).variant.cases == load("pre-ln").cases
    found = norm_of_another(load("admin"))
    pre = derive(load("pre-ln"))
    assert found.gradient is not None
    assert sympy.simplify(found.gradient - pre.stream * pre.gradient) == 0
    flat = gradient_class(load("admin"), ("relu",))
    assert flat.in_depth.kind == flat.across_layers.kind == "flat"


def test_siamesenorm_follows_its_drifting_stream() -> None:
    """χ_x = (1 + κ²)/(1 + 2s²), exponent κ²/(2s² − κ²) by hand: Schur's complement of the x part."""
    found = slaved(load("siamesenorm"))
    assert sympy.simplify(-found.across_layers.exponent - K / (2 * S - K)) == 0
    assert not found.subs({S: sympy.Rational(1, 4), K: sympy.Integer(1)}).valid


# --- constants that follow the depth ---------------------------------------------------------------------------------------


def test_skipinit_is_flat_up_to_a_constant() -> None:
    """(1 + κ²/L)^L → e^κ²."""
    found = with_constants(load("skipinit"), (sublayer("relu"),))
    assert found.in_depth.flat and found.limit == sympy.exp(S)


@pytest.mark.parametrize("name", ["rezero", "keel", "deepnorm"])
@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
def test_gates_and_scaled_residuals_are_flat(name: str, activation: str) -> None:
    found = closed_class(load(name), (sublayer(activation),))
    assert found is not None and found.in_depth.words == "flat in L, tends to 1"
    numeric = numeric_class(load(name), (activation,))
    assert numeric.in_depth.kind == numeric.across_layers.kind == "flat"


def test_a_residual_scale_that_grows_too_slowly_is_a_stretched_exponential() -> None:
    """LN(L^(1/8) x + F(x)): log χ ~ (κ² − s²)/L^(1/4), so log G ~ (κ² − s²) L^(3/4)."""
    alpha = sympy.Symbol("alpha", positive=True)
    variant = Variant("slow", LN(alpha * x + F(x)), "here", constants={alpha: L ** sympy.Rational(1, 8)})
    growth = with_constants(variant, (sublayer("tanh"),)).in_depth
    assert (growth.power, sympy.simplify(growth.stretched - (K - S))) == (sympy.Rational(3, 4), 0)


def test_leading_terms_of_fractional_powers() -> None:
    found = leading_term((sympy.sqrt(2 * depth) + 3) / (depth + depth ** sympy.Rational(3, 4)), depth)
    assert found == (sympy.sqrt(2), sympy.Rational(-1, 2))
    with pytest.raises(NoClosedForm):
        leading_term(sympy.log(depth), depth)


@pytest.mark.parametrize(
    ("formula", "growth", "constant"),
    [
        ((1 + 3 / depth) ** depth, Growth(sympy.Integer(1), sympy.Integer(0)), sympy.exp(3)),
        ((2 + 1 / depth) ** depth, Growth(sympy.Integer(2), sympy.Integer(0)), sympy.exp(sympy.Rational(1, 2))),
        (depth**2 / (1 + depth), Growth(sympy.Integer(1), sympy.Integer(1)), 1),
        (
            1 / (1 + 5 * sympy.harmonic(depth)),
            Growth(sympy.Integer(1), sympy.Integer(0), sympy.Integer(-1)),
            sympy.Rational(1, 5),
        ),
    ],
)
def test_growth_of_formulas_in_the_depth(formula: sympy.Expr, growth: Growth, constant: sympy.Expr) -> None:
    found, limit = growth_of(formula, depth)
    assert found == growth and sympy.simplify(limit - constant) == 0


# --- dynamic tanh ----------------------------------------------------------------------------------------------------------


def test_dynamic_tanh_is_a_stretched_exponential_with_the_derived_length() -> None:
    """λ = 9π s²/(8κ⁴) at α = 1/2; quadrature's log G grows by √(L/λ), between depths 16,000 and 64,000."""
    found = saturated(load("dynamic-tanh"))
    half = sympy.Rational(1, 2)
    assert found.in_depth.power == half
    assert float(found.in_depth.subs({S: half, K: half}).stretched ** -2) == pytest.approx(9 * math.pi / 4)
    risen = _log_gain(64_000) - _log_gain(16_000)
    expected = (math.sqrt(64_000) - math.sqrt(16_000)) / math.sqrt(9 * math.pi / 4)
    next_order = (4 / (3 * math.pi) - 1 / (18 * math.pi)) * math.log(4)  # by hand: (4κ²/3 − 4α²κ⁴/9)/(πs²)·log l
    assert risen == pytest.approx(expected + next_order, rel=2e-3)


def _log_gain(total: int) -> float:
    """log ∏ (1 + E φ'²/2) along q' = q + E φ²/2, φ = tanh(x/2), with Gaussian integrals by Gauss–Legendre in the strip."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    u, w = 20 * nodes, 20 * weights  # tanh u is ±1 to 1e-17 outside
    moment, gain = 1.0, 0.0
    tail, slope = 1 - np.tanh(u) ** 2, (1 - np.tanh(u) ** 2) ** 2
    for _ in range(total):
        density = np.exp(-(u**2) / (moment / 2)) / math.sqrt(2 * math.pi * moment / 4)
        gain += math.log1p(0.5 * 0.25 * float(w @ (density * slope)))
        moment += 0.5 * (1 - float(w @ (density * tail)))
    return gain


# --- classes read off numbers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sequence", "kind", "number"),
    [
        (lambda t: 3 + 2 / t, "flat", 0),
        (lambda t: 5 * t**-0.75, "power", -0.75),
        (lambda t: 1.02**t, "exponential", 1.02),
        (lambda t: 0.9**t * t, "exponential", 0.9),
        (lambda t: math.exp(2 * math.sqrt(t)), "stretched exponential", 0.5),
        (lambda t: 1 + 0.5 * math.log(t), "logarithmic", 1),
        (lambda t: 1 / (1 + 0.5 * math.log(t)), "logarithmic", -1),
    ],
)
def test_classes_of_known_sequences(sequence: object, kind: str, number: float) -> None:
    arguments = [2**k for k in range(2, 12)]
    found = read_class(arguments, [sequence(t) for t in arguments], "t")  # type: ignore[operator]
    assert found.kind == kind and not found.exact
    assert found.number == pytest.approx(number, abs=0.02)


@pytest.mark.parametrize("name", ["post-ln", "pre-ln", "layernorm-scaling", "residual", "hyper-connections", "admin", "b2t"])
def test_numeric_classes_agree_with_the_closed_ones(name: str) -> None:
    closed, numeric = closed_class(load(name), (sublayer("relu"),)), numeric_class(load(name), ("relu",))
    assert closed is not None and closed.exact and not numeric.exact
    for ours, theirs in ((closed.in_depth, numeric.in_depth), (closed.across_layers, numeric.across_layers)):
        assert ours.kind == theirs.kind
        assert ours.number == pytest.approx(theirs.number, abs=0.02)


# --- printing --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, variant in registry().items() if not variant.tied])  # those in test_tied
def test_every_variant_prints_a_derivation(name: str) -> None:
    steps = [*derivation(load(name)), *worst_case(load(name))]
    assert all(step.title and step.reason for step in steps)
    found = solve(load(name))
    assert isinstance(found, NoClosedForm) == any(step.title == "No closed form" for step in steps)
    if isinstance(found, Solved):
        assert any(step.title == "Asymptotic class" for step in steps)


@pytest.mark.parametrize("name", ["rezero", "skipinit", "keel", "deepnorm"])
def test_the_worst_case_of_constants_that_follow_the_depth(name: str) -> None:
    last = next(step for step in worst_case(load(name), (sublayer("relu"),)) if step.title == "Worst case: class")
    expected = {"rezero": "ΣV = 0", "skipinit": "2·κ²", "keel": "vanishes", "deepnorm": "vanishes"}  # V ~ 2B/A over L blocks
    assert expected[name] in last.reason


def test_the_series_variable_is_not_left_in_a_gradient() -> None:
    found = constant_coefficients(load("residual"))
    assert found.gradient is not None and blocks not in found.gradient.free_symbols
