"""V and the finite-size allowance against the variances that the theory notes derive, a simulation and exact algebra."""

from __future__ import annotations

import numpy as np
import pytest

from theory.configuration import Configuration
from theory.finite_width.allowance import allowance
from theory.finite_width.variance import singular_variance
from theory.stack import profile
from theory.variants import registry


def _variance(gain: float, branch: str = "linear") -> float:
    """V of a Post-LN block under RMSNorm."""
    found = profile(Configuration(registry()["post-rmsnorm"], (branch,), 2, gain=gain, width=64), 1, infinite_width=True)
    return singular_variance(found.configuration, found.blocks[1][0])


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


@pytest.mark.parametrize("depth", [1, 2, 8])
def test_a_pre_ln_streams_length(depth: int) -> None:
    """A linear Pre-LN branch is N(0, 1) whatever the stream, so x_L of a Gaussian input is Gaussian: v = 2/d at every depth."""
    found = profile(Configuration(registry()["pre-rmsnorm"], ("linear",), depth, width=64), 1)
    assert found.lengths is not None
    assert found.lengths[-1].relative(found.forward[-1]["x", "x"])[0] == pytest.approx(2 / 64, rel=1e-6)


def test_the_allowance_is_the_square_of_the_first_order() -> None:
    """Post-LN: (V·m/d)² over m blocks, to leading order, and 1/d; at the ends the gradient is isotropic or meets the input, whose length is free."""
    width = 2**12
    found = allowance(Configuration(registry()["post-rmsnorm"], ("linear",), depth=64, width=width))
    assert found is not None
    inner = np.sqrt(found - 1 / width)[1:-2]
    np.testing.assert_allclose(np.diff(inner) * width, -0.75, rtol=0.01)


def test_where_the_first_order_is_not_known_nothing_is_claimed() -> None:
    assert allowance(Configuration(registry()["residual"], ("relu",), depth=2)) is None
