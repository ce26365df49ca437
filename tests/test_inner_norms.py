"""Norms inside sublayers: theory's maps against exact numbers and simulated layers, torch blocks against plain torch."""

from __future__ import annotations

from math import pi, sqrt

import numpy as np
import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from empirical.ensemble import Ensemble
from empirical.layers import KnownLinear
from empirical.measurement import Cell
from empirical.sublayers import SublayerApplication
from theory.algebra import LN, RMS, Case, F, Stream, Variant
from theory.algebra.expression import Sublayer
from theory.configuration import Configuration
from theory.errors import InvalidInput, NoClosedForm
from theory.finite_width.paths import derived
from theory.laws.derivation import values_of
from theory.laws.law import derive
from theory.laws.sensitivity import sensitivity
from theory.quantities import quantity
from theory.sublayers import AppliedTokenWise, Attention, Surroundings, TokenWise, Weights, sublayer
from theory.variants import registry

x = Stream("x")
Tensor = torch.Tensor
ATTENTION = Attention()


def _exchangeable(tokens: int, moment: float, cosine: float) -> np.ndarray:
    return moment * ((1 - cosine) * np.eye(tokens) + cosine)


def _weights(name: str, **variances: float) -> Weights:
    return Weights({matrix.name: variances.get(matrix.name, 1.0) for matrix in sublayer(name).matrices})


def _applied(name: str, kind: str, moments: np.ndarray, **variances: float) -> AppliedTokenWise:
    maps = sublayer(name)
    assert isinstance(maps, TokenWise)
    return maps.apply(moments, _weights(name, **variances), Surroundings(inner={"middle": kind}))


# Token-wise sublayers.


def test_a_normalised_relu_layer_has_batch_normalisations_rate() -> None:
    """κ²/s² = π/(π − 1), Yang et al. 2019's rate of ReLU with batch norm as second-hand accounts give it: ½/(½ − 1/2π)."""
    applied = _applied("relu", "layer", np.eye(1))
    assert applied.output[0, 0] == pytest.approx(1.0, rel=1e-12)
    assert applied.backward(np.eye(1))[0, 0] == pytest.approx(pi / (pi - 1), rel=1e-12)
    exact = sublayer("relu").exact_moments({"middle": "layer"})
    assert exact is not None and exact[0] == 1 and sympy.simplify(exact[1] - sympy.pi / (sympy.pi - 1)) == 0
    assert sublayer("relu").exact_moments({"middle": "rms"}) == (1, 1)


@pytest.mark.parametrize("name", ["linear", "relu", "leaky-relu", "gelu", "silu", "tanh"])
@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_exact_numeric_and_applied_moments_agree(name: str, kind: str) -> None:
    maps, applied = sublayer(name), _applied(name, kind, np.eye(1))
    assert isinstance(maps, TokenWise)
    found = applied.output[0, 0], applied.backward(np.eye(1))[0, 0]
    assert found == pytest.approx(maps.numeric_moments({"middle": kind}), rel=1e-9)
    exact = maps.exact_moments({"middle": kind})
    if exact is not None:
        assert tuple(map(float, exact)) == pytest.approx(found, rel=1e-9)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(st.sampled_from(["relu", "linear"]), st.sampled_from(["layer", "rms"]), st.floats(0.1, 9), st.floats(-0.3, 0.95))
