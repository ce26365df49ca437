"""Laws against recursions written by hand from the papers' equations, with exact rational numbers."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.algebra import LN, F, L, Stream, Variant, l
from theory.errors import NoClosedForm
from theory.laws.closed import depth, layer, q0
from theory.laws.derivation import derivation
from theory.laws.kinds import solve
from theory.laws.law import Law, closed_form, derive
from theory.laws.proof import prove
from theory.laws.recursion import q
from theory.sublayers import sublayer
from theory.variants import registry

x = Stream("x")
positive = st.fractions(min_value=Fraction(1, 50), max_value=20, max_denominator=50)
gains = st.fractions(min_value=Fraction(1, 50), max_value=4, max_denominator=50)

# (q, s², κ², α) → (q', χ), from the papers' block equations; α is DeepNorm's and unused elsewhere.
Step = Callable[[Fraction, Fraction, Fraction, Fraction], tuple[Fraction, Fraction]]
STEPS: dict[str, Step] = {
    "post-ln": lambda q, s, k, a: (Fraction(1), (1 + k) / (q + s)),
    "post-rmsnorm": lambda q, s, k, a: (Fraction(1), (1 + k) / (q + s)),
    "deepnorm": lambda q, s, k, a: (Fraction(1), (a * a + k) / (a * a * q + s)),
    "pre-ln": lambda q, s, k, a: (q + s, 1 + k / q),
    "pre-rmsnorm": lambda q, s, k, a: (q + s, 1 + k / q),
    "residual-only": lambda q, s, k, a: (q + s * q, 1 + k),
    "residual-final-ln": lambda q, s, k, a: (q + s * q, 1 + k),
    "residual-final-rmsnorm": lambda q, s, k, a: (q + s * q, 1 + k),
    "no-residual": lambda q, s, k, a: (s * q, k),
    "no-residual-ln": lambda q, s, k, a: (Fraction(1), k / s),
    "no-residual-rmsnorm": lambda q, s, k, a: (Fraction(1), k / s),
}
NORMED_OUTPUT = {"pre-ln", "pre-rmsnorm", "residual-final-ln", "residual-final-rmsnorm"}
FIXED = {"post-ln", "post-rmsnorm", "deepnorm", "no-residual-ln", "no-residual-rmsnorm"}
"""Their streams leave every block at q = 1."""


def _exact(number: Fraction) -> sympy.Rational:
    return sympy.Rational(number.numerator, number.denominator)


def _by_hand(
    name: str, s: Fraction, k: Fraction, a: Fraction, start: Fraction, total: int
) -> tuple[list[Fraction], list[Fraction]]:
    """(q_0..q_L, squared gradient at 0..L) with a unit gradient at the output."""
    streams, steps = [start], []
    for _ in range(total):
        q_next, chi = STEPS[name](streams[-1], s, k, a)
        streams.append(q_next)
        steps.append(chi)
    gradient = [1 / streams[-1] if name in NORMED_OUTPUT else Fraction(1)]
    for chi in reversed(steps):
        gradient.append(gradient[-1] * chi)
    return streams, gradient[::-1]


def _values(law: Law, s: Fraction, k: Fraction, a: Fraction) -> dict[sympy.Symbol, sympy.Rational]:
    ((square, gain),) = ((m.square, m.gain) for m in law.moments)
    return {square: _exact(s), gain: _exact(k), sympy.Symbol("alpha", positive=True): _exact(a)}


@pytest.mark.parametrize("name", STEPS)
@settings(deadline=None, derandomize=True, max_examples=12)
@given(data=st.data())
def test_closed_form_equals_the_recursion_by_hand(name: str, data: st.DataObject) -> None:
    s, k, a = data.draw(gains, "s²"), data.draw(gains, "κ²"), data.draw(positive, "α")
    start = Fraction(1) if name in FIXED else data.draw(positive, "q0")
    total = data.draw(st.integers(1, 9), "L")
    at = data.draw(st.integers(0, total), "l")
    streams, gradient = _by_hand(name, s, k, a, start, total)
    law = derive(registry()[name])
    point = _values(law, s, k, a) | {q0: _exact(start)}
    assert law.stream.subs(point).subs(layer, at) == _exact(streams[at])
    closed = law.gradient.subs(point).subs({depth: total, layer: at})
    assert sympy.gammasimp(closed) == _exact(gradient[at])


@settings(deadline=None, derandomize=True, max_examples=20)
@given(s=gains, start=positive, total=st.integers(1, 20), data=st.data())
def test_pre_ln_telescopes_to_one_over_q(s: Fraction, start: Fraction, total: int, data: st.DataObject) -> None:
    """κ² = s²: E|∂𝓛/∂x_l|² = 1/q_l, free of L (THEORY.md, section 2)."""
    at = data.draw(st.integers(0, total), "l")
    law = derive(registry()["pre-ln"])
    formula = law.gradient_at(law.homogeneous)
    assert depth not in formula.free_symbols
    found = formula.subs({law.moments[0].square: _exact(s), q0: _exact(start), layer: at})
    assert found == 1 / (_exact(start) + _exact(s) * at)


@settings(deadline=None, derandomize=True, max_examples=10)
@given(s1=gains, k1=gains, s2=gains, k2=gains, start=positive, total=st.integers(1, 6))
def test_two_sublayers_a_block(s1: Fraction, k1: Fraction, s2: Fraction, k2: Fraction, start: Fraction, total: int) -> None:
    for name in ("post-ln", "residual-only"):
        law = derive(registry()[name], 2)
        begin = Fraction(1) if name == "post-ln" else start
        moment, gradient = begin, Fraction(1)
        for _ in range(total):
            for s, k in ((s1, k1), (s2, k2)):
                moment, chi = STEPS[name](moment, s, k, Fraction(1))
                gradient *= chi
        numbers = [(m.square, m.gain) for m in law.moments]
        point = dict(zip([symbol for pair in numbers for symbol in pair], map(_exact, (s1, k1, s2, k2)), strict=True))
        found = law.gradient.subs(point | {q0: _exact(begin)}).subs({depth: total, layer: 0})
        assert found == _exact(gradient)
        assert law.stream.subs(point | {q0: _exact(begin)}).subs(layer, total) == _exact(moment)


def test_two_homogeneous_pre_ln_sublayers_telescope_too() -> None:
    law = derive(registry()["pre-ln"], 2)
    first, second = law.moments
    expected = 1 / (q0 + (first.square + second.square) * layer)
    assert sympy.simplify(law.gradient_at(law.homogeneous) - expected) == 0


# In depth at fixed l for κ² = s² = 1/2, and for GELU: (rate, exponent) of the squared gradient, from the closed forms by hand.
RELU_IN_DEPTH = {
    "post-ln": (1, 0),
    "post-rmsnorm": (1, 0),
    "pre-ln": (1, 0),
    "pre-rmsnorm": (1, 0),
    "residual-only": (sympy.Rational(3, 2), 0),
    "residual-final-ln": (1, 0),
    "residual-final-rmsnorm": (1, 0),
    "no-residual": (sympy.Rational(1, 2), 0),
    "no-residual-ln": (1, 0),
    "no-residual-rmsnorm": (1, 0),
}
RELU_IN_LAYER = dict.fromkeys(RELU_IN_DEPTH, (1, 0)) | {
    "pre-ln": (1, -1),
    "pre-rmsnorm": (1, -1),
    "residual-only": (sympy.Rational(2, 3), 0),
    "residual-final-ln": (sympy.Rational(2, 3), 0),
    "residual-final-rmsnorm": (sympy.Rational(2, 3), 0),
    "no-residual": (2, 0),
}


@pytest.mark.parametrize("name", RELU_IN_DEPTH)
def test_asymptotic_classes_for_relu(name: str) -> None:
    law = derive(registry()[name])
    values = {law.moments[0].square: sympy.Rational(1, 2), law.moments[0].gain: sympy.Rational(1, 2)}
    in_depth, in_layer = law.growth_in_depth(values), law.growth_in_layer(values)
    assert (in_depth.rate, in_depth.exponent) == RELU_IN_DEPTH[name]
    assert (in_layer.rate, in_layer.exponent) == RELU_IN_LAYER[name]


GELU_CLASSES = {
    "post-ln": "exponential: (1.02149)^L",
    "pre-ln": "power law: L^(0.0720316)",
    "no-residual-ln": "exponential: (1.07203)^L",
}


@pytest.mark.parametrize("name", GELU_CLASSES)
def test_asymptotic_classes_for_gelu(name: str) -> None:
    """χ = 1.02149 (LITERATURE.md, section 0); κ²/s² = 0.455851/0.425221 = 1.07203, and 1 less as Pre-LN's exponent."""
    assert GELU_CLASSES[name] in derivation(registry()[name], (sublayer("gelu"),))[-1].reason


