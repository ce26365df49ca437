"""Sensitivity and optimiser steps: probes against autograd, forward mode and real steps; theory against dense networks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from empirical.blocks import forward
from empirical.draws import Draws
from empirical.ensemble import Ensemble
from empirical.layers import RandomLinear, Tape
from empirical.measurement import Cell, device_named
from empirical.probes import PROBES
from empirical.probes.base import Observation
from empirical.updates import adam, sgd
from theory.configuration import Configuration
from theory.errors import InvalidInput
from theory.prediction import profile
from theory.quantities import quantity
from theory.sublayers import sublayer
from theory.updates.path import path
from theory.updates.signs import sign_steps
from theory.variants import load

Tensor = torch.Tensor
Key = tuple[int, int, str]
Weights = dict[Key, Tensor]
MEMBERS, CPU = 3, torch.device("cpu")


class Given:
    """Stands in for `RandomLinear`: draws each matrix once, or applies those that it is given."""

    def __init__(self, weights: Weights | None = None) -> None:
        self.weights: Weights = {} if weights is None else weights
        self.generator = torch.Generator().manual_seed(0)
        self.drawing = weights is None

    def __call__(self, key: Key, x: Tensor, fan_out: int, variance: float, bias: float = 0.0, uniform: bool = False) -> Tensor:
        assert not bias and not uniform
        if self.drawing:
            shape = (MEMBERS, x.shape[-1], fan_out)
            self.weights[key] = (variance / x.shape[-1]) ** 0.5 * torch.randn(
                shape, dtype=torch.float64, generator=self.generator
            )
        return x @ self.weights[key]


def _network(
    variant: str, sublayers: tuple[str, ...], tokens: int, width: int = 8, depth: int = 3
) -> tuple[Weights, Callable[[Weights], Tensor]]:
    configuration = Configuration(load(variant), sublayers, depth, width, tokens, heads=2)
    inputs = torch.randn((MEMBERS, tokens, width), dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    linear = Given()
    forward(configuration, inputs, linear)  # type: ignore[arg-type]
    return linear.weights, lambda weights: forward(configuration, inputs, Given(weights)).output  # type: ignore[arg-type]


NETWORKS = [
    ("post-ln", ("gelu",), 1),
    ("pre-ln", ("attention", "relu"), 3),
    ("deepnorm", ("tanh",), 2),
    ("residual", ("relu",), 2),
]
PROJECTIONS = {
    "sgd-update": (sgd, lambda gradient: -gradient),
    "adam-update": (adam, lambda gradient: -gradient.sign()),
}


def _gradients(output: Callable[[Weights], Tensor], weights: Weights, upstream: Tensor) -> Weights:
    leaves = {key: w.clone().requires_grad_() for key, w in weights.items()}
    return dict(zip(leaves, torch.autograd.grad((output(leaves) * upstream).sum(), list(leaves.values())), strict=True))


def _change(output: Callable[[Weights], Tensor], weights: Weights, step: Weights) -> Tensor:
    """d/dη y(W + ηU) by forward mode."""
    return torch.func.jvp(output, (weights,), (step,))[1]


@pytest.mark.parametrize("name", PROJECTIONS)
@pytest.mark.parametrize(("variant", "sublayers", "tokens"), NETWORKS)
def test_a_projected_update_is_forward_modes_and_a_small_real_steps(
    variant: str, sublayers: tuple[str, ...], tokens: int, name: str
) -> None:
    """w·δy from the factors of two backward passes = w·(jvp along −∂ or −sign ∂) = w·(y(W + ηU) − y(W))/η."""
    weights, output = _network(variant, sublayers, tokens)
    projection, direction = PROJECTIONS[name]
    generator = torch.Generator().manual_seed(2)
    v, w = (torch.randn((MEMBERS, tokens, 8), dtype=torch.float64, generator=generator) for _ in range(2))
    step = {key: direction(g) for key, g in _gradients(output, weights, v).items()}
    change = _change(output, weights, step)
    eta = 1e-6
    moved = output({key: weights[key] + eta * step[key] for key in weights})
    torch.testing.assert_close((moved - output(weights)) / eta, change, rtol=1e-3, atol=1e-3 * float(change.abs().max()))
    # The same from X and Δ, as the dense layers record them.
    configuration = Configuration(load(variant), sublayers, 3, 8, tokens, heads=2)
    factors = [_recorded(configuration, weights, upstream) for upstream in (v, w)]
    (inputs, deltas), (_, probes) = factors
    projected = sum(projection(inputs[key], deltas[key], probes[key]) for key in weights)
    torch.testing.assert_close(-projected, (w * change).sum(dim=(1, 2)), rtol=1e-8, atol=1e-8)


def _recorded(configuration: Configuration, weights: Weights, upstream: Tensor) -> tuple[Weights, Weights]:
    """What enters each matrix and the gradient at its output."""
    inputs: Weights = {}
    deltas: Weights = {}

    class Recording(Given):
        def __call__(
            self, key: Key, x: Tensor, fan_out: int, variance: float, bias: float = 0.0, uniform: bool = False
        ) -> Tensor:
            result = super().__call__(key, x, fan_out, variance, bias, uniform)
            inputs[key] = x.detach()
            result.register_hook(lambda g: deltas.update({key: g}))
            return result

    leaves = {key: value.clone().requires_grad_() for key, value in weights.items()}
    x = torch.randn(upstream.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    (forward(configuration, x, Recording(leaves)).output * upstream).sum().backward()  # type: ignore[arg-type]
    return inputs, deltas


@pytest.mark.parametrize("name", PROJECTIONS)
def test_the_probe_is_the_squared_change_of_the_blocks_above_each_layer(name: str) -> None:
    """Mean over many directions of the probe's rows = |jvp|²/(n·d) with the lower blocks held, within five standard errors."""
    cell = Cell(Configuration(load("pre-ln"), ("relu",), 3, 8, 2), extra=(name,), seed=5)
    draws = Draws(cell.seed, range(1), CPU, torch.float64)
    linear = RandomLinear(draws, "dense")
    weights: Weights = {}
    inputs, upstream = draws.normal("inputs", 2, 8).requires_grad_(), draws.normal("upstream", 2, 8)
    network = forward(cell.configuration, inputs, _keeping(linear, weights))  # type: ignore[arg-type]
    passes = []
    for direction in (upstream, *(draws.normal("upstream", 2, 8) for _ in range(2000))):
        linear.tape = Tape(factors={})
        torch.autograd.grad((network.output * direction).sum(), inputs, retain_graph=True)
        passes.append(linear.tape)
    rows = torch.stack(
        [
            PROBES[name].read(Observation(cell.configuration, network, (), passes[0], (direction,)))[0].detach()
            for direction in passes[1:]
        ]
    )

    def output(matrices: Weights) -> Tensor:
        return forward(cell.configuration, inputs.detach(), Given(matrices)).output  # type: ignore[arg-type]

    gradients = _gradients(output, weights, upstream)
    step = PROJECTIONS[name][1]
    for layer in range(4):
        moving = {key: step(g) if key[0] > layer else torch.zeros_like(g) for key, g in gradients.items()}
        expected = float(_change(output, weights, moving).square().mean())
        error = float(rows[:, layer].std()) / 2000**0.5
        assert abs(float(rows[:, layer].mean()) - expected) <= 5 * error + 1e-12
    assert bool((rows[:, 3] == 0).all())


