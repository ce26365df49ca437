"""Underflow depths against exact powers of two, float arithmetic and torch runs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.claims.sources.underflow import ALIVE, gradients_below, stack
from tests.claims.sweeps import Sweep
from theory.errors import InvalidInput
from theory.underflow import FORMATS, surviving_layers, underflow_depth


@pytest.mark.parametrize("dtype", FORMATS)
def test_the_formats_are_torchs(dtype: str) -> None:
    info = torch.finfo(getattr(torch, dtype))
    assert 2.0 ** FORMATS[dtype].normal == info.smallest_normal
    smallest = 2.0 ** FORMATS[dtype].subnormal
    numbers = torch.tensor([smallest, smallest / 2, smallest * 0.51 if dtype != "float64" else smallest], dtype=torch.float64)
    assert [bool(x) for x in numbers.to(getattr(torch, dtype)) != 0] == [True, False, True]
    if dtype == "float64":
        assert np.nextafter(0.0, 1.0) == smallest


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_halving_until_zero(dtype: str) -> None:
    """κ = ½ exactly: a one loses a bit a block, and what is half of the smallest number rounds to even, which is 0."""
    kind = np.dtype(dtype).type
    value, blocks = kind(1), 0
    while value != 0:
        value, blocks = kind(value * kind(0.5)), blocks + 1
    assert underflow_depth(0.25, dtype) == pytest.approx(blocks, abs=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_networks_lose_their_gradient_where_the_law_says(dtype: str) -> None:
    """Sums in float32 and float64 lose up to four bits to products that underflow one by one; float16's are exact."""
    sweep = stack(dtype, seed=4)
    counted = gradients_below(sweep, 48)[ALIVE]
    law = surviving_layers(sweep.gain, dtype, sweep.tokens * sweep.width)
    early = 0.0 if dtype == "float16" else 4 / (-0.5 * np.log2(sweep.gain))
    error = 4 * counted.std() / 48**0.5 + 0.3
    assert law - early - error <= counted.mean() <= law + error


def test_bfloat16_lies_between_flushed_and_gradual_underflow() -> None:
    sweep = stack("bfloat16", seed=4)
    counted = gradients_below(sweep, 24)[ALIVE].mean()
    flushed, gradual = (surviving_layers(sweep.gain, "bfloat16", 128, flush) for flush in (True, False))
    assert gradual - flushed > 3
    assert flushed - 3 <= counted <= gradual + 1


def test_rounding_keeps_a_slow_decay_alive() -> None:
    """κ² = ½ in float16: some four blocks more than the root mean square alone has; measured, not only predicted."""
    sweep = Sweep("no-residual", "linear", (80,), 9, gain=0.5, engine="dense", dtype="float16", width=64)
    counted = gradients_below(sweep, 48)[ALIVE].mean()
    assert counted - 1 > underflow_depth(0.5, "float16") + 2
    assert counted == pytest.approx(surviving_layers(0.5, "float16", 128), abs=1.0)


def test_above_a_threshold_rounding_keeps_noise_alive_for_good() -> None:
    """κ² = 0.9 in float16: the gradient's square is (0.9)^m, 0 in float16 beyond 329 blocks, yet none of 450 layers is 0."""
    assert surviving_layers(0.9, "float16", 128) == float("inf")
    sweep = Sweep("no-residual", "linear", (450,), 9, gain=0.9, engine="dense", dtype="float16", width=64)
    assert underflow_depth(0.9, "float16") < 330
    assert gradients_below(sweep, 4)[ALIVE].min() == 451


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.floats(0.01, 0.7), st.sampled_from(sorted(FORMATS)), st.integers(1, 10**6))
def test_more_coordinates_last_longer_and_flushing_costs(gain: float, dtype: str, coordinates: int) -> None:
    one, many = (surviving_layers(gain, dtype, n) for n in (1, coordinates))
    assert one <= many + 1e-9
    assert surviving_layers(gain, dtype, coordinates, flush=True) < many
    assert underflow_depth(gain, dtype, flush=True) < underflow_depth(gain, dtype)
    assert underflow_depth(gain, dtype, start=2.0) > underflow_depth(gain, dtype)


REFUSED = {
    "growing": (lambda: underflow_depth(1.0, "float32"), "only where 0 < κ² < 1"),
    "format": (lambda: underflow_depth(0.5, "float8"), "unknown dtype 'float8': known are float64"),
    "start": (lambda: underflow_depth(0.5, "float32", start=0.0), "above 0"),
    "coordinates": (lambda: surviving_layers(0.5, "float32", 0), "at least 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_in_one_line(case: str) -> None:
    call, hint = REFUSED[case]
    with pytest.raises(InvalidInput, match=hint):
        call()
