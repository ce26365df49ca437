"""Random layers: squared parameter gradients, and the matrix-free engine against exact identities and the dense one."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp, kstest

from empirical.draws import Draws
from empirical.layers import ENGINES, RandomLinear
from empirical.measurement import Cell, measure
from theory.configuration import Configuration
from theory.errors import InvalidInput
from theory.variants import registry

Tensor = torch.Tensor
KEY = (1, 0, "W")
CPU = torch.device("cpu")


def _layer(engine: str, members: int = 3, seed: int = 0, dtype: torch.dtype = torch.float64) -> RandomLinear:
    return RandomLinear(Draws(seed, range(members), CPU, dtype), engine)


def _normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_the_dense_layer_is_a_matrix_product_with_autograds_gradients() -> None:
    x, upstream = _normal(0, 3, 4, 10).requires_grad_(), _normal(1, 3, 4, 6)
    layer = _layer("dense")
    output = layer(KEY, x, 6, 2.0)
    (gradient,) = torch.autograd.grad((output * upstream).sum(), x)
    weights = Draws(0, range(3), CPU, torch.float64).normal("weights", 10, 6, std=(2.0 / 10) ** 0.5).requires_grad_()
    plain = x.detach().requires_grad_()
    expected = torch.autograd.grad((torch.bmm(plain, weights) * upstream).sum(), (plain, weights))
    torch.testing.assert_close(output, torch.bmm(plain, weights), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gradient, expected[0], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(layer.tape.gradients[KEY], expected[1].square().sum(dim=(1, 2)), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_bias_is_one_row_for_all_tokens_and_leaves_the_rest_alone(engine: str) -> None:
    """x W + b with the W of the layer without bias; gradients as without."""
    x, upstream = _normal(0, 3, 4, 10).requires_grad_(), _normal(1, 3, 4, 6)
    plain, biased = _layer(engine), _layer(engine)
    outputs = plain(KEY, x, 6, 2.0), biased(KEY, x, 6, 2.0, 0.5)
    shift = (outputs[1] - outputs[0]).detach()
    torch.testing.assert_close(shift, shift[:, :1].expand(3, 4, 6), rtol=1e-12, atol=1e-14)
    assert float(shift.std()) > 0.3 and not plain.tape.biases
    gradients = [torch.autograd.grad((output * upstream).sum(), x)[0] for output in outputs]
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(plain.tape.gradients[KEY], biased.tape.gradients[KEY], rtol=1e-12, atol=1e-12)
    record = biased.tape.biases[KEY]
    assert (record.intended, record.count) == (0.5, 18)
    assert record.mean_square == pytest.approx(float(shift[:, 0].square().mean()), rel=1e-6)


def test_uniform_weights_are_uniform_in_their_range() -> None:
    """W = xW at x = 1: variance 0.6/8, between ±√(3·0.6/8), by a Kolmogorov-Smirnov test; the bias alike."""
    members, x = 400, torch.eye(8, dtype=torch.float64)
    layer, zero = _layer("dense", members), torch.zeros(members, 1, 8, dtype=torch.float64)
    weights = layer(KEY, x.expand(members, 8, 8), 5, 0.6, uniform=True)
    bias = layer((1, 0, "W2"), zero, 5, 0.6, 0.2, uniform=True)
    for sample, variance in ((weights, 0.6 / 8), (bias, 0.2)):
        end = (3 * variance) ** 0.5
        assert kstest(sample.flatten().numpy(), "uniform", (-end, 2 * end)).pvalue > 1e-3
    assert layer.tape.weights[KEY].uniform and layer.tape.biases[1, 0, "W2"].uniform


def test_uniform_weights_need_their_matrix() -> None:
    with pytest.raises(InvalidInput, match="exact for Gaussian weights only, and these are uniform: use --engine dense"):
        _layer("matrix-free")(KEY, _normal(9, 3, 4, 32), 32, 1.0, uniform=True)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_record_holds_what_was_drawn(engine: str) -> None:
    layer = _layer(engine, members=50)
    layer(KEY, _normal(0, 50, 4, 32), 24, 0.5)
    record = layer.tape.weights[KEY]
    assert record.intended == 0.5
    assert record.count == 50 * 24 * (32 if engine == "dense" else 4)
    assert record.mean_square == pytest.approx(0.5, abs=5 * 0.5 * (2 / record.count) ** 0.5)


@pytest.mark.parametrize("engine", ENGINES)
def test_forward_and_backward_products_are_of_one_matrix(engine: str) -> None:
    """(xW)·δ = x·(δWᵀ) for every pair of tokens: what makes the pair a layer and its transpose."""
    x, upstream = _normal(2, 3, 4, 32).requires_grad_(), _normal(3, 3, 4, 20)
    output = _layer(engine)(KEY, x, 20, 1.0)
    (gradient,) = torch.autograd.grad((output * upstream).sum(), x)
    torch.testing.assert_close(output @ upstream.mT, x @ gradient.mT, rtol=1e-10, atol=1e-10)


def test_the_matrix_free_layer_is_linear() -> None:
    """With the same draws: 2x → 2xW; and dependent tokens keep their relation, x₃ = x₁ − 2x₂."""
    x = _normal(4, 3, 4, 32)
    x[:, 3] = x[:, 0] - 2 * x[:, 1]
    once, twice = _layer("matrix-free")(KEY, x, 20, 1.0), _layer("matrix-free")(KEY, 2 * x, 20, 1.0)
    torch.testing.assert_close(twice, 2 * once, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(once[:, 3], once[:, 0] - 2 * once[:, 1], rtol=1e-9, atol=1e-9)


def test_the_matrix_free_outputs_have_the_inputs_gram_matrix() -> None:
    """E (xW)(xW)ᵀ = variance·(fan_out/fan_in) xxᵀ and E (δWᵀ)(δWᵀ)ᵀ = variance·δδᵀ, within five standard errors."""
    members, x, upstream = 4000, _normal(5, 1, 3, 16), _normal(6, 1, 3, 24)
    inputs = x.expand(members, 3, 16).clone().requires_grad_()
    output = _layer("matrix-free", members)(KEY, inputs, 24, 0.7)
    (gradient,) = torch.autograd.grad((output * upstream).sum(), inputs)
    for products, expected in (
        (output @ output.mT, 0.7 * 24 / 16 * x @ x.mT),
        (gradient @ gradient.mT, 0.7 * upstream @ upstream.mT),
    ):
        error = products.std(dim=0) / members**0.5
        assert bool(((products.mean(dim=0) - expected[0]).abs() < 5 * error).all())


def test_the_matrix_free_squared_gradient_is_the_outer_products() -> None:
    x, upstream = _normal(7, 3, 4, 32).requires_grad_(), _normal(8, 3, 4, 20)
    layer = _layer("matrix-free")
    (layer(KEY, x, 20, 1.0) * upstream).sum().backward()
    expected = (x.detach().mT @ upstream).square().sum(dim=(1, 2))
    torch.testing.assert_close(layer.tape.gradients[KEY], expected, rtol=1e-11, atol=1e-12)


@cache
def _values(engine: str, name: str) -> dict[str, np.ndarray]:
    """Members 0..239 of a small cell; the engines' seeds differ, so that the samples are independent."""
    cell = Cell(
        Configuration(registry()[name], ("attention", "relu"), 3, 32, 4), engine=engine, seed=1 if engine == "dense" else 2
    )
    return measure(cell, range(240), CPU).values


