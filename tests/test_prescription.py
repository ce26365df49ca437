"""``python -m theory prescribe``: the paper's constants, a flat gradient by quadrature, and networks whose update is flat."""

from __future__ import annotations

import json
import sys
from functools import lru_cache

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

import theory.__main__
from empirical.ensemble import Ensemble
from empirical.estimands import depth_exponent
from empirical.measurement import Cell, device_named
from empirical.statistics import Estimate, estimate
from theory.algebra import LN, RMS, F, Stream, Variant
from theory.commands import leave_in_one_line
from theory.configuration import Configuration
from theory.errors import InvalidInput
from theory.prescription import gradient_ratio, prescribe
from theory.variants import load

x, alpha = Stream("x"), sympy.Symbol("alpha", positive=True)


def network(depth: int, *sublayers: str, variant: Variant | None = None, width: int = 256) -> Configuration:
    return Configuration(variant or load("deepnorm"), sublayers, depth, width, 1)


def answer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["theory", "prescribe", *arguments])
    capsys.readouterr()
    return leave_in_one_line(theory.__main__.main), *capsys.readouterr()


@pytest.mark.parametrize("depth", [1, 6, 24, 100, 1000])
def test_the_papers_encoder_by_default(depth: int, monkeypatch, capsys) -> None:
    code, out, err = answer(
        monkeypatch, capsys, "deepnorm", "--depth", str(depth), "--target", "bounded-update", "--sublayers", "relu,relu", "--json"
    )
    found = json.loads(out)
    assert (code, err, found["schema"]) == (0, "", 1)
    assert (found["variant"], found["depth"], found["target"]) == ("deepnorm", depth, "bounded-update")
    assert found["constants"] == pytest.approx({"alpha": (2 * depth) ** 0.25, "beta": (8 * depth) ** -0.25}, rel=1e-12)
    assert "α itself is free" in found["freedom"] and "balanced" in found["freedom"]


def test_a_block_has_two_sublayers_unless_told_otherwise(monkeypatch, capsys) -> None:
    _, out, _ = answer(monkeypatch, capsys, "deepnorm", "--depth", "6", "--target", "bounded-update", "--json")
    assert json.loads(out)["constants"] == pytest.approx({"alpha": 12**0.25, "beta": 48**-0.25}, rel=1e-12)


def test_the_papers_decoder() -> None:
    """Wang et al. 2022, section 4.3: (3M)^(1/4), (12M)^(-1/4) with cross attention."""
    found = prescribe(network(18, "relu", "relu", "relu"), "bounded-update")
    assert found.constants == pytest.approx({"alpha": 54**0.25, "beta": 216**-0.25}, rel=1e-12)


@given(st.integers(1, 40), st.integers(1, 3), st.fractions(min_value="1/16", max_value=4))
@settings(deadline=None, max_examples=20)
def test_the_bound_is_met(depth: int, per_block: int, bound) -> None:
    found = prescribe(network(depth, *["relu"] * per_block), "bounded-update", sympy.Rational(bound.numerator, bound.denominator))
    a, b = found.constants.values()
    assert 2 * per_block * depth * b**2 / a**2 == pytest.approx(float(bound), rel=1e-9) == found.update
    assert 2 * a**2 * b**2 == pytest.approx(1, rel=1e-9)


def gelu_block(a: float, b: float) -> float:
    """χ of N(αx + W₂ φ(W₁x)), Var W = β²/d, by quadrature: (α² + β⁴ E φ'(βz)²)/(α² + β² E φ(βz)²)."""
    square = quad(lambda z: (b * z * norm.cdf(b * z)) ** 2 * norm.pdf(z), -12, 12)[0]
    slope = quad(lambda z: (norm.cdf(b * z) + b * z * norm.pdf(b * z)) ** 2 * norm.pdf(z), -12, 12)[0]
    return (a**2 + b**4 * slope) / (a**2 + b**2 * square)


@pytest.mark.parametrize(("depth", "tolerance"), [(24, 0.01), (100, 0.001)])
def test_flat_gradient_by_quadrature(depth: int, tolerance: float) -> None:
    found = prescribe(network(depth, "gelu"), "flat-gradient", tolerance=tolerance)
    a, b = found.constants["alpha"], found.constants["beta"]
    assert 2 * a**2 * b**2 == pytest.approx(1, rel=1e-8)
    assert gelu_block(a, b) ** depth - 1 == pytest.approx(tolerance, rel=2e-3)
    assert gelu_block(0.99 * a, b / 0.99) ** depth - 1 > tolerance >= found.gradient - 1
    assert "these have the smallest α" in found.freedom


