"""Operator norms by products: against Jacobians formed by autograd, independent of batches, on request only."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from empirical.blocks import forward, read_out, sublayer_step
from empirical.draws import Draws
from empirical.estimands import log_relative
from empirical.jacobians import Jacobians
from empirical.lanczos import largest_eigenvalue
from empirical.layers import KnownLinear, RandomLinear
from empirical.measurement import Cell, measure
from empirical.probes import PROBES
from empirical.probes import operator_norm as probe
from empirical.sources import source
from empirical.statistics import estimate
from empirical.verdicts import Verdict
from tests.claims.checks import follows_law
from tests.claims.sweeps import Sweep
from theory.configuration import Configuration
from theory.errors import InvalidInput
from theory.variants import registry

CPU = torch.device("cpu")
NORM = "operator-norm"
NETWORKS = [
    ("post-ln", ("relu",), False),
    ("pre-rmsnorm", ("gelu", "tanh"), False),
    ("residual", ("silu",), False),
    ("residual", ("attention",), False),
    ("pre-ln", ("attention", "gelu"), True),
    ("deepnorm", ("attention", "relu"), False),
]


def cell_of(name: str, sublayers: tuple[str, ...], causal: bool, **changes) -> Cell:
    configuration = Configuration(registry()[name], sublayers, 3, 12, 3, 2, causal, expansion=2)
    return Cell(configuration, seed=5, extra=(NORM,), **changes)


def network_of(cell: Cell, members: range):
    draws = Draws(cell.seed, members, CPU, torch.float64)
    linear = RandomLinear(draws, "dense", keep=True)
    return forward(cell.configuration, source(cell.source)(cell.configuration, draws).inputs, linear), KnownLinear(
        linear.matrices, linear.shifts
    )


def jacobian(cell: Cell, network, linear: KnownLinear, layer: int) -> torch.Tensor:
    """∂y/∂x_l of the only member, formed row by row by autograd through the rest of the network: (n d, n d)."""
    c = cell.configuration
    others = {name: x.detach() for name, x in network.streams[layer].items()}

    def rest(x: torch.Tensor) -> torch.Tensor:
        streams = others | {"x": x}
        for block in range(layer + 1, c.depth + 1):
            for index in range(len(c.maps)):
                streams = sublayer_step(c, (block, index), streams, linear).after
        return read_out(c, streams)

    found = torch.autograd.functional.jacobian(rest, others["x"])
    return found.reshape(c.tokens * c.width, c.tokens * c.width)


@pytest.mark.parametrize(("name", "sublayers", "causal"), NETWORKS)
def test_the_reading_is_the_largest_singular_value(name: str, sublayers: tuple[str, ...], causal: bool) -> None:
    """Against the singular values of the formed Jacobian, at every layer."""
    cell = cell_of(name, sublayers, causal)
    readings = measure(cell, range(2), CPU).values[NORM]
    width = cell.configuration.width
    for member in range(2):
        network, linear = network_of(cell, range(member, member + 1))
        for layer in range(4):
            formed = jacobian(cell, network, linear, layer)
            if cell.configuration.tokenwise:
                blocks = [formed[k * width : (k + 1) * width, k * width : (k + 1) * width] for k in range(3)]
                assert sum(float(b.square().sum()) for b in blocks) == pytest.approx(float(formed.square().sum()), rel=1e-12)
                expected = np.mean([float(torch.linalg.matrix_norm(b, 2)) ** 2 for b in blocks])
            else:
                expected = float(torch.linalg.matrix_norm(formed, 2)) ** 2
            assert readings[member, layer] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("name", "sublayers", "causal"), NETWORKS)
def test_products_with_the_formed_jacobian(name: str, sublayers: tuple[str, ...], causal: bool) -> None:
    cell = cell_of(name, sublayers, causal)
    network, linear = network_of(cell, range(1))
    vectors = torch.randn(1, 3, 3, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    with torch.enable_grad():
        jacobians = Jacobians(cell.configuration, network.streams, linear, 1, 3)
    pushed, pulled = jacobians.push(vectors), jacobians.pull(vectors)
    for place, layer in enumerate((1, 2, 3)):
        formed, vector = jacobian(cell, network, linear, layer), vectors[0, place].flatten()
        torch.testing.assert_close(pushed[0, place].flatten(), formed @ vector)
        torch.testing.assert_close(pulled[0, place].flatten(), formed.mT @ vector)


def test_readings_depend_on_neither_batch_nor_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = cell_of("pre-ln", ("attention", "gelu"), False)
    whole = measure(cell, range(4), CPU).values[NORM]
    parts = np.concatenate([measure(cell, range(k, k + 2), CPU).values[NORM] for k in (0, 2)])
    np.testing.assert_allclose(parts, whole, rtol=1e-10)
    monkeypatch.setattr(probe, "_BYTES", 200_000)
    np.testing.assert_allclose(measure(cell, range(4), CPU).values[NORM], whole, rtol=1e-10)
    np.testing.assert_array_equal(measure(cell, range(4), CPU).values[NORM], measure(cell, range(4), CPU).values[NORM])


def test_a_request_changes_no_other_reading() -> None:
    cell = cell_of("post-ln", ("relu",), False)
    plain = measure(Cell(cell.configuration, seed=5), range(3), CPU).values
    asked = measure(cell, range(3), CPU).values
    assert set(asked) == set(plain) | {NORM} and NORM not in plain and PROBES[NORM].matrices
    assert all((asked[name] == plain[name]).all() for name in plain)


@pytest.mark.parametrize(("dtype", "accuracy"), [("float32", 1e-3), ("bfloat16", 0.2)])
def test_narrow_dtypes(dtype: str, accuracy: float) -> None:
    wide, narrow = (
        measure(cell_of("post-ln", ("relu",), False, dtype=d), range(3), CPU).values[NORM] for d in ("float64", dtype)
    )
    np.testing.assert_allclose(narrow, wide, rtol=accuracy)


def test_the_matrix_free_engine_is_refused_in_one_line() -> None:
    with pytest.raises(InvalidInput, match="use --engine dense"):
        cell_of("post-ln", ("relu",), False, engine="matrix-free")


def test_an_unknown_request_is_refused() -> None:
    with pytest.raises(InvalidInput, match="unknown quantity 'norm'"):
        Cell(Configuration(registry()["post-ln"]), extra=("norm",))


@pytest.mark.parametrize("top", [(5.0, 1.0), (5.0, 5.0), (5.0, 4.9), (1.0, 1.0)])
def test_lanczos_on_known_spectra(top: tuple[float, float]) -> None:
    """Batched diagonal maps of dimension 40 with a known largest eigenvalue, simple, double, near, and the identity."""
    spectrum = torch.ones(3, 40, dtype=torch.float64)
    spectrum[:, 2:] = torch.linspace(0.1, 1.0, 38)
    spectrum[:, :2] = torch.tensor(top)
    start = torch.randn(3, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = largest_eigenvalue(lambda v: spectrum * v, start)
    np.testing.assert_allclose(found, top[0], rtol=1e-3)


def test_lanczos_without_a_start_has_no_answer() -> None:
    found = largest_eigenvalue(lambda v: v, torch.tensor([[0.0, 0.0], [1.0, 0.0]], dtype=torch.float64))
    assert torch.isnan(found[0]) and found[1] == 1


def _sweep(variant: str) -> Sweep:
    return Sweep(variant, "linear", (16,), 3, width=64, tokens=2, engine="dense", dtype="float32", extra=(NORM,))


@pytest.mark.parametrize(
    ("law", "data"), [("pre-ln", "post-ln"), ("post-ln", "pre-ln"), ("post-ln", "post-ln"), ("pre-ln", "pre-ln")]
)
def test_the_other_placements_worst_case_is_refuted(law: str, data: str) -> None:
    """Negative control: each law of the worst case on both placements' networks, absolute and over the typical gradient."""
    laws, networks = _sweep(law), _sweep(data)
    values = measure(networks.cells[networks.deepest], range(96), CPU).values
    check = follows_law(laws, NORM)
    found = estimate(log_relative("data", NORM, laws.predicted(NORM, 16)), {"data": values})
    assert (check.verdict(found) is Verdict.REFUTED) == (law != data)
    ratio = values[NORM].mean(axis=0) / values["stream-gradient"].mean(axis=0)
    predicted = laws.predicted(NORM, 16) / laws.predicted("stream-gradient", 16)
    assert (np.abs(np.log(ratio[:12] / predicted[:12])).max() < 0.25) == (law == data)