def _keeping(linear: RandomLinear, weights: Weights) -> Callable[..., Tensor]:
    def apply(key: Key, x: Tensor, fan_out: int, variance: float, bias: float, uniform: bool) -> Tensor:
        result = linear(key, x, fan_out, variance, bias, uniform)
        weights[key] = result.grad_fn.saved_tensors[1]  # type: ignore[union-attr]
        return result

    return apply


@pytest.mark.parametrize(("variant", "sublayers", "tokens"), NETWORKS)
def test_sensitivity_by_gradients_is_the_change_under_independent_copies(
    variant: str, sublayers: tuple[str, ...], tokens: int
) -> None:
    """Mean over copies W̃ of |jvp along W̃|² = Σ_W Var(W) Σ_v ‖∂y_v/∂W‖² (exact), and a finite δ agrees to order δ."""
    weights, output = _network(variant, sublayers, tokens)
    variances = {key: float(w.square().mean()) for key, w in weights.items()}  # any positive numbers will do
    exact = torch.zeros(MEMBERS, dtype=torch.float64)
    for k in range(tokens * 8):
        upstream = torch.zeros(tokens * 8, dtype=torch.float64)
        upstream[k] = 1.0
        gradients = _gradients(output, weights, upstream.reshape(tokens, 8).expand(MEMBERS, -1, -1))
        exact += sum(variances[key] * g.square().sum(dim=(1, 2)) for key, g in gradients.items())
    generator = torch.Generator().manual_seed(4)
    changes = []
    for _ in range(400):
        copies = {
            key: variances[key] ** 0.5 * torch.randn(w.shape, dtype=torch.float64, generator=generator)
            for key, w in weights.items()
        }
        changes.append(_change(output, weights, copies).square().sum(dim=(1, 2)))
    sample = torch.stack(changes)
    assert bool(((sample.mean(dim=0) - exact).abs() < 5 * sample.std(dim=0) / 20).all())
    delta = 1e-6
    moved = output({key: w + delta * copies[key] for key, w in weights.items()}) - output(weights)
    torch.testing.assert_close(moved.square().sum(dim=(1, 2)) / delta**2, changes[-1], rtol=1e-3, atol=0.0)