NO_CLOSED_FORM = {
    "residual-only": "not homogeneous",
    "residual-final-ln": "not homogeneous",
    "no-residual": "not homogeneous",
}


@pytest.mark.parametrize("name", NO_CLOSED_FORM)
def test_where_there_is_no_closed_form_the_reason_is_given(name: str) -> None:
    assert NO_CLOSED_FORM[name] in str(closed_form(registry()[name], 1, homogeneous=False))
    *_, said, read_off = derivation(registry()[name], (sublayer("gelu"),))
    assert said.title == "No closed form" and NO_CLOSED_FORM[name] in said.reason
    assert "numeric recursion" in read_off.reason


def test_constants_by_layer_have_no_closed_form() -> None:
    omega = sympy.Symbol("omega", positive=True)
    variant = Variant(name="faded", update=x + omega * F(LN(x)), constants={omega: 1 / sympy.sqrt(l)}, source="here")
    with pytest.raises(NoClosedForm, match="change from block to block"):
        derive(variant)


def test_a_nonlinear_forward_recursion_has_no_closed_form() -> None:
    variant = Variant(name="mixed", update=x + LN(x) + F(LN(x)), source="here")  # q' = (1 + 1/√q)² q + s²
    with pytest.raises(NoClosedForm, match="not linear in q"):
        derive(variant)


