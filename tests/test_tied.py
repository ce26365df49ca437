"""Blocks that share one block's weights: the network, the recursion, the law, and what is refused."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from math import comb, pi, sqrt

import numpy as np
import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln
from scipy.stats import multivariate_normal

import empirical.__main__
import theory.__main__
from empirical.blocks import forward
from empirical.draws import Draws
from empirical.ensemble import Ensemble
from empirical.estimands import log_relative, log_relative_at_infinite_width
from empirical.layers import RandomLinear, Tape
from empirical.measurement import Cell, Readings, measure
from empirical.sanity import InvalidMeasurement, gate
from empirical.statistics import estimate
from empirical.verdicts import Verdict
from tests.claims.checks import follows_law_in_the_limit
from tests.claims.declaration import PROFILES
from tests.claims.sources.looped import GRADIENT, SHALLOW, WIDTHS, sweep
from theory.algebra import LN, F, Stream, Variant
from theory.commands import leave_in_one_line
from theory.configuration import Configuration
from theory.errors import InvalidInput, NoClosedForm
from theory.laws.derivation import derivation
from theory.laws.tied import derive_tied, recursion, tied_steps
from theory.moments import activation, kernel_between, slope_kernel, value_kernel
from theory.quantities import quantity
from theory.sublayers import Surroundings, Weights, sublayer
from theory.sublayers.patterns import Patterns
from theory.sublayers.shared import SharedAttention
from theory.variants import registry

CPU, TOKENS, WIDTH, DEPTH, MEMBERS = torch.device("cpu"), 3, 8, 3, 2
LOOPED = ("looped-residual", "looped-no-residual", "looped-pre-ln")
Tensor = torch.Tensor


def tied(name: str) -> Variant:
    """A variant with one block's weights for all."""
    return replace(registry()[name], name=f"{name}-tied", tied=True)


def _layer_norm(x: Tensor) -> Tensor:
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), eps=0.0)


# Plain torch: the update for a branch f, and the read-out.
PLAIN = {
    "looped-residual": (lambda x, f: x + f(x), lambda x: x),
    "looped-no-residual": (lambda x, f: f(x), lambda x: x),
    "looped-pre-ln": (lambda x, f: x + f(_layer_norm(x)), _layer_norm),
}


