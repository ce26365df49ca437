"""The sanity gate passes a good measurement and names, in one line, what is wrong with a bad one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
import torch

from empirical.draws import Draws
from empirical.measurement import Cell, Readings, measure
from empirical.sanity import InvalidMeasurement, gate
from theory.algebra import Case, F, Stream, Variant, l
from theory.configuration import Configuration
from theory.variants import registry

CPU = torch.device("cpu")
X = Stream("x")
CELL = Cell(Configuration(registry()["pre-ln"], ("attention", "relu"), 3, 32, 4))


@lru_cache(maxsize=1)
def _good() -> Readings:
    return measure(CELL, range(4), CPU).joined(measure(CELL, range(4, 8), CPU))


def _tampered(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Readings:
    good = _good()
    return replace(good, values=good.values | {name: change(good.values[name].copy())})


def _with(value: float, *place: int) -> Callable[[np.ndarray], np.ndarray]:
    def change(values: np.ndarray) -> np.ndarray:
        values[place] = value
        return values

    return change


def test_a_good_measurement_passes_every_check() -> None:
    checks = gate(CELL, _good())
    assert len(checks) == 4
    # 3 blocks: 5 stream quantities of 4 rows, 4 block quantities of 3 rows and one of 6 matrices in each, 8 networks.
    assert checks[0] == "all 400 readings of 8 networks are there"
    assert checks[1] == "every reading is finite and non-zero"
    assert "6 kinds of matrix" in checks[2]


BAD = {
    "NaN": (
        lambda: _tampered("stream-gradient", _with(float("nan"), 5, 2)),
        "stream-gradient is not finite at layer 2 in float64",
    ),
    "infinity": (
        lambda: _tampered("parameter-gradient", _with(float("inf"), 0, 0)),
        "parameter-gradient is not finite at layer 1 (attention.WQ)",
    ),
    "NaN cosine": (lambda: _tampered("token-cosine", _with(float("nan"), 0, 3)), "token-cosine is not finite at layer 3"),
    "zero": (
        lambda: _tampered("stream-gradient", _with(0.0, 1, 0)),
        "stream-gradient is exactly zero at layer 0 in float64: it underflows",
    ),
    "zero in a block": (
        lambda: _tampered("output-matrix-gradient", _with(0.0, 1, 1)),
        "output-matrix-gradient is exactly zero at layer 2",
    ),
    "zero of a matrix": (
        lambda: _tampered("parameter-gradient", _with(0.0, 1, 7)),
        "parameter-gradient is exactly zero at layer 2 (attention.WK)",
    ),
    "a row too few": (
        lambda: _tampered("stream-moment", lambda v: v[:, 1:]),
        "stream-moment: 3 readings a network where depth 3 has 4",
    ),
    "a member too few": (lambda: _tampered("stream-moment", lambda v: v[1:]), "stream-moment"),
}


@pytest.mark.parametrize("fault", BAD)
def test_bad_readings_are_refused_in_one_line(fault: str) -> None:
    build, hint = BAD[fault]
    with pytest.raises(InvalidMeasurement) as caught:
        gate(CELL, build())
    assert hint in str(caught.value) and "\n" not in str(caught.value)


GATED = Variant(
    "gated", [Case(X + 0 * F(X), when=l <= 2), Case(X + F(X))], "a gate that starts closed in the first two blocks of three"
)


def test_zeros_behind_a_closed_gate_are_readings_and_others_are_not() -> None:
    """Blocks 1 and 2 do nothing and their weights get no gradient; the third block's have to get one."""
    cell = Cell(Configuration(GATED, ("relu",), 3, 32, 4))
    readings = measure(cell, range(4), CPU)
    expected = [[0, 0, 0, 0, 1, 1], [0, 0, 1]]
    assert [(readings.values[name] > 0).all(axis=0).tolist() for name in ("parameter-gradient", "relative-step")] == expected
    assert gate(cell, readings)[1] == "every reading is finite and non-zero, but for zeros behind closed gates"
    readings.values["parameter-gradient"][1, 4] = 0.0
    with pytest.raises(InvalidMeasurement, match=r"parameter-gradient is exactly zero at layer 3 \(relu.W1\)"):
        gate(cell, readings)


def test_an_underflow_in_a_gated_stack_is_no_law() -> None:
    """ReZero's stream gradient is 1 at every layer."""
    cell = Cell(Configuration(registry()["rezero"], ("relu",), 3, 32, 4))
    readings = measure(cell, range(4), CPU)
    assert len(gate(cell, readings)) == 4
    readings.values["stream-gradient"][0, 1] = 0.0
    with pytest.raises(InvalidMeasurement, match="stream-gradient is exactly zero at layer 1"):
        gate(cell, readings)


