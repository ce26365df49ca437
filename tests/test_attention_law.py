"""Attention's derived law against exact algebra at rational patterns, sampled patterns, and the numeric recursion."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.boundary import Boundary
from theory.configuration import Configuration
from theory.errors import NoClosedForm
from theory.laws.attention.block import ffn, token_step
from theory.laws.attention.collapse import below, collapse, gamma
from theory.laws.attention.patterns import attention_maps, between, power_sum, square
from theory.laws.attention.report import attention_steps
from theory.laws.attention.softmax import c, n, softmax
from theory.laws.derivation import derivation
from theory.laws.recursion import q
from theory.moments.activations import activation
from theory.moments.kernels import value_kernel
from theory.quantities import quantity
from theory.stack import profile
from theory.sublayers import Surroundings, Weights, sublayer
from theory.sublayers.patterns import Patterns
from theory.variants import load

BLOCK = (sublayer("attention"), sublayer("gelu"))
NUMBERS = {ffn.square: BLOCK[1].exact_moments()[0], ffn.gain: BLOCK[1].exact_moments()[1]}


def exact_pattern(weights: list[int], tokens: int) -> np.ndarray:
    rows = np.array([Fraction(w) for w in weights], dtype=object).reshape(1, tokens, tokens)
    return rows / rows.sum(axis=2, keepdims=True)


def exchangeable(diagonal: object, off: object, tokens: int) -> np.ndarray:
    return np.array([[diagonal if i == j else off for j in range(tokens)] for i in range(tokens)], dtype=object)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(1, 9), min_size=9, max_size=9), st.integers(0, 7), st.integers(-3, 8))
def test_sums_over_keys_are_exact_at_rational_patterns(weights: list[int], cosine: int, coherence: int) -> None:
    tokens, alike = 3, Fraction(cosine, 8)
    pattern = exact_pattern(weights, tokens)
    gram, gradient = exchangeable(Fraction(1), alike, tokens), exchangeable(Fraction(2), Fraction(coherence, 8), tokens)
    algebra = Patterns(pattern, gram[None], gram[None], gram[None])
    maps, rows = attention_maps(), pattern[0]

    def at_rows(expression: sympy.Expr, i: int, k: int) -> sympy.Expr:
        sums = {power_sum(p, r): sympy.Rational(sum(rows[i] ** p * rows[k] ** r)) for p in range(4) for r in range(4)}
        return expression.subs(sums, simultaneous=True).subs(c, sympy.Rational(alike))

    mixed, at_queries, at_keys = algebra.mixed(), algebra.at_queries(gradient)[0], algebra.at_keys(gradient)[0]
    assert at_keys.sum() == 0 == maps.scores_total
    keys = 0
    for i in range(tokens):
        for k in range(tokens):
            same = "diagonal" if i == k else "between"
            assert at_rows(getattr(maps.output, same), i, k) == sympy.Rational(mixed[i, k])
            assert at_rows(getattr(maps.scores, same), i, k) * sympy.Rational(gradient[i, k]) == sympy.Rational(at_queries[i, k])
            keys += at_rows(getattr(maps.score_at_key, same), i, k) * sympy.Rational(gradient[i, k] * gram[i, k])
    assert keys == sympy.Rational(np.trace(at_keys))


def off_diagonal(matrix: np.ndarray) -> float:
    tokens = len(matrix)
    return float((matrix.sum() - np.trace(matrix)) / (tokens * (tokens - 1)))


@pytest.mark.parametrize("tokens", [64, 256])
@pytest.mark.parametrize(("alike", "coherence"), [(0.3, 0.0), (0.3, 0.5), (0.9, 0.0), (0.9, 0.5)])
def test_maps_agree_with_sampled_patterns_up_to_order_one_over_tokens(tokens: int, alike: float, coherence: float) -> None:
    moments, gradient = (entry + (1 - entry) * np.eye(tokens) for entry in (alike, coherence))
    weights = Weights(dict.fromkeys(("WQ", "WK", "WV", "WO"), 1.0))
    around = Surroundings(freedom=None, depth=4, generator=np.random.default_rng(1))
    applied = BLOCK[0].apply(moments, weights, around)
    maps, values = attention_maps(), softmax().values
    point = {n: tokens, c: alike, square: 1, between: coherence}
    for derived, sampled in ((maps.output, applied.output), (maps.backward, applied.backward(gradient))):
        expected = [float(entry.subs(values).subs(point)) for entry in (derived.diagonal, derived.between)]
        found = [np.trace(sampled) / tokens, off_diagonal(sampled)]
        assert found == pytest.approx(expected, rel=8 / tokens, abs=1e-12)


def test_queries_and_keys_together_weigh_the_incoherent_gradient_by_1_minus_c_times_2_minus_c() -> None:
    both = (attention_maps().queries + attention_maps().keys).diagonal.subs(between, 0)
    share = power_sum(2)
    assert sympy.expand(both - (1 - c) * (2 - c) * share * square) == 0


@pytest.mark.parametrize("name", ["gelu", "relu", "tanh"])
def test_the_value_kernel_falls_from_one_with_the_slope_moment(name: str) -> None:
    phi, small = activation(name), 1e-6
    kernel = value_kernel(phi, np.array([[1.0, 1 - small], [1 - small, 1.0]]))
    slope = phi.moments(1.0)[1]
    assert (kernel[0, 0] - kernel[0, 1]) / small == pytest.approx(slope, rel=1e-3)


@pytest.mark.parametrize("coherence", [0.0, 0.2, 1.0])
def test_the_law_of_collapsed_tokens_is_the_numeric_recursions(coherence: float) -> None:
    tokens, depth = 32, 40
    ends = Boundary(np.eye(tokens), coherence + (1 - coherence) * np.eye(tokens))
    network = Configuration(load("post-ln"), ("attention", "gelu"), depth, 128, tokens)
    rows = quantity("stream-gradient").predicted(network, (ends,), infinite_width=True)
    law = collapse(load("post-ln"), BLOCK).gradient.subs(NUMBERS).subs({n: tokens, gamma: coherence})
    for m in range(1, 21):
        assert rows[depth - m] / rows[depth] == pytest.approx(float(law.subs(below, m)), rel=2e-3)


def test_the_cosine_of_post_ln_tokens_closes_in_by_the_derived_factor() -> None:
    network = Configuration(load("post-ln"), ("attention", "gelu"), 24, 128, 32)
    apart = 1 - quantity("token-cosine").predicted(network, infinite_width=True)
    factor = float(collapse(load("post-ln"), BLOCK).spread.subs(NUMBERS))
    assert apart[16] / apart[15] == pytest.approx(factor, rel=1e-3)


def test_pre_ln_tokens_become_alike_by_the_derived_power() -> None:
    found = collapse(load("pre-ln"), BLOCK)
    network = Configuration(load("pre-ln"), ("attention", "gelu"), 512, 64, 8)
    forward = [layer["x", "x"] for layer in profile(network, 8, None, True).forward]
    apart = {l: 1 - off_diagonal(forward[l]) / np.trace(forward[l]) * 8 for l in (256, 512)}
    length = {l: np.trace(forward[l]) / 8 for l in (256, 512)}
    exponent = np.log(apart[512] / apart[256]) / np.log(length[512] / length[256])
    assert exponent == pytest.approx(float(found.exponent(found.spread).subs(NUMBERS)), rel=0.02)
    at_collapse = 256 * float((found.growth - q).subs(NUMBERS))
    assert 0 < at_collapse - (length[512] - length[256]) < 256 * apart[256]  # attention adds c + (1 − c)p, not 1


def test_the_floor_is_where_both_parts_are_equal() -> None:
    found = collapse(load("post-ln"), BLOCK)
    assert sympy.simplify(found.floor.subs(n, 33)) == 5
    at_floor = {below: 5, n: 33, gamma: 0}
    coherent, incoherent = found.parts[0] * found.coherent**below, found.parts[1] * found.incoherent**below
    assert sympy.simplify(coherent.subs(at_floor) - incoherent.subs(at_floor)) == 0


def test_a_scaled_stream_keeps_attention_from_halving() -> None:
    """DeepNorm's α: the incoherent factor is α²/(α² + 1), 1/2 at α = 1 only."""
    alpha = sympy.Symbol("alpha", positive=True)
    matrix = token_step(load("deepnorm"), attention=True).backward_matrix
    found = {sympy.factor(v.subs({s: alpha for s in v.free_symbols if s.name == "alpha"})) for v in matrix.eigenvals()}
    assert found == {sympy.Integer(1), alpha**2 / (alpha**2 + 1)}


def test_the_derivation_prints_its_steps_and_numbers() -> None:
    steps = derivation(load("post-ln"), BLOCK)
    assert {"Logits", "Backward through keys", "Collapse", "Floor"} <= {step.title for step in steps}
    assert "0.510746" in steps[-1].text  # (1 + 0.455851)/(1 + 0.425221)/2
    assert any("log g_coherent" in step.text for step in derivation(load("pre-ln"), BLOCK))


def test_without_a_norm_before_attention_there_is_no_closed_form() -> None:
    with pytest.raises(NoClosedForm, match="no norm"):
        collapse(load("residual-only"), BLOCK)
    assert attention_steps(load("residual-only"), BLOCK)[-1].title == "No closed form"