def test_relu_is_flat_whatever_the_constants() -> None:
    """χ = (α² + β⁴/2)/(α² + β⁴/2): the update decides."""
    found = prescribe(network(24, "relu", "relu"), "flat-gradient")
    assert "χ = 1 whatever the constants" in found.freedom and "update of one step decides" in found.freedom
    assert found.constants == pytest.approx({"alpha": 48**0.25, "beta": 192**-0.25}, rel=1e-12)
    assert found.gradient == pytest.approx(1, abs=1e-12)


def test_a_form_without_gain_leaves_no_freedom() -> None:
    scale = sympy.Symbol("c", positive=True)  # whatever its symbol, the answer calls it alpha
    variant = Variant("scaled", RMS(scale * x + F(x)), "here", constants={scale: sympy.Integer(3)})
    bounded = prescribe(network(8, "gelu", variant=variant), "bounded-update")
    assert bounded.constants == pytest.approx({"alpha": 4.0, "beta": 1.0}) and bounded.freedom.startswith("none")
    flat = prescribe(network(8, "gelu", variant=variant), "flat-gradient", tolerance=0.02)
    assert gelu_block(flat.constants["alpha"], 1.0) ** 8 - 1 == pytest.approx(0.02, rel=2e-3)


def test_the_variant_that_comes_back_has_the_constants() -> None:
    cell = network(16, "gelu")
    found = prescribe(cell, "flat-gradient")
    assert gradient_ratio(Configuration(found.variant, ("gelu",), 16)) == pytest.approx(found.gradient)
    assert found.variant.name == "deepnorm" and found.variant != cell.variant


@lru_cache(maxsize=4)
def measured(prescribed: bool) -> Estimate:
    """Exponent in depth of the output's change after one SGD step, in norm: two ReLU FFNs a block."""
    depths, samples = (4, 8, 16), {}
    for depth in depths:
        cell = network(depth, "relu", "relu", variant=None if prescribed else load("post-ln"), width=48)
        if prescribed:
            cell = network(depth, "relu", "relu", variant=prescribe(cell, "bounded-update").variant, width=48)
        members = Ensemble(Cell(cell, dtype="float32", seed=depth, extra=("sgd-update",)), device_named("cpu")).extend(512)
        samples[str(depth)] = members.values
    return estimate(depth_exponent(tuple((d, str(d)) for d in depths), "sgd-update", 0, 0.5), samples)


def test_networks_with_these_constants_have_an_update_flat_in_depth() -> None:
    found = measured(prescribed=True)
    assert found.low[0] > -0.1 and found.high[0] < 0.1


def test_post_lns_grows() -> None:
    """In proportion to the depth, or faster."""
    assert measured(prescribed=False).low[0] > 0.75


@pytest.mark.parametrize(
    ("variant", "target", "message"),
    [
        (load("post-ln"), "bounded-update", "post-ln has no residual scale to set: prescribe deepnorm"),
        (load("pre-ln"), "flat-gradient", "prescribe deepnorm"),
        (load("residual"), "flat-gradient", "prescribe deepnorm"),
        (Variant("on-the-branch", LN(x + alpha * F(x)), "here", constants={alpha: 2}), "bounded-update", "prescribe deepnorm"),
        (load("deepnorm"), "flat", "unknown target 'flat': known are flat-gradient, bounded-update"),
    ],
)
def test_what_cannot_be_prescribed(variant: Variant, target: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        prescribe(network(4, "relu", variant=variant), target)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--depth", "0", "--target", "bounded-update"), "depth is 0"),
        (("--depth", "4", "--target", "bounded-update", "--bound", "x"), "'x' is no number"),
        (("--depth", "4", "--target", "bounded-update", "--bound", "-1"), "must be positive"),
        (("--depth", "4", "--target", "flat-gradient", "--tolerance", "2"), "between 0 and 1"),
        (("--depth", "4", "--target", "flat-gradient", "--tolerance", "nan"), "between 0 and 1"),
        (("--depth", "4"), "required: --target"),
    ],
)
def test_bad_flags_are_one_line(flags: tuple[str, ...], message: str, monkeypatch, capsys) -> None:
    code, out, err = answer(monkeypatch, capsys, "deepnorm", *flags)
    assert (code, out) == (2, "") and err.startswith("error: ") and err.count("\n") == 1 and message in err


def test_people_read_constants_freedom_and_steps(monkeypatch, capsys) -> None:
    code, out, _ = answer(
        monkeypatch, capsys, "deepnorm", "--depth", "24", "--target", "bounded-update", "--sublayers", "relu,relu"
    )
    assert code == 0 and "alpha = 2.632148" in out and "Freedom: " in out and " 1. Form" in out