def _branch(name: str, index: int, w: dict[tuple[int, str], Tensor], b: dict[tuple[int, str], Tensor], x: Tensor) -> Tensor:
    """A sublayer with the one block's matrices, in plain torch; two heads, masked."""

    def linear(matrix: str, a: Tensor) -> Tensor:
        return a @ w[index, matrix] + b.get((index, matrix), torch.zeros(1, dtype=a.dtype))

    if name == "linear":
        return linear("W", x)
    if name == "relu":
        return linear("W2", linear("W1", x).clamp(min=0))
    if name == "gelu":
        return linear("W2", torch.nn.functional.gelu(linear("W1", x)))
    assert name == "attention"
    q, k, v = (linear(m, x).unflatten(-1, (2, -1)).transpose(1, 2) for m in ("WQ", "WK", "WV"))
    mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return linear("WO", mixed.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("init", ["fan-in", "torch-encoder-layer"])
@pytest.mark.parametrize("sublayers", [("linear",), ("relu",), ("attention", "gelu")])
@pytest.mark.parametrize("name", LOOPED)
def test_the_network_is_a_plain_loop_over_one_block(name: str, sublayers: tuple[str, ...], init: str) -> None:
    """Streams, their gradients, and the gradients of the weights, which are the sums over uses of what the tape keeps."""
    cell = Configuration(registry()[name], sublayers, DEPTH, WIDTH, TOKENS, heads=2, causal=True, init=init)
    linear = RandomLinear(Draws(0, range(MEMBERS), CPU, torch.float64), "dense", keep=True, tied=True)
    linear.tape = Tape(factors={})
    generator = torch.Generator().manual_seed(5)
    inputs, upstream = (torch.randn(MEMBERS, TOKENS, WIDTH, dtype=torch.float64, generator=generator) for _ in range(2))
    built = forward(cell, inputs.requires_grad_(), linear)
    gradients = torch.autograd.grad((built.output * upstream).sum(), [layer["x"] for layer in built.streams])

    w = {key[1:]: x.detach().requires_grad_() for key, x in linear.matrices.items() if key[0] == 1}
    b = {key[1:]: x.detach() for key, x in linear.shifts.items() if key[0] == 1}
    update, read_out = PLAIN[name]
    streams, x = [inputs], inputs
    for _ in range(DEPTH):
        for index, kind in enumerate(sublayers):
            x = update(x, lambda a, kind=kind, index=index: _branch(kind, index, w, b, a))
        streams.append(x)
    expected = torch.autograd.grad((read_out(x) * upstream).sum(), [*streams, *w.values()])
    for mine, plain in zip(built.streams, streams, strict=True):
        torch.testing.assert_close(mine["x"], plain, rtol=1e-10, atol=1e-12)
    for mine, plain in zip(gradients, expected, strict=False):
        torch.testing.assert_close(mine, plain, rtol=1e-9, atol=1e-12)
    assert linear.tape.factors is not None
    for key, plain in zip(w, expected[len(streams) :], strict=True):
        uses = [linear.tape.factors[layer, *key] for layer in range(1, DEPTH + 1)]
        torch.testing.assert_close(sum(x.mT @ delta for x, delta in uses), plain, rtol=1e-9, atol=1e-12)
        for layer, (x, delta) in enumerate(uses, start=1):
            squares = (x.mT @ delta).square().sum(dim=(1, 2))
            torch.testing.assert_close(linear.tape.gradients[layer, *key], squares, rtol=1e-9, atol=1e-12)


def test_the_operator_norm_is_that_of_a_power() -> None:
    """(1 + W)^m for m = 3 … 0, from the matrices that the same member draws."""
    cell = Cell(Configuration(registry()["looped-residual"], ("linear",), DEPTH, WIDTH, 1, 1), extra=("operator-norm",))
    found = measure(cell, range(MEMBERS), CPU).values["operator-norm"]
    drawn = Draws(0, range(MEMBERS), CPU, torch.float64).normal("weights", WIDTH, WIDTH, std=WIDTH**-0.5).numpy()
    for member in range(MEMBERS):
        step = np.eye(WIDTH) + drawn[member]
        norms = [np.linalg.norm(np.linalg.matrix_power(step, DEPTH - layer), 2) ** 2 for layer in range(DEPTH + 1)]
        np.testing.assert_allclose(found[member], norms, rtol=1e-4)  # where the iteration stops


@lru_cache(maxsize=4)
def _measured(name: str) -> tuple[Cell, Readings]:
    cell = Cell(Configuration(registry()[name], ("attention", "relu"), DEPTH, 32, 4, init="torch-encoder-layer"))
    return cell, measure(cell, range(8), CPU)


def test_the_gate_asks_for_the_same_weights_in_every_block() -> None:
    cell, readings = _measured("looped-pre-ln")
    assert gate(cell, readings)[-1] == "all blocks share one block's weights"
    assert len(readings.weights[0]) == DEPTH * 8  # six matrices and two biases a block, one record a use
    _, fresh = _measured("pre-ln")
    with pytest.raises(InvalidMeasurement, match="the blocks hold different weights, and this variant's share one block's"):
        gate(cell, replace(readings, weights=fresh.weights))
    with pytest.raises(InvalidMeasurement, match="layers are clones of each other"):
        gate(_measured("pre-ln")[0], replace(fresh, weights=readings.weights))


def test_the_gate_sees_two_matrices_of_one_block_alike_and_a_wrong_variance() -> None:
    cell, readings = _measured("looped-pre-ln")
    batch = readings.weights[0]
    cloned = {k: replace(r, fingerprint=batch[1, 0, "WK"].fingerprint) if k[2] == "WV" else r for k, r in batch.items()}
    with pytest.raises(InvalidMeasurement, match="clones"):
        gate(cell, replace(readings, weights=(cloned,)))
    halved = {k: replace(r, mean_square=r.mean_square / 2) if k[2] == "WV" else r for k, r in batch.items()}
    with pytest.raises(InvalidMeasurement, match=r"WV: the weights' variance is 0\.[45]"):
        gate(cell, replace(readings, weights=(halved,)))


def _by_quadrature(function: str, derivative: bool, a: float, b: float, c: float) -> float:
    """E f(u)f(v) on a fine grid of the two Gaussian variables."""
    phi = activation(function)
    f = phi.derivative if derivative else phi.value
    nodes = np.linspace(-9, 9, 1201)
    x, y = np.meshgrid(nodes, nodes, indexing="ij")
    u = sqrt(a) * x
    v = (c / sqrt(a)) * x + sqrt(b - c * c / a) * y
    weights = multivariate_normal(np.zeros(2)).pdf(np.stack([x, y], axis=-1)) * (nodes[1] - nodes[0]) ** 2
    return float((weights * f(u) * f(v)).sum())


@pytest.mark.parametrize("derivative", [False, True])
@pytest.mark.parametrize("function", ["gelu", "tanh"])
@pytest.mark.parametrize(("a", "b", "cosine"), [(1.0, 1.0, 0.3), (0.5, 2.0, -0.7), (3.0, 1.5, 0.95), (1.0, 4.0, 0.0)])
def test_kernels_between_different_variances(function: str, derivative: bool, a: float, b: float, cosine: float) -> None:
    c = cosine * sqrt(a * b)
    found = kernel_between(activation(function), np.array([[c]]), (np.array([a]), np.array([b])), derivative)
    assert float(found[0, 0]) == pytest.approx(_by_quadrature(function, derivative, a, b, c), abs=2e-8)


@settings(deadline=None)
@given(st.floats(0.1, 1e6), st.floats(0.1, 1e6), st.floats(-0.999, 0.999))
def test_gelus_kernel_at_large_variance_is_between_its_homogeneous_limits(a: float, b: float, cosine: float) -> None:
    """GELU tends to ReLU, and its slopes to the step: Cho & Saul's arc-cosine kernels, to order 1/√variance."""
    variances = np.array([a]), np.array([b])
    moments = np.array([[cosine * sqrt(a * b)]])
    for derivative in (False, True):
        mine, limit = (float(kernel_between(activation(n), moments, variances, derivative)[0, 0]) for n in ("gelu", "relu"))
        scale = 1.0 if derivative else sqrt(a * b)
        assert abs(mine - limit) / scale <= 1.0 / sqrt(min(a, b)) + 1e-12


@pytest.mark.parametrize("function", ["relu", "gelu", "silu", "tanh"])
def test_kernels_between_a_set_and_itself_are_the_square_ones(function: str) -> None:
    x = np.random.default_rng(3).normal(size=(5, 9))
    moments = x @ x.T / 9
    variances = np.diagonal(moments)
    for derivative, kernel in ((False, value_kernel), (True, slope_kernel)):
        between = kernel_between(activation(function), moments[:2], (variances[:2], variances), derivative)
        np.testing.assert_allclose(between, kernel(activation(function), moments)[:2], rtol=1e-9, atol=2e-9)


def _predict(variant: Variant, sublayers: str, depth: int, name: str = GRADIENT, **axes: int) -> np.ndarray:
    return quantity(name).predicted(Configuration(variant, tuple(sublayers.split(",")), depth, **axes))


@pytest.mark.parametrize("depth", [1, 7, 48])
def test_the_recursion_of_a_linear_loop_is_the_central_binomial_coefficient(depth: int) -> None:
    variant = registry()["looped-residual"]
    expected = [float(comb(2 * m, m)) for m in range(depth, -1, -1)]
    np.testing.assert_allclose(_predict(variant, "linear", depth), expected, rtol=1e-12)
    np.testing.assert_allclose(_predict(variant, "linear", depth, "stream-moment"), expected[::-1], rtol=1e-12)


@pytest.mark.parametrize("sublayers", ["linear", "relu", "gelu", "tanh"])
def test_without_a_shortcut_one_use_or_fresh_weights_are_the_same(sublayers: str) -> None:
    """One application is reached on one way only, tied or not."""
    loop, fresh = registry()["looped-no-residual"], registry()["no-residual"]
    for name in (GRADIENT, "stream-moment"):
        expected = quantity(name).predicted(Configuration(fresh, (sublayers,), 20), (), True)
        np.testing.assert_allclose(_predict(loop, sublayers, 20, name), expected, rtol=1e-9)


@pytest.mark.parametrize("name", ["post-ln", "pre-ln", "residual", "hyper-connections", "dynamic-tanh"])
def test_a_single_block_is_the_same_tied_or_not(name: str) -> None:
    for of in (GRADIENT, "stream-moment", "parameter-gradient"):
        fresh = quantity(of).predicted(Configuration(registry()[name], ("gelu",), 1, tokens=2), (), True)
        np.testing.assert_allclose(_predict(tied(name), "gelu", 1, of, tokens=2), fresh, rtol=1e-9)


def _symmetric_sum(sizes: list[float], k: int) -> float:
    return sum(float(np.prod(part)) for part in combinations(sizes, k))


def test_looped_pre_ln_has_elementary_symmetric_sums() -> None:
    """Σ_k κ^2k e_k² by listing all subsets of blocks; behind the final norm the input's squared gradient is 1 exactly."""
    depth = 9
    variant = registry()["looped-pre-ln"]
    moments, gradients = (_predict(variant, "linear", depth, name) for name in ("stream-moment", GRADIENT))
    sizes = [1 / sqrt(q) for q in moments[:-1]]
    for layer in range(depth + 1):
        above = sizes[layer:]
        expected = sum(_symmetric_sum(above, k) ** 2 for k in range(len(above) + 1)) / moments[-1]
        assert gradients[layer] == pytest.approx(expected, rel=1e-11)
    assert gradients[0] == pytest.approx(1.0, rel=1e-12)


def test_looped_pre_ln_grows_as_the_depth_squared() -> None:
    """q_l → κ² l², in the forward recursion; with fresh weights q_l = 1 + l."""
    moments = _predict(registry()["looped-pre-ln"], "linear", 400, "stream-moment")
    ratios = moments[[100, 200, 400]] / np.array([100, 200, 400]) ** 2
    assert np.all(np.diff(ratios) > 0) and 0.85 < ratios[-1] < 1.0


SIMULATED = {
    "looped-residual": registry()["looped-residual"],
    "looped-no-residual": registry()["looped-no-residual"],
    "looped-pre-ln": registry()["looped-pre-ln"],
    "two streams": tied("residual"),
    "streams that read each other": tied("hyper-connections"),
    "cases by block": tied("mix-ln"),
    "norm on the branch": tied("peri-ln"),
    "pointwise": tied("dynamic-tanh"),
    "a number set by the forward pass": tied("admin"),
}


# tanh(W a) leaves no Gaussian streams where weights are shared, and a pointwise function's moments are taken of Gaussian ones.
CASES = [(kind, name) for kind in SIMULATED for name in ("relu", "tanh") if (kind, name) != ("pointwise", "tanh")]


@pytest.mark.parametrize(("kind", "sublayers"), CASES)
def test_the_recursion_is_what_networks_do(kind: str, sublayers: str) -> None:
    """Four blocks of width 384: every layer's mean over networks within 3.5 standard errors and what is of order 4²/d."""
    configuration = Configuration(SIMULATED[kind], (sublayers,), 4, 384, 2)
    readings = measure(Cell(configuration, dtype="float32", seed=7), range(64), CPU)
    for name in (GRADIENT, "stream-moment", "parameter-gradient"):
        ratio = readings.values[name] / _predict(SIMULATED[kind], sublayers, 4, name, width=384, tokens=2)
        error = ratio.std(axis=0, ddof=1) / 8
        assert np.all(np.abs(ratio.mean(axis=0) - 1) < 3.5 * error + 16 / 384), (name, ratio.mean(axis=0), error)


@pytest.mark.parametrize("causal", [False, True])
def test_the_recursion_with_attention_is_what_networks_do(causal: bool) -> None:
    """Six blocks, eight tokens of width 256: terms of order n/d and L²/d, 3 % and 14 %, are left out."""
    configuration = Configuration(registry()["looped-pre-ln"], ("attention", "gelu"), 6, 256, 8, causal=causal)
    readings = measure(Cell(configuration, dtype="float32", seed=8), range(96), CPU)
    for name, tolerance in ((GRADIENT, 0.08), ("stream-moment", 0.03)):
        mean, law = readings.values[name].mean(axis=0), quantity(name).predicted(configuration)
        error = readings.values[name].std(axis=0, ddof=1) / sqrt(96) / law
        assert np.all(np.abs(mean / law - 1) < 3 * error + tolerance), mean / law
        if name == GRADIENT:  # a control: fresh weights are far off
            fresh = quantity(name).predicted(replace(configuration, variant=registry()["pre-ln"]))
            assert mean[2] / fresh[2] < 0.75
    cosines = quantity("token-cosine").predicted(configuration)
    np.testing.assert_allclose(readings.values["token-cosine"].mean(axis=0), cosines, atol=0.015)


def _brute_force(a: np.ndarray, b: np.ndarray, c: np.ndarray, gradient: np.ndarray, v: dict[str, float]) -> np.ndarray:
    """E (J_Fᵀδ)(J'_Fᵀδ')ᵀ between two applications at given patterns, written out entry by entry."""
    n = len(a)
    scores = np.zeros((n, n, n, n))  # E P_ij P'_i'k
    ac, cb, acb = a @ c, c @ b.T, a @ c @ b.T
    for i, j, p, k in np.ndindex(n, n, n, n):
        scores[i, j, p, k] = a[i, j] * b[p, k] * gradient[i, p] * (c[j, k] - ac[i, k] - cb[j, p] + acb[i, p])
    queries, keys = np.einsum("ijpk,jk->ip", scores, c), np.einsum("ijpk,ip->jk", scores, v["WQ"] * c)
    values = np.einsum("ij,ip,pk->jk", a, gradient, b)
    return v["WV"] * v["WO"] * (values + v["WQ"] * v["WK"] * queries + v["WK"] * keys)


def test_attention_between_two_applications_against_sums_written_out() -> None:
    rng = np.random.default_rng(0)
    v = {"WQ": 1.3, "WK": 0.7, "WV": 0.9, "WO": 1.1}
    x = rng.normal(size=(6, 20))
    moments = x @ x.T / 20
    attention = SharedAttention(Weights(v), 4, False, 1, np.random.default_rng(1))
    attention.add(moments[:3, :3], np.zeros((3, 0)))
    between, _ = attention.add(moments[3:, 3:], moments[3:, :3])
    a, b = (patterns[0] for patterns in attention._patterns)
    np.testing.assert_allclose(between, v["WV"] * v["WO"] * (b @ moments[3:, :3] @ a.T), rtol=1e-12)
    gradients = rng.normal(size=(6, 6))
    gradients = gradients @ gradients.T
    after, own = attention.backward(0, gradients[:3, :3], gradients[:3, 3:])
    np.testing.assert_allclose(after, _brute_force(a, b, moments[:3, 3:], gradients[:3, 3:], v), rtol=1e-11)
    np.testing.assert_allclose(own, _brute_force(a, a, moments[:3, :3], gradients[:3, :3], v), rtol=1e-11)
    # With itself it is the algebra of a sublayer whose weights are fresh.
    alone = Patterns(a[None], moments[None, :3, :3], v["WQ"] * moments[:3, :3], moments[:3, :3])
    through = alone.values(gradients[:3, :3]) + v["WQ"] * v["WK"] * alone.at_queries(gradients[:3, :3])
    through = v["WV"] * v["WO"] * (through + v["WK"] * alone.at_keys(gradients[:3, :3]))
    np.testing.assert_allclose(own, through[0], rtol=1e-11)


def test_one_attention_of_a_loop_is_the_usual_one() -> None:
    """Its quadrature draws other points: equal up to their number."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(6, 30))
    x *= sqrt(30) / np.linalg.norm(x, axis=1)[:, None]
    moments, weights = x @ x.T / 30, Weights(dict.fromkeys(("WQ", "WK", "WV", "WO"), 1.0))
    usual = sublayer("attention").apply(moments, weights, Surroundings(head_width=4096, generator=np.random.default_rng(3)))
    shared = SharedAttention(weights, 512, False, 2048, np.random.default_rng(4))
    _, output = shared.add(moments, np.zeros((6, 0)))
    _, gradient = shared.backward(0, np.eye(6), np.zeros((6, 0)))
    np.testing.assert_allclose(np.trace(output), np.trace(usual.output), rtol=0.01)
    np.testing.assert_allclose(np.trace(gradient), np.trace(usual.backward(np.eye(6))), rtol=0.02)


def _ways(blocks: int, kappa: sympy.Rational) -> sympy.Expr:
    """Σ over pairs of sets of blocks in which the branch is taken, equal in number: κ^2 each, counted one by one."""
    sets = [part for k in range(blocks + 1) for part in combinations(range(blocks), k)]
    return sum((kappa ** len(one) for one in sets for other in sets if len(one) == len(other)), start=sympy.Integer(0))


@pytest.mark.parametrize("blocks", [0, 1, 2, 5])
def test_the_law_counts_pairs_of_ways(blocks: int) -> None:
    kappa = sympy.Rational(2, 7)
    assert derive_tied(registry()["looped-residual"]).at(blocks, kappa) == _ways(blocks, kappa)


@settings(deadline=None)
@given(st.integers(0, 8), st.fractions(0, 3, max_denominator=9), st.fractions(0, 3, max_denominator=9))
def test_the_exact_recursion_is_the_sum_of_squared_binomials(count: int, a: sympy.Rational, b: sympy.Rational) -> None:
    direct, branch = sympy.Rational(a), sympy.Rational(b)
    terms = (sympy.binomial(count, k) ** 2 * direct ** (2 * (count - k)) * branch**k for k in range(count + 1))
    assert recursion(direct, branch, count) == sum(terms, start=sympy.Integer(0))


def test_the_class_of_the_law_is_what_its_terms_do() -> None:
    """(1 + κ)^(2m+1)/(2√(πmκ)), term by term at m = 2,000."""
    law, m = derive_tied(registry()["looped-residual"]), 2000
    for root in (sympy.Rational(1, 7), sympy.Integer(1)):
        kappa, k = float(root), np.arange(m + 1)
        binomials = gammaln(m + 1) - gammaln(k + 1) - gammaln(m - k + 1)
        exact = np.logaddexp.reduce(2 * binomials + 2 * k * np.log(kappa))
        approximate = (2 * m + 1) * np.log(1 + kappa) - np.log(2 * sqrt(pi * m * kappa))
        assert exact == pytest.approx(approximate, abs=2e-2)
        rate = law.growth.rate.subs({symbol: root**2 for symbol in law.growth.rate.free_symbols})
        assert sympy.simplify(rate - (1 + root) ** 2) == 0 and law.growth.exponent == -sympy.Rational(1, 2)


def test_constants_stay_in_the_law() -> None:
    """½·x + 3·F(x): a² = ¼, b² = 9."""
    x = Stream("x")
    law = derive_tied(Variant(name="scaled", update=sympy.Rational(1, 2) * x + 3 * F(x), tied=True, source="here"))
    assert (law.direct, law.branch / 9) == (sympy.Rational(1, 4), derive_tied(registry()["looped-residual"]).branch)
    assert law.at(2, sympy.Integer(1)) == sympy.Rational(1, 16) + 4 * sympy.Rational(9, 4) + 81


def test_without_a_shortcut_the_law_is_the_one_of_fresh_weights() -> None:
    law = derive_tied(registry()["looped-no-residual"])
    assert law.gain == law.fresh and law.growth.exponent == 0


def test_variants_without_a_sum_say_why() -> None:
    for name, reason in (("post-ln", "a norm follows"), ("residual", "several streams")):
        with pytest.raises(NoClosedForm, match=reason):
            derive_tied(tied(name))
        assert any(step.title == "No closed form" and reason in step.reason for step in tied_steps(tied(name), ()))


def test_the_homogeneous_streams_rate_tends_to_the_linear_one() -> None:
    """ReLU, κ² = ½: (1 + κ)², in place of 1 + κ²."""
    moments = _predict(registry()["looped-residual"], "relu", 200, "stream-moment")
    assert moments[-1] / moments[-2] == pytest.approx((1 + sqrt(0.5)) ** 2, rel=1e-3)


@lru_cache(maxsize=4)
def _looped_readings(width: int) -> dict[str, np.ndarray]:
    of = sweep("looped-residual", "relu", SHALLOW, PROFILES["quick"], width)
    return Ensemble(of.cells[of.deepest], CPU).extend(512).values


def test_the_law_of_fresh_weights_is_refuted_on_a_loop() -> None:
    """The claims' own check, with the law of residual-only in place of the loop's, and with its own."""
    sweeps = [sweep("looped-residual", "relu", SHALLOW, PROFILES["quick"], width) for width in WIDTHS]
    check = follows_law_in_the_limit(sweeps, GRADIENT, 0.1)
    samples = {of.deepest: _looped_readings(of.width) for of in sweeps}
    assert check.verdict(estimate(check.statistic, samples)) is not Verdict.REFUTED
    labels = [(of.width, of.deepest) for of in sweeps]
    fresh = replace(sweeps[0], variant="residual-only").predicted(GRADIENT, SHALLOW)
    wrong = replace(check, statistic=log_relative_at_infinite_width(labels, GRADIENT, fresh))
    assert wrong.verdict(estimate(wrong.statistic, samples)) is Verdict.REFUTED


def test_extrapolation_to_infinite_width_takes_out_what_is_proportional_to_one_over_width() -> None:
    law, true = np.array([2.0, 3.0]), np.array([2.2, 3.0])
    means = {str(width): {"q": true * np.exp(np.array([5.0, -7.0]) / width)} for width in (64, 128)}
    found = log_relative_at_infinite_width([(64, "64"), (128, "128")], "q", law)(means)
    np.testing.assert_allclose(found, np.log(true / law), atol=1e-12)
    np.testing.assert_allclose(log_relative("64", "q", law)(means), np.log(true / law) + np.array([5.0, -7.0]) / 64)


COMMANDS = {"empirical": empirical.__main__.main, "theory": theory.__main__.main}


REFUSED = {
    "matrix-free engine": (("empirical", "measure", "looped-residual", "--engine", "matrix-free"), "use --engine dense"),
    "measured sum over uses": (
        ("empirical", "measure", "looped-residual", "--quantity", "output-sensitivity"),
        "the blocks of looped-residual share theirs",
    ),
    "measured update": (("empirical", "measure", "looped-pre-ln", "--quantity", "sgd-update"), "share theirs"),
    "predicted sum over uses": (("theory", "predict", "looped-pre-ln", "--quantity", "output-sensitivity"), "share theirs"),
    "predicted update": (("theory", "predict", "looped-residual", "--quantity", "adam-update"), "share theirs"),
    "worst case": (("theory", "predict", "looped-residual", "--quantity", "operator-norm"), "with fresh weights"),
    "too large": (
        ("theory", "predict", "looped-pre-ln", "--sublayers", "attention,gelu", "--depth", "300", "--tokens", "16"),
        "600 applications of 16 tokens are more than the 4096 that fit",
    ),
    "overflow": (("theory", "predict", "looped-residual", "--depth", "150", "--gain", "1e4"), "overflows at depth 150"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_shared_weights_rule_out_is_refused_in_one_line(
    what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (package, *arguments), hint = REFUSED[what]
    monkeypatch.setattr(sys, "argv", [package, *arguments])
    assert leave_in_one_line(COMMANDS[package]) == 2
    message = capsys.readouterr().err
    assert hint in message and message.count("\n") == 1


def test_norms_inside_a_shared_sublayer_are_refused() -> None:
    x = Stream("x")
    variant = Variant(name="inner", update=x + F(x, query=LN), tied=True, source="here")
    with pytest.raises(InvalidInput, match="norms inside a sublayer whose weights all blocks share"):
        _predict(variant, "attention", 2)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("predict", "looped-residual", "--sublayers", "linear", "--depth", "5", "--json"), '"mean": 252.0'),
        (("derive", "looped-residual"), "G(m) = Sum(κ²^k·binomial(m, k)^2, (k, 0, m))"),
        (("derive", "looped-pre-ln", "--sublayers", "attention,gelu"), "several sublayers a block"),
    ],
)
def test_the_command_line_answers(
    arguments: tuple[str, ...], hint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["theory", *arguments])
    assert leave_in_one_line(theory.__main__.main) == 0
    assert hint in capsys.readouterr().out


@pytest.mark.parametrize("branch", ["linear", "relu", "gelu", "tanh"])
@pytest.mark.parametrize("name", LOOPED)
def test_the_derivation_ends_in_a_class_and_numbers(name: str, branch: str) -> None:
    titles = [step.title for step in derivation(registry()[name], (sublayer(branch),))]
    needed = ["Equation", "Model", "Powers of one matrix", "Law, linear sublayer", "Asymptotic class", f"Numbers for {branch}"]
    assert [title for title in titles if title in needed] == needed