def test_a_norm_in_the_middle_takes_the_inputs_length_out(name: str, kind: str, length: float, cosine: float) -> None:
    """F(tx) = F(x) for homogeneous φ, so gradients go by 1/t²; W₁'s variance drops out of both, W₂'s is a factor."""
    moments, gradient = _exchangeable(3, 1.0, cosine), _exchangeable(3, 1.0, 0.4)
    plain, longer = _applied(name, kind, moments), _applied(name, kind, length * moments)
    np.testing.assert_allclose(longer.output, plain.output, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(length * longer.backward(gradient), plain.backward(gradient), rtol=1e-9)
    if name == "relu":
        scaled = _applied(name, kind, moments, W1=length, W2=0.7)
        np.testing.assert_allclose(scaled.output, 0.7 * plain.output, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(scaled.backward(gradient), 0.7 * plain.backward(gradient), rtol=1e-9)


def _normed(values: Tensor, kind: str | None) -> Tensor:
    if kind is None:
        return values
    if kind == "layer":
        values = values - values.mean(dim=-1, keepdim=True)
    return values / values.square().mean(dim=-1, keepdim=True).sqrt()


ACTIVATIONS = {"relu": torch.relu, "gelu": nn.functional.gelu, "silu": nn.functional.silu}


@pytest.mark.parametrize("name", list(ACTIVATIONS))
@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_token_wise_maps_are_those_of_simulated_layers(name: str, kind: str) -> None:
    """Fresh matrices at d = 768, three tokens of cosine 0.4 behind W₁ of gain 1.7: 160 networks, order 1/d left out."""
    draw, width, variance = torch.Generator().manual_seed(5), 768, 1.7
    c, upstream = _exchangeable(3, 1.0, 0.4), _exchangeable(3, 1.0, 0.2)
    roots = [torch.linalg.cholesky(torch.tensor(m, dtype=torch.float32)) for m in (c, upstream)]
    samples = []
    for _ in range(160):
        a, delta = (root @ torch.randn(3, width, generator=draw) for root in roots)
        a = (a / a.square().mean(dim=1, keepdim=True).sqrt()).requires_grad_()
        first, second = (torch.randn(width, width, generator=draw) / sqrt(width) for _ in range(2))
        first, second = (sqrt(variance) * first).requires_grad_(), second.requires_grad_()
        output = _normed(ACTIVATIONS[name](a @ first), kind) @ second
        below, *matrices = torch.autograd.grad((output * delta).sum(), [a, first, second])
        entries = [*(output @ output.mT / width).flatten(), *(below @ below.mT / width).flatten()]
        samples.append([float(entry.detach()) for entry in entries] + [float(m.square().sum()) / width**2 for m in matrices])
    found, error = np.mean(samples, axis=0), np.std(samples, axis=0) / sqrt(len(samples))
    applied = _applied(name, kind, c, W1=variance)
    squares = applied.parameter_gradients(upstream)
    law = [*applied.output.flatten(), *applied.backward(upstream).flatten(), squares["W1"], squares["W2"]]
    assert np.all(np.abs(found - law) < 4 * error + 0.01 * np.abs(law).max()), (found, law, error)


def test_networks_with_a_norm_in_the_middle_follow_the_prediction() -> None:
    """d = 64, where terms of order 1/d matter: 30 % at l = 0 of sub-ln, and the prediction has them."""
    for name, gap in (("sub-ln", 0.15), ("normformer", 0.15), ("hybridnorm", 0.1)):
        cell = Configuration(registry()[name], ("gelu",), depth=24, width=64, tokens=2)
        values = Ensemble(Cell(cell, engine="matrix-free", dtype="float32"), torch.device("cpu")).extend(1500).values
        for of in ("stream-gradient", "stream-moment", "parameter-gradient"):
            law, found = quantity(of).predicted(cell), values[of].mean(axis=0)
            error = values[of].std(axis=0) / sqrt(1500)
            assert np.all(np.abs(found - law) < 4 * error + 0.05 * law), (name, of, found / law)
        infinite = quantity("stream-gradient").predicted(cell, infinite_width=True)
        assert abs(values["stream-gradient"].mean(axis=0) / infinite - 1).max() > gap, name


def test_laws_of_sublayers_with_a_norm_in_the_middle() -> None:
    """Pre-LN's walk with s² = 1, κ² = π/(π − 1): E|∂𝓛/∂x_l|² ∝ L^{κ²−1} l^{−κ²}; Euler's substitution must not be made."""
    law = derive(registry()["normformer"])
    assert law.homogeneous == {}
    values = values_of(law, (sublayer("relu"),))
    assert values is not None
    rate = sympy.pi / (sympy.pi - 1)
    assert sympy.simplify(law.growth_in_layer(values).exponent + rate) == 0
    assert sympy.simplify(law.growth_in_depth(values).exponent - (rate - 1)) == 0
    cell = Configuration(registry()["normformer"], ("relu",), depth=12, width=64)
    predicted = quantity("stream-gradient").predicted(cell, infinite_width=True)
    q_0, layer, depth = sympy.Symbol("q_0", positive=True), *sympy.symbols("l L", integer=True, nonnegative=True)
    at = {q_0: 1, depth: 12} | values
    closed = [float(law.gradient.subs(at).subs(layer, index)) for index in range(13)]
    np.testing.assert_allclose(predicted, closed, rtol=1e-9)
    with pytest.raises(NoClosedForm, match="a norm inside the sublayer"):
        sensitivity(registry()["normformer"])


def test_a_raw_stream_into_a_normalised_sublayer_has_the_law_of_pre_ln() -> None:
    """x + F(x) with RMSNorm in the middle of W₂relu(W₁x): F(tx) = F(x), so q grows by s² = 1 and χ = 1 + κ²/q, κ² = 1."""
    raw = Variant("raw", x + F(x, middle=RMS), read_out=x, source="test")
    assert not derived(raw)
    cell = Configuration(raw, ("relu",), depth=6, width=32)
    np.testing.assert_allclose(quantity("stream-moment").predicted(cell), np.arange(1, 8), rtol=1e-12)
    np.testing.assert_allclose(quantity("stream-gradient").predicted(cell), 7 / np.arange(1, 8), rtol=1e-12)
    law = derive(raw)
    s, kappa = law.moments[0].square, law.moments[0].gain
    assert (
        sympy.simplify(
            law.stream.subs(s, 1) - (sympy.Symbol("q_0", positive=True) + sympy.Symbol("l", integer=True, nonnegative=True))
        )
        == 0
    )
    q = sympy.Symbol("q", positive=True)
    assert sympy.simplify(law.backward - (1 + kappa / q)) == 0


# Attention.

N, WIDTH, HEADS = 8, 64, 4
PLACES = {
    "qk-norm": {"query": "layer", "key": "layer"},
    "one of two": {"query": "layer"},
    "hybridnorm": {"query": "layer", "key": "layer", "value": "layer"},
    "sub-ln": {"middle": "layer"},
    "all, rms": dict.fromkeys(("query", "key", "value", "middle"), "rms"),
}


def _simulated(inner: dict[str, str], causal: bool, members: int) -> tuple[np.ndarray, np.ndarray]:
    """Traces and sums over pairs of output and gradient, then parameter gradients; W_Q and W_K of gain 2, so logits matter."""
    draw = torch.Generator().manual_seed(1)
    roots = [torch.linalg.cholesky(torch.tensor(_exchangeable(N, 1.0, c), dtype=torch.float32)) for c in (0.3, 0.2)]
    gains = {"WQ": 2.0, "WK": 2.0, "WV": 1.0, "WO": 1.0}
    samples = []
    for _ in range(members // 100):
        tokens, upstream = (root @ torch.randn(100, N, WIDTH, generator=draw) for root in roots)
        tokens = _normed(tokens, "rms").requires_grad_()
        w = {m: (sqrt(v / WIDTH) * torch.randn(100, WIDTH, WIDTH, generator=draw)).requires_grad_() for m, v in gains.items()}
        parts = [(tokens @ w[m]).unflatten(2, (HEADS, -1)).transpose(1, 2) for m in ("WQ", "WK", "WV")]
        q, k, v = (_normed(part, inner.get(place)) for part, place in zip(parts, ("query", "key", "value"), strict=True))
        read = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2)
        output = _normed(read, inner.get("middle")) @ w["WO"]
        below, *matrices = torch.autograd.grad((output * upstream).sum(), [tokens, *w.values()])
        sums = [
            part
            for t in (output, below)
            for own in [t.square().sum(dim=(1, 2)) / WIDTH]
            for part in (own, t.sum(dim=1).square().sum(dim=1) / WIDTH - own)
        ]
        sums += [m.square().sum(dim=(1, 2)) / WIDTH**2 for m in matrices]
        samples.append(torch.stack(sums, dim=1).detach().double().numpy())
    found = np.concatenate(samples)
    return found.mean(axis=0), found.std(axis=0) / sqrt(len(found))


def _sums(moments: np.ndarray) -> list[float]:
    return [float(np.trace(moments)), float(moments.sum() - np.trace(moments))]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", list(PLACES))
def test_attentions_maps_are_those_of_simulated_layers(name: str, causal: bool) -> None:
    """d = 64, d_h = 16: to 4 standard errors and 3 %; terms of order 1/d are 1.6 % here, and gradients between keys 1/d_h off.

    Without the divisions by a query's or value's own length the maps would be 7 to 14 % off at this d_h.
    """
    inner = PLACES[name]
    found, error = _simulated(inner, causal, 2000)
    around = Surroundings(causal, float(WIDTH), WIDTH // HEADS, True, 1, np.random.default_rng(3), inner, HEADS)
    maps = ATTENTION.apply(_exchangeable(N, 1.0, 0.3), _weights("attention", WQ=2.0, WK=2.0), around)
    upstream = _exchangeable(N, 1.0, 0.2)
    law = np.array([*_sums(maps.output), *_sums(maps.backward(upstream)), *maps.parameter_gradients(upstream).values()])
    assert np.all(np.abs(found - law) < 4 * error + 0.03 * np.abs(law)), (found / law, error / law)


@settings(deadline=None, derandomize=True, max_examples=10)
@given(st.floats(0.2, 3), st.floats(0.2, 3), st.booleans())
def test_gains_before_a_norm_drop_out(q: float, v: float, causal: bool) -> None:
    """With queries, keys and values normalised, W_Q, W_K and W_V have no scale; their gradients go by one over it."""
    gradient, inner = _exchangeable(4, 1.0, 0.2), PLACES["hybridnorm"]
    found, plain = (
        ATTENTION.apply(
            _exchangeable(4, 1.0, 0.3),
            _weights("attention", WQ=gains[0], WK=gains[0], WV=gains[1]),
            Surroundings(causal, 32.0, 8, depth=256, inner=inner),
        )
        for gains in ((q, v), (1.0, 1.0))
    )
    np.testing.assert_allclose(found.output, plain.output, rtol=1e-9)
    np.testing.assert_allclose(found.backward(gradient), plain.backward(gradient), rtol=1e-9)
    of_plain = plain.parameter_gradients(gradient)
    for name, value in found.parameter_gradients(gradient).items():
        assert value == pytest.approx(of_plain[name] / {"WQ": q, "WK": q, "WV": v, "WO": 1.0}[name], rel=1e-9)


def test_alike_tokens_behind_a_norm_are_read_as_one() -> None:
    """C = 1: whatever the pattern, values are one normalised vector; E d_h/|v|² = d_h/(e − 2) with e = d_h − 1 directions."""
    for inner, gain in ((PLACES["hybridnorm"], (15 - 1) / (15 - 2)), (PLACES["sub-ln"], 1.0), (PLACES["qk-norm"], 1.0)):
        around = Surroundings(head_width=16, depth=16, inner=inner, heads=4)
        maps = ATTENTION.apply(np.ones((5, 5)), _weights("attention"), around)
        np.testing.assert_allclose(maps.output, 1.0, rtol=1e-6)
        assert maps.backward(np.eye(5)).sum() == pytest.approx(5 * gain, rel=1e-5)


def test_heads_too_narrow_for_a_norm_are_refused() -> None:
    """LayerNorm over 3 coordinates leaves 2 directions, where E 1/|v|² is infinite."""
    for kind, width, least in (("layer", 3, 4), ("rms", 2, 3)):
        around = Surroundings(head_width=width, inner={"value": kind})
        with pytest.raises(InvalidInput, match=f"use heads of at least {least}"):
            ATTENTION.apply(np.eye(4), _weights("attention"), around)


@pytest.mark.parametrize("name", ["sub-ln", "normformer", "hybridnorm", "qk-norm"])
def test_transformers_of_the_field_follow_the_prediction(name: str) -> None:
    """Eight blocks of attention and GELU, d = 64: stream gradient and moment to 4 standard errors and 5 %."""
    cell = Configuration(registry()[name], ("attention", "gelu"), depth=8, width=WIDTH, tokens=N, heads=2)
    values = Ensemble(Cell(cell, engine="matrix-free", dtype="float32"), torch.device("cpu")).extend(300).values
    for of in ("stream-gradient", "stream-moment", "token-cosine"):
        law, found = quantity(of).predicted(cell), values[of].mean(axis=0)
        error = values[of].std(axis=0) / sqrt(300)
        assert np.all(np.abs(found - law) < 4 * error + 0.05 * np.abs(law)), (name, of, found / law, error / law)


# Torch.


@pytest.mark.parametrize("inner", list(PLACES.values()), ids=list(PLACES))
def test_gradients_of_torch_blocks_are_finite_differences_of_plain_torch(inner: dict[str, str]) -> None:
    """Attention with norms inside, head by head in loops of plain torch, differentiated by central differences."""
    width, tokens, heads = 8, 3, 2
    draw = torch.Generator().manual_seed(2)
    w = {name: torch.randn(1, width, width, dtype=torch.float64, generator=draw) for name in ("WQ", "WK", "WV", "WO")}
    at, direction, upstream = (torch.randn(1, tokens, width, dtype=torch.float64, generator=draw) for _ in range(3))

    def plain(a: Tensor) -> Tensor:
        parts = []
        for head in range(heads):
            columns = slice(head * width // heads, (head + 1) * width // heads)
            q, k, v = (
                _by_hand(a[0] @ w[m][0][:, columns], inner.get(p))
                for m, p in zip(("WQ", "WK", "WV"), ("query", "key", "value"), strict=True)
            )
            parts.append(torch.softmax(q @ k.T / 2.0, dim=1) @ v)
        return (_by_hand(torch.cat(parts, dim=1), inner.get("middle")) @ w["WO"][0])[None]

    variant = Variant("inner", x + F(x), read_out=x, source="test")
    configuration = Configuration(variant, ("attention",), depth=1, width=width, tokens=tokens, heads=heads)
    linear = KnownLinear({(1, 0, name): matrix for name, matrix in w.items()})
    block = SublayerApplication(configuration, ATTENTION, (1, 0), linear)
    node = Sublayer(x, tuple(inner.items()))  # type: ignore[arg-type]
    point = at.clone().requires_grad_()
    torch.testing.assert_close(block(point, node), plain(at), rtol=1e-10, atol=1e-12)
    (gradient,) = torch.autograd.grad((block(point, node) * upstream).sum(), [point])
    step = 1e-6
    ahead, behind = ((plain(at + sign * step * direction) * upstream).sum() for sign in (1, -1))
    assert float((gradient * direction).sum()) == pytest.approx(float(ahead - behind) / (2 * step), rel=1e-6)


def _by_hand(rows: Tensor, kind: str | None) -> Tensor:
    """LayerNorm by torch's own function; RMSNorm from the lengths."""
    if kind == "layer":
        return nn.functional.layer_norm(rows, rows.shape[-1:], eps=0.0)
    return rows if kind is None else sqrt(rows.shape[-1]) * rows / torch.linalg.vector_norm(rows, dim=-1, keepdim=True)


def test_which_variants_terms_of_order_one_over_width_are_derived_for() -> None:
    """Behind a norm, or with all of attention's output normalised; not where norms inside meet the stream's own length."""
    assert all(derived(registry()[name]) for name in ("sub-ln", "normformer", "hybridnorm", "qk-norm"))
    raw = [
        x + F(x, query=LN, key=LN),
        [Case(x + F(x, query=LN, key=LN, value=LN), sublayer="ffn"), Case(x + F(LN(x)))],
        LN(x) + F(x),
    ]
    for update in raw:
        assert not derived(Variant("raw", update, read_out=LN(x), source="test"))