def test_a_variant_that_is_not_registered_gets_its_law() -> None:
    """Peri-LN, x + LN(F(LN x)): q' = q + 1, χ = 1 + (κ²/s²)/q (THEORY.md, section 2)."""
    law = derive(Variant(name="peri-ln", update=x + LN(F(LN(x))), read_out=LN(x), source="here"))
    s, k = law.moments[0].square, law.moments[0].gain
    assert sympy.simplify(law.forward - (q + 1)) == 0
    assert sympy.simplify(law.backward - (1 + k / s / q)) == 0


def test_depth_in_a_constant_is_kept() -> None:
    variant = Variant(name="scaled", update=x + (1 / sympy.sqrt(L)) * F(LN(x)), source="here")
    law = derive(variant)
    assert sympy.simplify(law.forward.subs(law.moments[0].square, 1) - (q + 1 / L)) == 0


S, K = sympy.Symbol("s^2", positive=True), sympy.Symbol("k^2", positive=True)
WRONG_FORMS = {
    "stream one layer late": (q0 + S * (layer + 1), sympy.Integer(1)),
    "stream without its slope": (q0 + layer, sympy.Integer(1)),
    "gradient one block short": (q0 + S * layer, (q0 + S * (depth - 1)) / (q0 + S * layer)),
    "gradient turned over": (q0 + S * layer, (q0 + S * layer) / (q0 + S * depth)),
    "flat gradient": (q0 + S * layer, sympy.Integer(1)),
}


@pytest.mark.parametrize("fault", WRONG_FORMS)
def test_a_wrong_closed_form_is_refused(fault: str) -> None:
    stream, gradient = WRONG_FORMS[fault]
    with pytest.raises(ArithmeticError, match="differs from the recursion's"):
        prove(q + S, 1 + S / q, stream, gradient)


def test_the_right_closed_form_passes_the_same_comparison() -> None:
    proof = prove(q + S, 1 + S / q, q0 + S * layer, (q0 + S * depth) / (q0 + S * layer), points=9)
    assert proof.points == 9 == len(proof.depths) and min(proof.depths) >= 2


def test_a_wrong_exponential_is_refused() -> None:
    with pytest.raises(ArithmeticError, match="gradient"):
        prove(sympy.Integer(1), (1 + K) / (1 + S), sympy.Integer(1), ((1 + K) / (1 + S)) ** (depth - layer + 1))


@pytest.mark.parametrize("name", [name for name, variant in registry().items() if isinstance(solve(variant), Law)])
@pytest.mark.parametrize("branch", ["linear", "relu", "gelu", "attention"])
def test_every_derivation_ends_in_a_class_or_a_reason(name: str, branch: str) -> None:
    titles = [step.title for step in derivation(registry()[name], (sublayer(branch),))]
    assert titles[0] == "Equation" and titles[1] == "Model"
    if "No closed form" in titles:
        assert titles[-2:] == ["No closed form", f"Class for {branch}"] and not sublayer(branch).homogeneous
        return
    if not sublayer(branch).tokenwise:
        needed = [
            "Logits",
            "Participation",
            "Attention forward",
            "Backward through keys",
            "Collapse",
            "Two parts of the gradient",
        ]
        assert [title for title in titles if title in needed] == needed
        return
    needed = ["Forward recursion", "Backward", "Solve forward", "Multiply backward", "Law", "Proof", "Asymptotic class"]
    assert [title for title in titles if title in needed] == needed
    assert titles[-1] == f"Class for {branch}"
