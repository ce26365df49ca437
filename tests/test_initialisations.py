"""Initialisations by name: against torch's own modules, by identities, and prediction against measurement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from math import sqrt

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from torch import nn

from empirical.draws import Draws
from empirical.ensemble import Ensemble
from empirical.layers import RandomLinear
from empirical.measurement import Cell, Readings, measure
from empirical.sanity import gate
from empirical.statistics import mean_interval
from empirical.sublayers import SublayerApplication
from theory.configuration import Configuration
from theory.finite_width.allowance import allowance
from theory.initialisations import INITIALISATIONS, Initialisation, Place, initialisation
from theory.quantities import quantity
from theory.sublayers import SUBLAYERS, Role, Surroundings, Weights, sublayer
from theory.variants import registry

CPU = torch.device("cpu")
WIDTH, EXPANSION = 96, 3

# Biases as large as the branch; attention's query bias alone; MultiheadAttention's projections as if each were a matrix of its
# own; and two of them without their biases.
OF_THIS_FILE = [
    Initialisation("large-bias", "here", lambda place: 0.8, lambda place: 0.3, uniform=True),
    Initialisation("query-bias", "here", lambda place: 1.0, lambda place: 1.0 if place.role is Role.QUERY else 0.0),
    replace(INITIALISATIONS["torch-mha"], name="unpacked", variance=lambda place: 1.0 if place.role.enters_attention else 1 / 3),
]
OF_THIS_FILE += [
    replace(preset, name=f"{preset.name}-without", bias=lambda place: 0.0)
    for preset in (OF_THIS_FILE[0], INITIALISATIONS["torch-linear"])
]


@pytest.fixture(scope="module", autouse=True)
def _presets_of_this_file() -> Iterator[None]:
    INITIALISATIONS.update({preset.name: preset for preset in OF_THIS_FILE})
    yield
    for preset in OF_THIS_FILE:
        del INITIALISATIONS[preset.name]


def _cell(variant: str, *sublayers: str, init: str, **axes: object) -> Configuration:
    return Configuration(registry()[variant], sublayers, init=init, **({"depth": 1, "width": WIDTH} | axes))  # type: ignore[arg-type]


def _drawn_by_torch(init: str) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Weights (fan_out, fan_in) and biases of every matrix of attention and FFN, as torch draws them."""
    hidden = WIDTH * EXPANSION
    shapes = {name: (WIDTH, WIDTH) for name in ("WQ", "WK", "WV", "WO")} | {"W1": (hidden, WIDTH), "W2": (WIDTH, hidden)}
    if init.startswith("xavier"):
        fill = {"xavier-normal": nn.init.xavier_normal_, "xavier-uniform": nn.init.xavier_uniform_}[init]
        return {name: (fill(torch.empty(shape)), torch.zeros(shape[0])) for name, shape in shapes.items()}
    if init == "torch-linear":
        linears = {name: nn.Linear(columns, rows) for name, (rows, columns) in shapes.items()}
        return {name: (linear.weight, linear.bias) for name, linear in linears.items()}
    layer = nn.TransformerEncoderLayer(WIDTH, 4, hidden)
    attention, last = layer.self_attn, {"W1": layer.linear1, "W2": layer.linear2}
    packed = zip(attention.in_proj_weight.chunk(3), attention.in_proj_bias.chunk(3), strict=True)
    return (
        dict(zip(("WQ", "WK", "WV"), packed, strict=True))
        | {"WO": (attention.out_proj.weight, attention.out_proj.bias)}
        | {name: (linear.weight, linear.bias) for name, linear in last.items()}
    )


@pytest.mark.parametrize("init", ["xavier-normal", "xavier-uniform", "torch-linear", "torch-encoder-layer", "torch-mha"])
def test_a_preset_has_the_moments_of_torchs_modules(init: str) -> None:
    """Second moments within five standard errors, over 20 networks; uniform numbers fill their range and no more."""
    torch.manual_seed(0)
    networks = [_drawn_by_torch(init) for _ in range(20)]
    cell, uniform = _cell("post-ln", "attention", "relu", init=init, expansion=EXPANSION), initialisation(init).uniform
    for maps in cell.maps:
        intended = cell.weights(maps)
        assert intended.uniform == uniform
        for matrix in maps.matrices:
            fan_in, _ = matrix.shape(WIDTH, EXPANSION)
            weights, biases = (torch.stack([n[matrix.name][k].detach() for n in networks]).double() for k in (0, 1))
            assert weights.shape[2] == fan_in
            _assert_second_moment(weights, intended.variances[matrix.name] / fan_in, uniform)
            _assert_second_moment(biases, intended.biases.get(matrix.name, 0.0), uniform)