def _measured(name: str, members: int, configuration: Configuration) -> tuple[np.ndarray, np.ndarray]:
    extra = (name,) if quantity(name).on_demand else ()
    values = Ensemble(Cell(configuration, extra=extra, seed=21), CPU).extend(members).values[name]
    return values.mean(axis=0), values.std(axis=0) / members**0.5


DENSE = [
    ("post-ln", ("relu",), 1, 1),
    ("pre-ln", ("tanh",), 3, 1),
    ("post-ln", ("linear", "gelu"), 2, 2),
    ("deepnorm", ("relu",), 2, 1),
    ("no-residual-ln", ("gelu",), 1, 1),
]


@pytest.mark.parametrize("name", ["parameter-gradient", "output-sensitivity", "sgd-update", "adam-update"])
@pytest.mark.parametrize(("variant", "sublayers", "tokens", "expansion"), DENSE)
def test_predictions_against_dense_networks(
    name: str, variant: str, sublayers: tuple[str, ...], tokens: int, expansion: int
) -> None:
    """Every row of three blocks at d = 96 within 4 % (terms of order blocks/width) plus four standard errors."""
    configuration = Configuration(load(variant), sublayers, 3, 96, tokens, expansion=expansion)
    mean, error = _measured(name, 200, configuration)
    predicted = quantity(name).predicted(configuration)
    assert np.all(np.abs(mean - predicted) <= 0.04 * predicted + 4 * error)
    assert np.all(error <= 0.09 * mean + 1e-12)


def test_parameter_gradients_of_attention_at_leading_order() -> None:
    """n/d = 1/16 and one block: every matrix within 15 % plus four standard errors."""
    configuration = Configuration(load("pre-ln"), ("attention", "gelu"), 1, 128, 8)
    mean, error = _measured("parameter-gradient", 100, configuration)
    predicted = quantity("parameter-gradient").predicted(configuration)
    assert quantity("parameter-gradient").labels(configuration)[0] == {"layer": 1, "matrix": "attention.WQ"}
    assert np.all(np.abs(mean - predicted) <= 0.15 * predicted + 4 * error)


def test_a_second_sublayer_of_the_same_name_has_a_label_of_its_own() -> None:
    names = Configuration(load("post-ln"), ("relu", "tanh", "relu"), 1).matrix_names
    assert names == ("relu.W1", "relu.W2", "tanh.W", "relu(2).W1", "relu(2).W2")


@settings(deadline=None, derandomize=True, max_examples=20)
@given(st.sampled_from(["post-ln", "pre-ln", "deepnorm"]), st.sampled_from(["linear", "relu", "gelu"]), st.integers(1, 9))
def test_sensitivity_is_the_sum_of_the_blocks_parameter_gradients(variant: str, branch: str, depth: int) -> None:
    """Σ_W (variance/fan_in)·E‖∂/∂W‖² over the blocks above a layer, from the printed rows of parameter-gradient."""
    configuration = Configuration(load(variant), (branch,), depth, 32, 2)
    rows = quantity("parameter-gradient").predict(configuration, infinite_width=True)
    variances = configuration.weights(sublayer(branch)).variances
    share = [variances[row["matrix"].split(".")[1]] / 32 * row["mean"] / (2 * 32) for row in rows]
    expected = [sum(s for s, row in zip(share, rows, strict=True) if row["layer"] > layer) for layer in range(depth + 1)]
    np.testing.assert_allclose(quantity("output-sensitivity").predicted(configuration, infinite_width=True), expected, rtol=1e-12)


