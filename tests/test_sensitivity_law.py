"""The sensitivity's closed form against sums and recursions written out here."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import sympy
from scipy.special import digamma

from theory.algebra import LN, F, L, Stream, Variant
from theory.configuration import Configuration
from theory.errors import NoClosedForm
from theory.laws.closed import depth, layer, q0
from theory.laws.law import Law, closed_form
from theory.laws.sensitivity import _prove, matrices, sensitivity, sensitivity_steps
from theory.quantities import quantity
from theory.variants import load, registry

LAWS = {name: closed_form(load(name)) for name in registry()}
CLOSED = [name for name, law in LAWS.items() if isinstance(law, Law) and not law.moments[0].inner]
S2 = sympy.Rational(1, 2)


def _numbers(variant: str, sublayers: int, total: int) -> tuple[list[float], str]:
    law = sensitivity(load(variant), sublayers)
    values = {m.square: S2 for m in law.law.moments} | {q0: 1, matrices: 2, depth: total}
    if load(variant).gain != 1:  # both ReLU matrices are scaled by β
        beta4 = (8 * sympy.Integer(total)) ** -1 * S2
        values |= {m.square: beta4 for m in law.law.moments}
    values |= {symbol: formula.subs(L, total) for symbol, formula in load(variant).formulas}
    return [float(sympy.N(law.total.subs(values | {layer: at}))) for at in range(total + 1)], law.kind


@pytest.mark.parametrize("sublayers", [1, 2])
@pytest.mark.parametrize("variant", CLOSED)
def test_the_closed_form_equals_the_numeric_recursion(variant: str, sublayers: int) -> None:
    closed, _ = _numbers(variant, sublayers, 6)
    cell = Configuration(load(variant), ("relu",) * sublayers, 6, 32, 1)
    np.testing.assert_allclose(closed, quantity("output-sensitivity").predicted(cell, infinite_width=True), rtol=1e-9, atol=1e-12)


def test_post_ln_adds_the_same_for_every_block() -> None:
    """Two matrices, s² = ½: 2·½/(1 + ½) = 2/3 a block."""
    found, kind = _numbers("post-ln", 1, 9)
    np.testing.assert_allclose(found, 2 / 3 * (9 - np.arange(10)), rtol=1e-12)
    assert kind == "linear"


@pytest.mark.parametrize("total", [1, 5, 40])
def test_pre_ln_adds_one_over_the_streams_moment(total: int) -> None:
    """2·½/(1 + j/2) summed over blocks as fractions, and 2·log(L/l) for large l."""
    found, kind = _numbers("pre-ln", 1, total)
    for at in range(total + 1):
        exact = sum((Fraction(1) / (1 + Fraction(j, 2)) for j in range(at + 1, total + 1)), Fraction(0))
        assert found[at] == pytest.approx(float(exact), rel=1e-12, abs=1e-14)
    assert kind == "logarithmic"
    assert 2 * (digamma(1000 + 3) - digamma(250 + 3)) == pytest.approx(2 * np.log(1000 / 250), rel=0.01)


def test_classes_of_all_variants() -> None:
    kinds = {name: sensitivity(load(name)).kind for name in CLOSED}
    assert {name for name, kind in kinds.items() if kind == "logarithmic"} >= {"pre-ln", "pre-rmsnorm", "sandwich-ln", "peri-ln"}
    assert {"post-ln", "deepnorm", "residual-final-ln"} <= {name for name, kind in kinds.items() if kind == "linear"}


def test_several_streams_have_no_closed_form() -> None:
    with pytest.raises(NoClosedForm, match="several streams"):
        sensitivity(load("residual"))


def test_a_wrong_sum_fails_its_proof() -> None:
    law = sensitivity(load("pre-ln"))
    with pytest.raises(ArithmeticError, match="does not have the summand"):
        _prove(law.term * 2, law.total)
    with pytest.raises(ArithmeticError, match="does not have the summand"):
        _prove(law.term, law.total + 1)


@pytest.mark.parametrize(("variant", "word"), [("post-ln", "Θ(L)"), ("pre-ln", "Θ(log L)")])
def test_the_derivation_ends_in_the_class(variant: str, word: str) -> None:
    steps = sensitivity_steps(load(variant))
    assert word in steps[-1].reason
    assert steps[0].title == "Equation" and any(step.title == "Proof" for step in steps)
    assert "polygamma" not in "".join(step.latex + step.text for step in steps)


def test_a_variant_of_ones_own_has_a_law_too() -> None:
    """Sandwich: x + N(F(N(x))) adds a unit of variance a block, the perturbed branch M times that: M/q_l."""
    x = Stream("x")
    law = sensitivity(Variant(name="peri-ln", update=x + LN(F(LN(x))), read_out=LN(x), source="here"))
    assert sympy.simplify(law.term - matrices / (q0 + layer)) == 0