def _assert_second_moment(sample: torch.Tensor, expected: float, uniform: bool) -> None:
    if expected == 0:
        assert not sample.any()
        return
    error = sqrt((0.8 if uniform else 2) / sample.numel())
    assert float(sample.square().mean()) == pytest.approx(expected, rel=5 * error)
    largest = float(sample.abs().max()) / sqrt(3 * expected)
    assert 0.99 < largest <= 1 + 1e-6 if uniform else largest > 1.5


def test_gpt2_and_bert_by_hand() -> None:
    """GPT-2 small: 12 blocks of two sublayers, d = 768; 0.02 everywhere, 0.02/√24 on the two residual projections."""
    axes = {"depth": 12, "width": 768, "expansion": 4}
    for init, projection in (("gpt2", 0.02 / sqrt(24)), ("bert", 0.02)):
        cell = _cell("pre-ln", "attention", "gelu", init=init, **axes)
        attention, ffn = (cell.weights(maps) for maps in cell.maps)
        assert not attention.biases and not ffn.biases and not ffn.uniform
        stds = {name: sqrt(v / 768) for name, v in attention.variances.items()}
        assert stds == pytest.approx({"WQ": 0.02, "WK": 0.02, "WV": 0.02, "WO": projection}, rel=1e-12)
        assert sqrt(ffn.variances["W1"] / 768) == pytest.approx(0.02, rel=1e-12)
        assert sqrt(ffn.variances["W2"] / 3072) == pytest.approx(projection, rel=1e-12)


def test_the_initial_gain_scales_the_branchs_matrices_and_no_bias() -> None:
    """DeepNorm at 8 blocks: β² = 64^(-1/2) = 1/8 on value, output and FFN."""
    cell = _cell("deepnorm", "attention", "relu", init="torch-linear", depth=8, gain=2.0)
    attention, ffn = (cell.weights(maps) for maps in cell.maps)
    assert attention.variances == pytest.approx({"WQ": 2 / 3, "WK": 2 / 3, "WV": 1 / 12, "WO": 1 / 12}, rel=1e-12)
    assert ffn.variances == pytest.approx({"W1": 1 / 12, "W2": 1 / 12}, rel=1e-12)
    for biases in (attention.biases, ffn.biases):
        assert set(biases.values()) == {1 / (3 * WIDTH)}


GAIN = st.floats(0.2, 3)


@settings(deadline=None, derandomize=True, max_examples=20)
@given(GAIN, st.sampled_from(["linear", "gelu", "tanh", "attention"]), st.integers(1, 6), st.integers(2, 40))
def test_presets_that_are_the_default_at_another_gain(gain: float, branch: str, depth: int, eighth: int) -> None:
    """Square matrices: Xavier is fan-in; BERT is fan-in of gain 0.0004·d; GPT-2's linear sublayer is BERT's over L."""
    axes = {"depth": depth, "width": 8 * eighth}

    def rows(init: str, factor: float) -> np.ndarray:
        return quantity("stream-gradient").predicted(_cell("post-ln", branch, init=init, gain=gain * factor, **axes))

    np.testing.assert_allclose(rows("xavier-normal", 1), rows("fan-in", 1), rtol=1e-12)
    np.testing.assert_allclose(rows("xavier-uniform", 1), rows("fan-in", 1), rtol=1e-12)
    np.testing.assert_allclose(rows("bert", 1), rows("fan-in", 0.0004 * axes["width"]), rtol=1e-10)
    if branch in ("linear", "tanh"):
        np.testing.assert_allclose(rows("gpt2", depth), rows("bert", 1), rtol=1e-10)


def _correlations(seed: int, tokens: int) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(tokens, tokens + 2))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows @ rows.T