def test_a_missing_quantity_is_named() -> None:
    good = _good()
    values = {name: v for name, v in good.values.items() if name != "norm-gain"}
    with pytest.raises(InvalidMeasurement, match="no readings of norm-gain"):
        gate(CELL, replace(good, values=values))


def test_a_vanishing_cosine_is_a_reading() -> None:
    assert len(gate(CELL, _tampered("gradient-cosine", _with(0.0, 1, 1)))) == 4


def test_zeros_pass_where_underflow_is_what_is_measured() -> None:
    checks = gate(CELL, _tampered("stream-gradient", _with(0.0, 1, 0)), zeros_allowed=True)
    assert checks[1] == "every reading is finite"


@pytest.mark.parametrize(("factor", "shown"), [(0.5, "0.50"), (1.1, "1.10")])
def test_another_weight_variance_is_refused(factor: float, shown: str) -> None:
    """Half the variance (packed q/k/v Xavier), and 10 % too much, of one kind of matrix."""
    good = _good()
    weights = tuple(
        {key: replace(r, mean_square=r.mean_square * factor) if key[2] == "WV" else r for key, r in batch.items()}
        for batch in good.weights
    )
    with pytest.raises(InvalidMeasurement, match=rf"sublayer 1, WV: the weights' variance is {shown}.* of the intended one"):
        gate(CELL, replace(good, weights=weights))


def _biased() -> tuple[Cell, Readings]:
    cell = Cell(replace(CELL.configuration, init="torch-encoder-layer"))
    return cell, measure(cell, range(8), CPU)


def test_biases_are_looked_at_too() -> None:
    """torch's encoder layer has them in the FFN only."""
    cell, readings = _biased()
    assert "6 kinds of matrix, 2 of bias" in gate(cell, readings)[2]
    for name, factor in (("bias of W1", 4.0), ("W1", 1.1)):
        weights = tuple(
            {key: replace(r, mean_square=r.mean_square * factor) if key[2] == name else r for key, r in batch.items()}
            for batch in readings.weights
        )
        with pytest.raises(InvalidMeasurement, match=f"sublayer 2, {name}: the weights' variance is"):
            gate(cell, replace(readings, weights=weights))


def test_a_network_without_its_biases_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeros in place of the rows that are biases."""
    drawn = Draws.uniform

    def zeroed(self: Draws, purpose: str, *shape: int, **options: float) -> torch.Tensor:
        return drawn(self, purpose, *shape, **options) * (0.0 if shape[0] == 1 else 1.0)

    monkeypatch.setattr(Draws, "uniform", zeroed)
    with pytest.raises(InvalidMeasurement, match="sublayer 2, bias of W1: the weights' variance is 0.0000"):
        gate(*_biased())


def test_a_network_drawn_with_half_the_variance_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate looks at the numbers drawn, not at the intention."""
    drawn = Draws.normal

    def halved(self: Draws, purpose: str, *shape: int, **options: object) -> torch.Tensor:
        return drawn(self, purpose, *shape, **options) * (0.5**0.5 if purpose == "weights" else 1.0)  # type: ignore[arg-type]

    monkeypatch.setattr(Draws, "normal", halved)
    with pytest.raises(InvalidMeasurement, match=r"the weights' variance is 0\.[45]"):
        gate(CELL, measure(CELL, range(4), CPU))


def test_cloned_layers_are_refused() -> None:
    good = _good()
    batch = dict(good.weights[0])
    batch[3, 1, "W2"] = replace(batch[3, 1, "W2"], fingerprint=batch[1, 1, "W2"].fingerprint)
    with pytest.raises(InvalidMeasurement, match="layers are clones of each other"):
        gate(CELL, replace(good, weights=(batch, good.weights[1])))


def test_an_underflowing_network_is_refused() -> None:
    """No residual, ReLU: the gradient is 2^(-200) in norm after 400 blocks, float32's smallest number 2^(-149)."""
    cell = Cell(Configuration(registry()["no-residual"], ("relu",), 400, 8, 1, 1), dtype="float32")
    with pytest.raises(
        InvalidMeasurement, match="is exactly zero at layer .* in float32: it underflows; use a wider dtype or fewer blocks"
    ):
        gate(cell, measure(cell, range(2), CPU))
