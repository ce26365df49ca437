"""The finite-size allowance against the variances that the theory notes derive, a simulation and exact algebra."""

from __future__ import annotations

import numpy as np
import pytest

from theory.configuration import Configuration
from theory.finite_width.allowance import allowance
from theory.variants import registry


def _allowance(name: str, branch: str, **axes: object) -> np.ndarray:
    found = allowance(Configuration(registry()[name], (branch,), **axes))  # type: ignore[arg-type]
    assert found is not None
    return found


def _variance(gain: float, branch: str = "linear") -> float:
    """V of one Post-LN block under RMSNorm, read off the allowance 2V/d of a single block."""
    return float(_allowance("post-rmsnorm", branch, depth=1, gain=gain, width=64)[0] * 64 / 2)


@pytest.mark.parametrize("gain", [0.25, 1.0, 3.0])
def test_the_linear_sublayers_variance(gain: float) -> None:
    """V = (2σ²+σ⁴)/(1+σ²)² (THEORY.md, sections 2 and 3): 0.36 at σ² = ¼ and 0.75 at σ² = 1."""
    assert _variance(gain) == pytest.approx((2 * gain + gain**2) / (1 + gain) ** 2, rel=1e-12)


def test_the_variance_of_a_simulated_relu_block() -> None:
    """Variance of the normalised squared singular values of 1 + W₂DW₁ at d = 600, within 5 % of V."""
    draw, width = np.random.default_rng(0), 600
    first, second = (draw.normal(size=(width, width)) / width**0.5 for _ in range(2))
    gates = draw.random(width) < 0.5
    squares = np.linalg.svd(np.eye(width) + first @ (gates[:, None] * second), compute_uv=False) ** 2
    assert _variance(1.0, "relu") == pytest.approx(squares.var() / squares.mean() ** 2, rel=0.05)


def test_the_allowance_adds_up_from_the_output_down() -> None:
    """Post-LN: twice V·(L − l)/d; nothing at the output itself."""
    found = _allowance("post-rmsnorm", "linear", depth=8, width=64)
    np.testing.assert_allclose(found, 2 * 0.75 * (8 - np.arange(9)) / 64, rtol=1e-12)


@pytest.mark.parametrize("depth", [1, 2, 8])
def test_a_pre_ln_streams_length(depth: int) -> None:
    """A linear Pre-LN branch is N(0, 1) whatever the stream, so x_L of a Gaussian input is Gaussian: v = 2/d at every depth."""
    assert _allowance("pre-rmsnorm", "linear", depth=depth, width=64)[-1] == pytest.approx(2 / 64, rel=1e-6)


@pytest.mark.parametrize(("name", "branch"), [("residual", "relu"), ("post-ln", "attention")])
def test_where_the_variance_is_not_known_nothing_is_claimed(name: str, branch: str) -> None:
    assert allowance(Configuration(registry()[name], (branch,), depth=2)) is None