@settings(deadline=None, derandomize=True, max_examples=25)
@given(st.sampled_from(["relu", "gelu", "attention"]), GAIN, st.floats(0, 3), st.integers(0, 1000), st.booleans())
def test_an_output_bias_adds_the_same_to_every_pair(name: str, gain: float, bias: float, seed: int, causal: bool) -> None:
    """… and changes neither the gradient below nor the output matrix's."""
    maps, c, gradient = sublayer(name), _correlations(seed, 4), _correlations(seed + 1, 4)
    plain = Weights({matrix.name: gain for matrix in maps.matrices})
    biased = replace(plain, biases={maps.matrices[-1].name: bias})
    with_bias, without = (maps.apply(c, weights, Surroundings(causal, depth=64)) for weights in (biased, plain))
    np.testing.assert_allclose(with_bias.output - without.output, bias, atol=1e-12)
    np.testing.assert_array_equal(with_bias.backward(gradient), without.backward(gradient))
    assert with_bias.parameter_gradients(gradient) == without.parameter_gradients(gradient)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(st.floats(0, 3), st.floats(0, 3), st.integers(0, 1000), st.booleans())
def test_keys_biases_change_nothing_and_values_pass_through(key: float, value: float, seed: int, causal: bool) -> None:
    """A softmax does not see what a whole row has in common, and its rows sum to 1."""
    attention, c, gradient = sublayer("attention"), _correlations(seed, 5), _correlations(seed + 1, 5)
    plain = Weights({"WQ": 1.2, "WK": 0.7, "WV": 0.9, "WO": 0.5})
    biased = replace(plain, biases={"WK": key, "WV": value})
    with_bias, without = (attention.apply(c, weights, Surroundings(causal, depth=64)) for weights in (biased, plain))
    np.testing.assert_allclose(with_bias.output - without.output, 0.5 * value, atol=1e-12)
    np.testing.assert_array_equal(with_bias.backward(gradient), without.backward(gradient))
    more, less = with_bias.parameter_gradients(gradient), without.parameter_gradients(gradient)
    assert more.pop("WO") - less.pop("WO") == pytest.approx(value * gradient.sum(), abs=1e-9)
    assert more == less


def test_token_wise_maps_with_biases_equal_a_sum_over_many_units() -> None:
    """GELU, both biases: a million hidden units of numpy's, whose pre-activations are Gaussian exactly."""
    c, gradient = _correlations(1, 3), _correlations(2, 3)
    weights = Weights({"W1": 0.7, "W2": 1.3}, {"W1": 0.4, "W2": 0.25})
    draw, units = np.random.default_rng(3), 1_000_000
    u = np.linalg.cholesky(0.7 * c) @ draw.normal(size=(3, units)) + sqrt(0.4) * draw.normal(size=units)
    density = np.exp(-u * u / 2) / sqrt(2 * np.pi)
    values, slopes = u * ndtr(u), ndtr(u) + u * density
    gelu = sublayer("gelu").apply(c, weights, Surroundings())
    np.testing.assert_allclose(gelu.output, 1.3 * values @ values.T / units + 0.25, rtol=5e-3)
    expected = 0.7 * 1.3 * gradient * (slopes @ slopes.T / units)
    np.testing.assert_allclose(gelu.backward(gradient), expected, rtol=5e-3)
    hidden, first = values @ values.T / units, 1.3 * c * (slopes @ slopes.T / units)
    by_hand = {"W1": float((first * gradient).sum()), "W2": float((hidden * gradient).sum())}
    assert gelu.parameter_gradients(gradient) == pytest.approx(by_hand, rel=5e-3)


def test_relus_euler_identity_holds_without_a_bias_only() -> None:
    """κ² = s² for a homogeneous sublayer; a bias on the first matrix adds v₂b₁/2 to s² and nothing to κ²."""
    one, around = np.ones((1, 1)), Surroundings()
    weights = Weights({"W1": 1.4, "W2": 0.6})
    plain, biased = (sublayer("relu").apply(one, w, around) for w in (weights, replace(weights, biases={"W1": 0.5})))
    assert plain.output == pytest.approx(plain.backward(one), rel=1e-12)
    assert biased.backward(one) == pytest.approx(1.4 * 0.6 / 2, rel=1e-12)
    assert biased.output == pytest.approx(0.6 * (1.4 + 0.5) / 2, rel=1e-12)


@pytest.mark.parametrize("name", SUBLAYERS)
def test_theory_and_network_give_a_matrix_the_same_shape(name: str) -> None:
    cell = _cell("post-ln", name, init="large-bias", width=8, expansion=3)
    shapes: dict[str, tuple[int, int]] = {}

    class Noting(RandomLinear):
        def __call__(self, key: tuple[int, int, str], x: torch.Tensor, fan_out: int, *more: float) -> torch.Tensor:
            shapes[key[2]] = (x.shape[-1], fan_out)
            return super().__call__(key, x, fan_out, *more)

    maps = sublayer(name)
    SublayerApplication(cell, maps, (1, 0), Noting(Draws(0, [0], CPU, torch.float64), "dense"))(torch.ones(1, 2, 8).double())
    assert shapes == {matrix.name: matrix.shape(8, 3) for matrix in maps.matrices}


