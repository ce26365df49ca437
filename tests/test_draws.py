"""Equal numbers for equal seeds, whatever the batch, the dtype and the order of the members."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch

from empirical.draws import PURPOSES, Draws
from empirical.ensemble import Ensemble
from empirical.measurement import Cell, measure
from theory.configuration import Configuration
from theory.variants import registry

CPU = torch.device("cpu")


def _normal(
    seed: int, members: list[int], purpose: str = "weights", dtype: torch.dtype = torch.float64, size: int = 50
) -> torch.Tensor:
    return Draws(seed, members, CPU, dtype).normal(purpose, size)


def test_a_members_numbers_depend_on_neither_batch_nor_order() -> None:
    together, apart = _normal(3, [0, 1, 2, 3]), _normal(3, [3, 1])
    assert torch.equal(together[3], apart[0]) and torch.equal(together[1], apart[1])


def test_large_draws_by_two_threads_are_those_of_one() -> None:
    """From 20,000 numbers a member on, two threads fill the buffer; the members' generators stay their own."""
    together = _normal(3, [0, 1, 2], size=30_000)
    for member in range(3):
        assert torch.equal(together[member], _normal(3, [member], size=30_000)[0])


def test_seeds_members_and_purposes_give_different_numbers() -> None:
    samples = [_normal(seed, [member], purpose) for seed in (0, 1) for member in (0, 1) for purpose in PURPOSES]
    assert len(samples) == 16
    for one, other in combinations(samples, 2):
        assert float(torch.corrcoef(torch.cat([one, other]))[0, 1].abs()) < 0.6  # 50 numbers: 5 standard errors are 0.7


def test_float32_and_float64_draw_the_same_numbers() -> None:
    wide, narrow = _normal(0, [0, 1]), _normal(0, [0, 1], dtype=torch.float32)
    assert narrow.dtype == torch.float32 and wide.dtype == torch.float64
    assert torch.equal(wide, narrow.double())


def test_bfloat16_rounds_the_same_numbers() -> None:
    assert torch.equal(_normal(0, [0]).bfloat16(), _normal(0, [0], dtype=torch.bfloat16))


def test_the_numbers_are_standard_normal_times_std() -> None:
    sample = Draws(0, range(4), CPU, torch.float64).normal("weights", 25_000, std=3.0) / 3
    moments = [float((sample**k).mean()) for k in (1, 2, 3, 4)]
    assert moments == pytest.approx([0, 1, 0, 3], abs=0.15)  # standard errors at most √96/316 = 0.03


def test_uniform_numbers_have_the_std_and_the_contract_of_the_normal_ones() -> None:
    """Between ±√3·std with moments 1 and 9/5; a member's own in every batch; float32's numbers in float64."""
    sample = Draws(0, range(4), CPU, torch.float64).uniform("weights", 25_000, std=3.0) / 3
    assert [float((sample**k).mean()) for k in (1, 2, 3, 4)] == pytest.approx([0, 1, 0, 1.8], abs=0.03)
    assert 1.73 < float(sample.abs().max()) <= 3**0.5 + 1e-6
    alone = Draws(0, [2], CPU, torch.float64).uniform("weights", 25_000, std=3.0) / 3
    assert torch.equal(alone[0], sample[2])
    narrow = Draws(0, [2], CPU, torch.float32).uniform("weights", 25_000)
    assert torch.equal(narrow.double(), Draws(0, [2], CPU, torch.float64).uniform("weights", 25_000))


def test_integers_are_members_own_and_in_range() -> None:
    together, apart = (Draws(0, members, CPU, torch.float64).integers("inputs", 7) for members in (range(40), [39]))
    assert together[39] == apart[0]
    assert set(together) == set(range(7))


def _cell(**parts: object) -> Cell:
    return Cell(**({"configuration": Configuration(registry()["post-ln"], ("attention", "relu"), 3, 32, 4)} | parts))  # type: ignore[arg-type]


@pytest.mark.parametrize("source", ["isotropic", "text"])
@pytest.mark.parametrize("engine", ["dense", "matrix-free"])
def test_a_rerun_gives_identical_readings(engine: str, source: str) -> None:
    first, second = (measure(_cell(engine=engine, source=source), range(4), CPU).values for _ in range(2))
    for name, values in first.items():
        assert np.array_equal(values, second[name]), name


@pytest.mark.parametrize("source", ["isotropic", "text"])
@pytest.mark.parametrize("engine", ["dense", "matrix-free"])
def test_the_batch_split_does_not_matter(engine: str, source: str) -> None:
    """Same networks; the products may be summed in another order, which moves the last digits only."""
    cell = _cell(engine=engine, source=source)
    whole = measure(cell, range(6), CPU)
    parts = measure(cell, range(2), CPU).joined(measure(cell, range(2, 6), CPU))
    assert whole.members == parts.members == 6
    for name, values in whole.values.items():
        np.testing.assert_allclose(parts.values[name], values, rtol=1e-10, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("init", ["torch-encoder-layer", "gpt2"])
def test_an_initialisation_keeps_the_contract(init: str) -> None:
    """Uniform weights and biases too: a rerun is identical, another split the same networks."""
    cell = _cell(configuration=Configuration(registry()["pre-ln"], ("attention", "relu"), 3, 32, 4, init=init))
    whole, again = (measure(cell, range(4), CPU).values for _ in range(2))
    parts = measure(cell, range(1), CPU).joined(measure(cell, range(1, 4), CPU)).values
    for name, values in whole.items():
        assert np.array_equal(values, again[name]), name
        np.testing.assert_allclose(parts[name], values, rtol=1e-10, atol=1e-12, err_msg=name)


def test_an_ensemble_keeps_what_it_has() -> None:
    told: list[int] = []
    ensemble = Ensemble(_cell(), CPU, told.append)
    with pytest.raises(LookupError, match="extend the ensemble first"):
        _ = ensemble.readings
    first = ensemble.extend(3).values["stream-gradient"].copy()
    both = ensemble.extend(5).values["stream-gradient"]
    assert told == [3, 2] and ensemble.members == 5
    assert np.array_equal(both[:3], first)
    np.testing.assert_allclose(both, measure(_cell(), range(5), CPU).values["stream-gradient"], rtol=1e-10)


def test_other_seeds_are_other_networks() -> None:
    one, other = (measure(_cell(seed=seed), range(2), CPU).values["stream-gradient"] for seed in (0, 1))
    assert not np.isclose(one[:, 0], other[:, 0]).any()
    assert not np.isclose(one[0, 0], one[1, 0])


def test_dtypes_measure_the_same_network() -> None:
    wide, narrow = (measure(_cell(dtype=dtype), range(2), CPU).values for dtype in ("float64", "float32"))
    for name, values in wide.items():
        np.testing.assert_allclose(narrow[name], values, rtol=1e-3, atol=1e-5, err_msg=name)
