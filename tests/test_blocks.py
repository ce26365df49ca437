"""Stacks built from expressions against the same networks written in plain torch, with the same matrices and biases."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn
from torch.nn import functional

import theory.variants
from empirical.blocks import forward
from empirical.draws import Draws
from empirical.layers import RandomLinear
from empirical.measurement import DTYPES
from empirical.sublayers import ACTIVATIONS, SublayerApplication
from tests.plain import PLAIN, Branch, layer_norm, plain_stack
from theory.algebra import LN, F, Stream, Variant
from theory.configuration import Configuration
from theory.initialisations import INITIALISATIONS, Initialisation
from theory.registry import collect
from theory.sublayers import sublayer
from theory.variants import registry

Tensor = torch.Tensor
MEMBERS, TOKENS, WIDTH, DEPTH = 2, 3, 8, 3


class Fixed:
    """Stands in for `RandomLinear`: keeps matrices and biases, so that a second network can use them."""

    def __init__(self, seed: int = 0) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.matrices: dict[tuple[int, int, str], Tensor] = {}
        self.biases: dict[tuple[int, int, str], Tensor] = {}
        self.variances: dict[tuple[int, int, str], float] = {}

    def __call__(
        self, key: tuple[int, int, str], x: Tensor, fan_out: int, variance: float, bias: float = 0.0, uniform: bool = False
    ) -> Tensor:
        std = (variance / x.shape[-1]) ** 0.5
        if key not in self.matrices:
            self.matrices[key] = std * self._normal(x.shape[-1], fan_out)
            if bias:
                self.biases[key] = bias**0.5 * self._normal(1, fan_out)
        self.variances[key] = variance
        return self.plain(key, x)

    def plain(self, key: tuple[int, int, str], x: Tensor, part: slice = slice(None)) -> Tensor:
        """x W + b, or some columns of it, with what was drawn."""
        product = x @ self.matrices[key][..., part]
        return product + self.biases[key][..., part] if key in self.biases else product

    def _normal(self, *shape: int) -> Tensor:
        return torch.randn((MEMBERS, *shape), dtype=torch.float64, generator=self.generator)


@pytest.fixture
def every_bias(monkeypatch: pytest.MonkeyPatch) -> str:
    """An initialisation under which every matrix has a bias of the size of its output."""
    preset = Initialisation("every-bias", "here", lambda place: 1.0, lambda place: 0.5)
    monkeypatch.setitem(INITIALISATIONS, preset.name, preset)
    return preset.name


def test_every_variant_of_this_repository_has_a_plain_counterpart() -> None:
    assert {v.name for v in collect(sys.modules[theory.variants.__name__], "VARIANT")} == set(PLAIN)


@pytest.mark.parametrize(("sublayers", "causal"), [(("linear",), False), (("relu",), False), (("attention", "gelu"), True)])
@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("init", ["fan-in", "torch-linear", "every-bias"])
@pytest.mark.usefixtures("every_bias")
def test_a_stack_equals_the_plain_network(init: str, name: str, sublayers: tuple[str, ...], causal: bool) -> None:
    cell = Configuration(registry()[name], sublayers, DEPTH, WIDTH, TOKENS, heads=2, causal=causal, expansion=2, init=init)
    weights, generator = Fixed(), torch.Generator().manual_seed(5)
    inputs, upstream = (torch.randn(MEMBERS, TOKENS, WIDTH, dtype=torch.float64, generator=generator) for _ in range(2))
    built = forward(cell, inputs.requires_grad_(), weights)  # type: ignore[arg-type]
    gradients = torch.autograd.grad((built.output * upstream).sum(), [s["x"] for s in built.streams])
    assert set(weights.biases) == (set() if init == "fan-in" else set(weights.matrices))
    streams, output = plain_stack(name, sublayers, DEPTH, inputs, weights, causal)
    torch.testing.assert_close(built.output, output, rtol=1e-9, atol=1e-11)
    for layer, plain in zip(built.streams, streams, strict=True):
        torch.testing.assert_close(layer, plain, rtol=1e-9, atol=1e-11)
    expected = torch.autograd.grad((output * upstream).sum(), [s["x"] for s in streams])
    for mine, theirs in zip(gradients, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-8, atol=1e-11)
    branch = [v for (_, _, matrix), v in weights.variances.items() if matrix not in ("WQ", "WK")]
    fan_in = init == "fan-in"
    assert not fan_in or branch == pytest.approx([PLAIN[name].gain(DEPTH) ** 2] * len(branch), rel=1e-12)


def _torchs_layer(weights: Fixed, layer: int, member: int, pre_norm: bool) -> nn.TransformerEncoderLayer:
    """torch's encoder layer with one member's matrices and biases of one block."""
    built = nn.TransformerEncoderLayer(WIDTH, 2, 2 * WIDTH, 0.0, "gelu", 0.0, True, pre_norm, dtype=torch.float64)
    attention, w, b = built.self_attn, weights.matrices, weights.biases
    for module, names, prefix in (
        (attention, ("WQ", "WK", "WV"), "in_proj_"),
        (attention.out_proj, ("WO",), ""),
        (built.linear1, ("W1",), ""),
        (built.linear2, ("W2",), ""),
    ):
        keys = [(layer, 0 if module in (attention, attention.out_proj) else 1, name) for name in names]
        getattr(module, prefix + "weight").data = torch.cat([w[key][member] for key in keys], 1).T.contiguous()
        getattr(module, prefix + "bias").data = torch.cat([b[key][member, 0] for key in keys])
    return built


@pytest.mark.parametrize(("name", "pre_norm"), [("post-ln", False), ("pre-ln", True)])
def test_a_stack_equals_torchs_encoder_layers(name: str, pre_norm: bool, every_bias: str) -> None:
    """With the same matrices and a bias everywhere."""
    cell = Configuration(registry()[name], ("attention", "gelu"), DEPTH, WIDTH, TOKENS, heads=2, expansion=2, init=every_bias)
    weights = Fixed()
    inputs = torch.randn(MEMBERS, TOKENS, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(9))
    built = forward(cell, inputs, weights)  # type: ignore[arg-type]
    for member in range(MEMBERS):
        x = inputs[member : member + 1]
        for layer in range(1, DEPTH + 1):
            x = _torchs_layer(weights, layer, member, pre_norm)(x)
        torch.testing.assert_close(built.streams[-1]["x"][member], x[0], rtol=1e-9, atol=1e-11)


def test_residuals_stream_gradient_is_that_of_the_post_ln_stream_alone() -> None:
    """ResiDual by finite differences: moving x_l with r_l held fixed."""
    cell = Configuration(registry()["residual"], ("gelu",), DEPTH, WIDTH, TOKENS, heads=2)
    weights, generator = Fixed(), torch.Generator().manual_seed(6)
    shape = (MEMBERS, TOKENS, WIDTH)
    inputs, upstream, direction = (torch.randn(shape, dtype=torch.float64, generator=generator) for _ in range(3))
    built = forward(cell, inputs.requires_grad_(), weights)  # type: ignore[arg-type]
    gradients = torch.autograd.grad((built.output * upstream).sum(), [s["x"] for s in built.streams])

    @torch.no_grad()
    def loss(start: int, step: float) -> float:
        x, r = built.streams[start]["x"] + step * direction, built.streams[start]["r"]
        for layer in range(start + 1, DEPTH + 1):
            f = Branch("gelu", layer, 1, 1, weights)
            x, r = layer_norm(x + f(x)), r + f(x)
        return float(((x + layer_norm(r)) * upstream).sum())

    for start in range(DEPTH + 1):
        expected = (loss(start, 1e-5) - loss(start, -1e-5)) / 2e-5
        assert float((gradients[start] * direction).sum()) == pytest.approx(expected, rel=1e-6)


def test_deepnorms_gain_scales_the_branch_but_not_queries_and_keys() -> None:
    """Wang et al. 2022: FFN, value and output projections by β = (8L)^(-1/4); so variances by β²."""
    weights = Fixed()
    cell = Configuration(registry()["deepnorm"], ("attention", "relu"), DEPTH, WIDTH, TOKENS, heads=2)
    forward(cell, torch.randn(MEMBERS, TOKENS, WIDTH, dtype=torch.float64), weights)  # type: ignore[arg-type]
    beta_squared = (8 * DEPTH) ** -0.5
    for (_, _, matrix), variance in weights.variances.items():
        assert variance == pytest.approx(1.0 if matrix in ("WQ", "WK") else beta_squared, rel=1e-12)


def test_an_update_applies_its_branch_once_a_step() -> None:
    """A branch that feeds two streams is one application: 3 blocks of one linear sublayer draw 3 matrices."""
    weights = Fixed()
    cell = Configuration(registry()["residual"], ("linear",), DEPTH, WIDTH, TOKENS)
    forward(cell, torch.randn(MEMBERS, TOKENS, WIDTH, dtype=torch.float64), weights)  # type: ignore[arg-type]
    assert sorted(weights.matrices) == [(layer, 0, "W") for layer in range(1, DEPTH + 1)]


def _jacobian(name: str, weights: Fixed, x: Tensor) -> Tensor:
    """Jacobian (out, in) of one block without read-out, for member 0."""
    cell = Configuration(registry()[name], ("relu",), 1, WIDTH, 1)

    def block(v: Tensor) -> Tensor:
        return forward(cell, v.expand(MEMBERS, 1, WIDTH), weights).streams[1]["x"][0, 0]  # type: ignore[arg-type]

    return torch.autograd.functional.jacobian(block, x)


def test_a_residual_blocks_jacobian_is_one_plus_the_branchs() -> None:
    """J = 1 + J_F, with J_F = W₂ᵀ D W₁ᵀ (times the norm's Jacobian for Pre-LN), to rounding."""
    x = torch.randn(WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    for name, normed in (("residual-only", False), ("pre-ln", True)):
        weights = Fixed()
        found = _jacobian(name, weights, x)
        first, second = (weights.matrices[1, 0, m][0] for m in ("W1", "W2"))
        argument = layer_norm(x) if normed else x
        gates = (argument @ first > 0).double()
        branch = second.T @ (gates[:, None] * first.T)
        if normed:
            branch = branch @ torch.autograd.functional.jacobian(layer_norm, x)
        torch.testing.assert_close(found, torch.eye(WIDTH, dtype=torch.float64) + branch, rtol=1e-12, atol=1e-13)


def test_a_post_ln_blocks_jacobian_is_the_norms_times_one_plus_the_branchs() -> None:
    x = torch.randn(WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    weights = Fixed()
    found = _jacobian("post-ln", weights, x)
    inner = _jacobian("residual-only", weights, x)
    first, second = (weights.matrices[1, 0, m][0] for m in ("W1", "W2"))
    outer = torch.autograd.functional.jacobian(layer_norm, x + (x @ first).relu() @ second)
    torch.testing.assert_close(found, outer @ inner, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("causal", [True, False])
def test_attention_equals_torchs(causal: bool, heads: int) -> None:
    weights = Fixed()
    cell = Configuration(registry()["pre-ln"], ("attention",), 1, WIDTH, TOKENS, heads, causal)
    x = torch.randn(MEMBERS, TOKENS, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    found = SublayerApplication(cell, sublayer("attention"), (1, 0), weights)(x)  # type: ignore[arg-type]
    q, k, v = (
        (x @ weights.matrices[1, 0, m]).view(MEMBERS, TOKENS, heads, WIDTH // heads).transpose(1, 2) for m in ("WQ", "WK", "WV")
    )
    mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).reshape(MEMBERS, TOKENS, WIDTH)
    torch.testing.assert_close(found, mixed @ weights.matrices[1, 0, "WO"], rtol=1e-10, atol=1e-12)


def test_activations_are_the_theorys() -> None:
    """The torch activation and the numpy one that the moments integrate are one function."""
    u = torch.linspace(-6, 6, 101, dtype=torch.float64, requires_grad=True)
    for name, function in ACTIVATIONS.items():
        values = function(u)
        (slopes,) = torch.autograd.grad(values.sum(), u, retain_graph=True)
        mine = sublayer(name).activation  # type: ignore[attr-defined]
        away = u.detach() != 0  # a kink has no slope
        expected = [torch.from_numpy(f(u.detach().numpy())) for f in (mine.value, mine.derivative)]
        torch.testing.assert_close(values.detach(), expected[0], rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(slopes[away], expected[1][away], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("name", ["post-ln", "pre-ln", "residual"])
def test_low_precision_runs_and_stays_near_float64(name: str, dtype: str) -> None:
    cell = Configuration(registry()[name], ("attention", "gelu"), DEPTH, 32, 4)
    outputs = {}
    for which in ("float64", dtype):
        draws = Draws(0, range(2), torch.device("cpu"), DTYPES[which])
        outputs[which] = forward(cell, draws.normal("inputs", 4, 32), RandomLinear(draws, "dense")).output
    assert outputs[dtype].dtype == DTYPES[dtype]
    error = (outputs[dtype].double() - outputs["float64"]).norm() / outputs["float64"].norm()
    assert 0 < float(error) < {"bfloat16": 0.05, "float32": 1e-5}[dtype]


def test_a_variant_of_ones_own_runs() -> None:
    x = Stream("x")
    peri = Variant(name="peri-ln", update=x + LN(F(LN(x))), read_out=LN(x), source="here")
    weights = Fixed()
    inputs = torch.randn(MEMBERS, TOKENS, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(8))
    built = forward(Configuration(peri, ("relu",), DEPTH, WIDTH, TOKENS), inputs, weights)  # type: ignore[arg-type]
    value = inputs
    for layer in range(1, DEPTH + 1):
        value = value + layer_norm(Branch("relu", layer, 1, 1, weights)(layer_norm(value)))
    torch.testing.assert_close(built.output, layer_norm(value), rtol=1e-11, atol=1e-12)