# Prediction against measurement.

MEMBERS = 384
AXES = {"depth": 12, "width": 64, "tokens": 8}


@cache
def _measured(variant: str, sublayers: tuple[str, ...], init: str) -> Readings:
    cell = Cell(_cell(variant, *sublayers, init=init, **AXES), dtype="float32")
    readings = Ensemble(cell, CPU).extend(MEMBERS)
    gate(cell, readings)
    return readings


def _disagreement(name: str, variant: str, branch: str, measured: str, law: str) -> float:
    """Largest distance over the layers of the measured mean from a law, where 1 is four standard errors and finite size.

    Finite size: for a gradient the allowance of `theory.finite_width`; for a cosine 1/d (kernels at cosines that scatter);
    nothing for the stream's moment.
    """
    values = _measured(variant, (branch,), measured).values[name]
    cell = _cell(variant, branch, init=law, **AXES)
    predicted, terms = quantity(name).predicted(cell), allowance(cell)
    assert terms is not None
    finite_size = {"stream-moment": 0.0, "stream-gradient": terms * predicted, "token-cosine": 1 / cell.width}[name]
    error = values.std(axis=0, ddof=1) / sqrt(MEMBERS) + 1e-6  # float32, where a norm fixes the moment
    return float((np.abs(values.mean(axis=0) - predicted) / (4 * error + finite_size)).max())


@pytest.mark.parametrize("name", ["stream-moment", "stream-gradient", "token-cosine"])
@pytest.mark.parametrize("init", ["torch-linear", "large-bias"])
@pytest.mark.parametrize("branch", ["linear", "relu", "gelu"])
@pytest.mark.parametrize("variant", ["post-ln", "pre-ln"])
def test_networks_with_biases_follow_the_law(variant: str, branch: str, init: str, name: str) -> None:
    assert _disagreement(name, variant, branch, init, init) < 1


@pytest.mark.parametrize("init", ["torch-linear", "large-bias"])
@pytest.mark.parametrize("branch", ["relu", "gelu"])
@pytest.mark.parametrize("variant", ["post-ln", "pre-ln"])
def test_networks_with_biases_refute_the_law_without(variant: str, branch: str, init: str) -> None:
    """nn.Linear's biases of second moment 1/3d suffice to tell, by how alike the tokens become."""
    assert _disagreement("token-cosine", variant, branch, init, f"{init}-without") > 1


@pytest.mark.parametrize("variant", ["post-ln", "pre-ln"])
def test_linear_networks_have_alike_tokens_by_their_biases_alone(variant: str) -> None:
    """Without them x ↦ −x of one token is a symmetry, so the mean cosine is exactly 0; within four standard errors of the law."""
    values = _measured(variant, ("linear",), "torch-linear").values["token-cosine"][:, -1]
    error = values.std(ddof=1) / sqrt(MEMBERS)
    law = quantity("token-cosine").predicted(_cell(variant, "linear", init="torch-linear", **AXES))[-1]
    assert abs(values.mean() - law) < 4 * error < values.mean()


@pytest.mark.parametrize(("init", "logits"), [("fan-in", 1.0), ("query-bias", 2.0)])
def test_a_query_bias_adds_to_the_logits_variance(init: str, logits: float) -> None:
    """One block of attention on independent tokens: E|F|²/d = E Σ_j p_j² of a softmax of n independent N(0, v_k(v_q + b_q)).

    The softmax's tilt towards the query adds terms of order 1/d to it.
    """
    cell = Cell(_cell("pre-ln", "attention", init=init, width=256, tokens=8), engine="matrix-free")
    values = measure(cell, range(200), CPU).values["relative-step"][:, 0]
    weights = np.exp(sqrt(logits) * np.random.default_rng(0).normal(size=(100_000, 8)))
    expected = ((weights / weights.sum(axis=1, keepdims=True)) ** 2).sum(axis=1).mean()
    assert values.mean() == pytest.approx(expected, abs=4 * values.std(ddof=1) / sqrt(200) + 2 / 256)