@pytest.mark.parametrize("name", ["post-ln", "pre-ln"])
@pytest.mark.parametrize("quantity", ["stream-gradient", "parameter-gradient", "stream-moment", "token-cosine"])
def test_the_engines_agree_in_mean(name: str, quantity: str) -> None:
    """Every row's means differ by less than four standard errors (chance of a false alarm 6e-5 a row; the seeds are fixed)."""
    dense, free = (_values(engine, name)[quantity] for engine in ENGINES)
    error = np.sqrt((dense.var(axis=0, ddof=1) + free.var(axis=0, ddof=1)) / 240)
    assert np.all(np.abs(dense.mean(axis=0) - free.mean(axis=0)) <= 4 * error + 1e-12)


@pytest.mark.parametrize("name", ["post-ln", "pre-ln"])
@pytest.mark.parametrize("quantity", ["stream-gradient", "parameter-gradient"])
def test_the_engines_agree_in_the_spread_of_the_logarithm(name: str, quantity: str) -> None:
    """Standard deviations of the logarithm within 25 % (four times their error √(2/480)), and the whole distribution."""
    logs = [np.log(_values(engine, name)[quantity][:, 0]) for engine in ENGINES]
    assert logs[0].std() / logs[1].std() == pytest.approx(1.0, abs=0.25)
    assert ks_2samp(*logs).pvalue > 1e-3


@pytest.mark.parametrize("tokens", [32, 33])
def test_too_many_tokens_for_the_matrix_free_engine(tokens: int) -> None:
    with pytest.raises(InvalidInput, match="too many for the matrix-free engine at width 32: use --engine dense"):
        _layer("matrix-free")(KEY, _normal(9, 3, tokens, 32), 64, 1.0)


def test_one_token_fewer_than_the_width_still_works() -> None:
    output = _layer("matrix-free")(KEY, _normal(9, 3, 31, 32), 32, 1.0)
    assert output.shape == (3, 31, 32) and bool(output.isfinite().all())


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(InvalidInput, match="unknown engine 'sparse': use dense or matrix-free"):
        _layer("sparse")


def test_a_matrix_is_drawn_only_once_a_pass() -> None:
    layer = _layer("dense")
    layer(KEY, _normal(0, 3, 4, 10), 6, 1.0)
    with pytest.raises(AssertionError, match="drawn twice"):
        layer(KEY, _normal(0, 3, 4, 10), 6, 1.0)
