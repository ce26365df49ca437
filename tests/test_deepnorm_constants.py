"""DeepNorm's constants: derived from the bound, equal to the paper's, and what the paper's proof drops."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest
import sympy

from theory.algebra import LN, F, L, Stream, Variant
from theory.configuration import Configuration
from theory.errors import InvalidInput
from theory.quantities import quantity
from theory.updates.deepnorm import blocks, bounded_update, coherent_factor, moment, sublayer_update, update_limit
from theory.variants import load

PAPER = {1: (1, 4), 2: (2, 8), 3: (3, 12)}
"""S → a, b of α = (aL)^(1/4), β = (bL)^(-1/4): encoder 2, 8 and decoder 3, 12 (Wang et al. 2022, section 4.3)."""


@pytest.mark.parametrize("per_block", PAPER)
def test_the_constants_are_the_papers(per_block: int) -> None:
    a, b = PAPER[per_block]
    found = bounded_update(per_block)
    for total in (1, 6, 100, 1000):
        assert float(found.alpha.subs(blocks, total)) == pytest.approx((a * total) ** 0.25, rel=1e-12)
        assert float(found.beta.subs(blocks, total)) == pytest.approx((b * total) ** -0.25, rel=1e-12)
        assert float(found.ratio.subs(blocks, total)) == pytest.approx(1 / (2 * per_block * total), rel=1e-12)


def test_they_are_those_of_the_registry() -> None:
    found, variant = bounded_update(2), load("deepnorm")
    assert sympy.simplify(found.alpha.subs(blocks, L) - dict(variant.formulas).popitem()[1]) == 0
    assert sympy.simplify(found.beta.subs(blocks, L) - variant.gain) == 0


def test_another_bound_moves_along_the_ratio() -> None:
    tight = bounded_update(2, sympy.Rational(1, 4))
    assert sympy.simplify(tight.ratio * 4 - bounded_update(2).ratio) == 0
    assert float((2 * tight.beta**2 * tight.alpha**2).subs(blocks, 7)) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("per_block", [1, 2, 3])
def test_the_update_reaches_its_limit(per_block: int) -> None:
    found = bounded_update(per_block)
    value = (per_block * blocks * sublayer_update()).subs({sympy.Symbol("alpha", positive=True): found.alpha})
    value = value.subs({sympy.Symbol("beta", positive=True): found.beta, moment: sympy.Rational(1, 2)})
    assert float(value.subs(blocks, 10**8)) == pytest.approx(float(update_limit(per_block).subs(moment, 0.5)), rel=1e-5)


@pytest.mark.parametrize(("depth", "printed"), [(6, 2.36), (24, 3.60), (100, 6.44), (500, 16.5)])
def test_what_the_papers_proof_drops(depth: int, printed: float) -> None:
    """∏ (α + vw)/√(α² + v²w²) over 2N sublayers, multiplied out: the figures of LITERATURE.md, section 2."""
    alpha, square = (2 * depth) ** 0.25, (8 * depth) ** -0.5
    exact = 2 * depth * log((alpha + square) / sqrt(alpha**2 + square**2))
    assert np.exp(exact) == pytest.approx(printed, rel=3e-3)
    leading = float(coherent_factor(2).subs(blocks, depth))
    assert leading == pytest.approx(0.5946 * depth**0.25, rel=1e-4)
    # log(1 + x) − ½ log(1 + x²) = x − x² + …: the leading order is too large by at most the share x.
    x = square / alpha
    assert exact < leading < exact * (1 + 1.1 * x)


@pytest.mark.parametrize("depth", [16, 64, 256])
def test_the_theorys_sgd_step_is_bounded_and_adams_is_not(depth: int) -> None:
    """Two ReLU FFNs a block: δy²/(d·(d s₁²)²) → 1 for SGD; four times the depth doubles Adam's step in norm."""
    cell = Configuration(load("deepnorm"), ("relu", "relu"), depth, 32, 1)
    assert quantity("sgd-update").predicted(cell)[0] / (32 / 2) ** 2 == pytest.approx(1.0, abs=1.2 * depth**-0.5)
    deeper = Configuration(load("deepnorm"), ("relu", "relu"), 4 * depth, 32, 1)
    ratio = quantity("adam-update").predicted(deeper)[0] / quantity("adam-update").predicted(cell)[0]
    assert sqrt(ratio) == pytest.approx(2.0, rel=0.05)


def test_post_lns_step_grows_faster_than_in_proportion() -> None:
    """(ΣΘ)² ∝ L², and the spread of the singular values L³: the exponent of the square lies between, and rises."""
    values = [quantity("sgd-update").predicted(Configuration(load("post-ln"), ("relu",), n, 32, 1))[0] for n in (8, 16, 256, 512)]
    shallow, deep = np.log2(values[1] / values[0]), np.log2(values[3] / values[2])
    assert 2 < shallow < deep < 3


def test_pre_lns_step_grows_like_a_logarithm() -> None:
    values = np.sqrt(
        [quantity("sgd-update").predicted(Configuration(load("pre-ln"), ("linear",), n, 32, 1))[0] for n in (64, 256, 1024)]
    )
    # Σ 1/q_l ∝ log L coherently; the singular values' spread, itself ∝ log L, makes the square (log L)³ in the end.
    logs = log(1024) / log(64)
    assert logs < values[2] / values[0] < 1.05 * logs**1.5


def test_a_bound_for_another_form_uses_the_same_walk() -> None:
    """Constants for S = 1 as a variant: its SGD step is bounded where Post-LN's is not."""
    found, x, alpha = bounded_update(1), Stream("x"), sympy.Symbol("alpha", positive=True)
    variant = Variant(
        name="deepnorm-one",
        update=LN(alpha * x + F(x)),
        constants={alpha: found.alpha.subs(blocks, L)},
        gain=found.beta.subs(blocks, L),
        source="here",
    )
    steps = [quantity("sgd-update").predicted(Configuration(variant, ("relu",), n, 32, 1))[0] for n in (64, 1024)]
    assert steps[1] / steps[0] == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize(("per_block", "level"), [(0, 1), (2, 0), (2, -1)])
def test_a_bound_that_makes_no_sense_is_refused(per_block: int, level: int) -> None:
    with pytest.raises(InvalidInput, match="both must be positive"):
        bounded_update(per_block, sympy.Integer(level))


def test_the_steps_name_the_freedom_and_the_gap() -> None:
    steps = bounded_update(2).steps
    text = " ".join(step.reason for step in steps)
    assert "fixes the ratio and nothing else" in text and "replaces (α + vw)/√(α² + v²w²) by 1" in text
    assert all(step.text for step in steps)