def test_one_linear_layers_sgd_update_by_hand() -> None:
    """y = N(x + Wx): Θ = |x|²·PPᵀ, PPᵀ = (projection)/2 → δy² = (d/2)² per coordinate; Adam moves ‖x‖₁ sign(δ)/√2."""
    configuration = Configuration(load("post-ln"), ("linear",), 1, 64, 1)
    assert quantity("sgd-update").predicted(configuration)[0] == pytest.approx((64 / 2) ** 2, rel=1e-12)
    assert quantity("adam-update").predicted(configuration)[0] == pytest.approx(64**2 * 2 / np.pi / 2, rel=1e-12)


def test_two_linear_layers_sgd_update_by_hand() -> None:
    """No residual, no norm: y = W₂W₁x, Θ = |W₁x|²·1 + |x|² W₂W₂ᵀ; τ(Θ²)/d² = 1 + 2 + τ((W₂W₂ᵀ)²) = 1 + 2 + 2."""
    configuration = Configuration(load("no-residual"), ("linear",), 2, 64, 1)
    np.testing.assert_allclose(quantity("sgd-update").predicted(configuration), [64**2 * 5.0, 64**2 * 1.0, 0.0], rtol=1e-12)


@pytest.mark.parametrize("branch", ["linear", "relu", "gelu", "tanh"])
def test_the_signs_of_several_alike_tokens_are_those_of_one(branch: str) -> None:
    """The quasi-Monte Carlo of two tokens whose inputs are all but uncorrelated in gradient: bounds by the one-token law.

    Two tokens share the weights' sign budget, so each moves less along its own gradient than alone, but more than half.
    """
    one, two = (Configuration(load("post-ln"), (branch,), 1, 64, tokens) for tokens in (1, 2))
    alone, pair = (sign_steps(c, next(path(profile(c, c.tokens)))) for c in (one, two))
    for name, sign in alone.items():
        assert 0.5 * sign.aligned[0, 0] < pair[name].aligned[0, 0] < sign.aligned[0, 0]
        assert pair[name].aligned[0, 0] == pytest.approx(pair[name].aligned[1, 1], rel=0.02)


def test_the_signs_of_two_gaussian_tokens_by_hand() -> None:
    """κ_i = fan_in √(2/π) δ_i/|δ| at C = 1, so E[κ_i δ_i] = fan_in √(2/π) E|δ|/2 with E|δ| = √(π/2) for two coordinates."""
    configuration = Configuration(load("post-ln"), ("linear",), 1, 64, 2)
    (step,) = path(profile(configuration, 2))
    sign = sign_steps(configuration, step)["W"]
    np.testing.assert_allclose(sign.aligned, 64 / 2 * np.eye(2), atol=0.3)
    np.testing.assert_allclose(sign.rest**2, 64**2 * (2 / np.pi / 2 - 1 / 4), rtol=0.03)


REFUSED = {
    "attention": (("post-ln", ("attention",)), "token-wise sublayers, not for attention: measure instead"),
    "two streams": (("residual", ("relu",)), "no law for the updates of residual"),
}


@pytest.mark.parametrize("name", ["sgd-update", "adam-update"])
@pytest.mark.parametrize("case", REFUSED)
def test_updates_without_a_law_are_refused_in_one_line(name: str, case: str) -> None:
    (variant, sublayers), hint = REFUSED[case]
    with pytest.raises(InvalidInput, match=hint):
        quantity(name).predict(Configuration(load(variant), sublayers, 2, 16, 2))


def test_an_update_needs_the_dense_engine_and_is_read_only_on_demand() -> None:
    configuration = Configuration(load("post-ln"), ("relu",), 2, 16, 2)
    with pytest.raises(InvalidInput, match="sgd-update needs the weights themselves: use --engine dense"):
        Cell(configuration, engine="matrix-free", extra=("sgd-update",))
    assert "sgd-update" not in Cell(configuration).quantities
    assert "output-sensitivity" not in Cell(configuration, source="text").quantities
    assert device_named("cpu") == CPU