class Stack(nn.Module):
    """Fresh nn.TransformerEncoderLayers (nn.TransformerEncoder would clone one), with Pre-LN's final norm."""

    def __init__(self, pre_norm: bool, depth: int, width: int) -> None:
        super().__init__()
        layer = {"nhead": 4, "dim_feedforward": 2 * width, "dropout": 0.0, "batch_first": True, "norm_first": pre_norm}
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(width, **layer) for _ in range(depth)])  # type: ignore[arg-type]
        self.last = nn.LayerNorm(width) if pre_norm else nn.Identity()

    def readings(self, inputs: torch.Tensor, upstream: torch.Tensor) -> list[float]:
        """Squared gradient at the input, and moment and token cosine of the last stream, before the final norm."""
        x = inputs.requires_grad_()
        for layer in self.layers:
            x = layer(x)
        (gradient,) = torch.autograd.grad((self.last(x) * upstream).sum(), inputs)
        unit = nn.functional.normalize(x.detach()[0], dim=-1)
        tokens = len(unit)
        cosine = (float(unit.sum(0).square().sum()) - tokens) / (tokens * (tokens - 1))
        return [float(gradient.square().mean()), float(x.detach().square().mean()), cosine]


@pytest.mark.parametrize(("variant", "pre_norm"), [("post-ln", False), ("pre-ln", True)])
def test_networks_of_torchs_encoder_layers_are_the_presets(variant: str, pre_norm: bool) -> None:
    """Stacks that torch builds and draws itself against our own under the preset: means within four standard errors."""
    depth, width, tokens, members = 4, 64, 4, 200
    torch.manual_seed(1)
    theirs = np.array(
        [
            Stack(pre_norm, depth, width).readings(torch.randn(1, tokens, width), torch.randn(1, tokens, width))
            for _ in range(members)
        ]
    )
    axes = {"depth": depth, "width": width, "tokens": tokens, "heads": 4, "expansion": 2}
    cell = Cell(_cell(variant, "attention", "relu", init="torch-encoder-layer", **axes))
    values = measure(cell, range(members), CPU).values
    ours = np.stack([values["stream-gradient"][:, 0], values["stream-moment"][:, -1], values["token-cosine"][:, -1]], axis=1)
    error = np.sqrt((theirs.var(axis=0, ddof=1) + ours.var(axis=0, ddof=1)) / members)
    assert np.all(np.abs(theirs.mean(axis=0) - ours.mean(axis=0)) <= 4 * error + 1e-5)  # torch's eps
    default = measure(Cell(replace(cell.configuration, init="fan-in")), range(members), CPU).values["token-cosine"][:, -1]
    assert abs(theirs[:, 2].mean() - default.mean()) > 10 * error[2]


def test_packed_projections_are_told_from_unpacked_ones() -> None:
    """One token: the branch's moment is v_v·v_o, 1/2·1/3 as nn.MultiheadAttention draws it, 1/3 if W_V were Xavier by itself."""
    cell = Cell(_cell("pre-ln", "attention", init="torch-mha", width=64, tokens=1))
    readings = measure(cell, range(400), CPU)
    gate(cell, readings, zeros_allowed=True)  # one token's pattern is 1 whatever its query and key
    assert not readings.values["parameter-gradient"][:, :2].any()
    found = mean_interval(readings.values["relative-step"], 0.999)
    torch.manual_seed(2)
    theirs = []
    for _ in range(400):
        x = nn.functional.layer_norm(torch.randn(1, 1, 64), (64,))
        theirs.append(float(nn.MultiheadAttention(64, 4, batch_first=True)(x, x, x)[0].detach().square().mean()))
    unpacked = quantity("relative-step").predicted(replace(cell.configuration, init="unpacked"))[0]
    assert unpacked == pytest.approx(1 / 3, rel=1e-9)
    for low, high in ((found.low[0], found.high[0]), np.mean(theirs) + np.array([-3.3, 3.3]) * np.std(theirs) / 20):
        assert low < 1 / 6 < high and high < 0.6 * unpacked


def test_a_place_says_what_it_is() -> None:
    """The xavier of a first FFN matrix uses both fans: 2·96/(96 + 288)."""
    assert initialisation("xavier-normal").variance(Place(Role.FFN_FIRST, 96, 288, 1)) == pytest.approx(0.5, rel=1e-15)
    assert initialisation("xavier-normal").variance(Place(Role.FFN_SECOND, 288, 96, 1)) == pytest.approx(1.5, rel=1e-15)
