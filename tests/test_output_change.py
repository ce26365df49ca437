"""The output's change per block: closed forms, an independent recursion, and networks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from empirical.measurement import Cell, measure
from theory.configuration import Configuration
from theory.errors import InvalidInput
from theory.quantities import quantity
from theory.variants import load

NAME, DEPTH = "output-change", 6


def network(variant: str, sublayers: tuple[str, ...] = ("relu",), **axes: int) -> Configuration:
    return Configuration(load(variant), sublayers, **({"depth": DEPTH, "width": 64, "tokens": 3} | axes))  # type: ignore[arg-type]


def law(variant: str, sublayers: tuple[str, ...] = ("relu",)) -> np.ndarray:
    return quantity(NAME).predicted(network(variant, sublayers))


def test_one_stream_has_closed_forms() -> None:
    q = 1 + np.arange(DEPTH + 1) / 2
    np.testing.assert_allclose(law("post-ln"), 2 - 2 / np.sqrt(1.5), rtol=1e-12)
    np.testing.assert_allclose(law("pre-ln"), 2 - 2 * np.sqrt(q[:-1] / q[1:]), rtol=1e-12)
    np.testing.assert_allclose(law("residual-only"), 1.5 ** np.arange(DEPTH) / 2, rtol=1e-12)


def test_residual_by_vectors_of_independent_parts() -> None:
    """x and r as coefficients on x_0 and the branches, each of second moment ½ but the first."""
    sizes = np.sqrt([1, *[0.5] * DEPTH])
    x = r = np.eye(DEPTH + 1)[0]
    outputs = [x + r]
    for block in range(1, DEPTH + 1):
        branch = np.eye(DEPTH + 1)[block]
        x, r = (x + branch) / np.sqrt(1.5), r + branch
        outputs.append(x + r / np.linalg.norm(r * sizes))
    expected = [np.linalg.norm((after - before) * sizes) ** 2 for before, after in zip(outputs, outputs[1:], strict=False)]
    np.testing.assert_allclose(law("residual"), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("variant", "sublayers"), [("residual", ("gelu",)), ("siamesenorm", ("relu",)), ("pre-ln", ("attention", "relu"))]
)
def test_networks_follow_it(variant: str, sublayers: tuple[str, ...]) -> None:
    cell = Cell(network(variant, sublayers, width=256, tokens=4), engine="matrix-free", seed=3, extra=(NAME,))
    values = measure(cell, range(64), torch.device("cpu")).values[NAME]
    assert values.shape == (64, DEPTH)
    expected = quantity(NAME).predicted(cell.configuration)
    error = values.std(axis=0) / 8
    assert np.all(np.abs(values.mean(axis=0) - expected) < 5 * error + 0.02 * expected)


def test_a_pointwise_read_out_is_refused() -> None:
    with pytest.raises(InvalidInput, match="dynamic-tanh is not predicted"):
        law("dynamic-tanh")
