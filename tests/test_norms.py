"""The norms: sympy's Jacobian, autograd's and finite differences agree; invariances; torch's own norms."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import sympy
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from empirical.norms import normalise

KINDS = ("layer", "rms")
numbers = st.floats(-10, 10, allow_nan=False)
vectors = st.integers(4, 6).flatmap(lambda d: st.lists(numbers, min_size=d, max_size=d))


@cache
def _symbolic_jacobian(kind: str, width: int) -> Callable[..., np.ndarray]:
    """∂N(x)/∂x from the definition, Ba et al. 2016 eq. 3 or Zhang & Sennrich 2019 eq. 4, differentiated by sympy."""
    xs = sympy.symbols(f"x0:{width}", real=True)
    mean = sum(xs) / sympy.Integer(width) if kind == "layer" else sympy.Integer(0)
    scale = sympy.sqrt(sum((x - mean) ** 2 for x in xs) / width)
    return sympy.lambdify(xs, sympy.Matrix([(x - mean) / scale for x in xs]).jacobian(xs), "numpy")


def _tensor(values: list[float]) -> torch.Tensor:
    """As a tensor, skipping inputs without a direction."""
    x = torch.tensor(values, dtype=torch.float64)
    assume(float(x.std()) > 0.1)
    return x


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, derandomize=True, max_examples=30)
@given(values=vectors)
def test_symbolic_autograd_and_finite_difference_jacobians_agree(kind: str, values: list[float]) -> None:
    x = _tensor(values)
    symbolic = _symbolic_jacobian(kind, len(values))(*values)
    autograd = torch.autograd.functional.jacobian(lambda v: normalise(v, kind), x).numpy()
    step = 1e-5 * torch.eye(len(values), dtype=torch.float64)
    differences = ((normalise(x + step, kind) - normalise(x - step, kind)) / 2e-5).numpy().T
    np.testing.assert_allclose(autograd, symbolic, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(differences, symbolic, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, derandomize=True, max_examples=30)
@given(values=vectors, factor=st.floats(1e-3, 1e3))
def test_a_norm_ignores_its_inputs_scale(kind: str, values: list[float], factor: float) -> None:
    x = _tensor(values)
    torch.testing.assert_close(normalise(factor * x, kind), normalise(x, kind), rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(normalise(-x, kind), -normalise(x, kind), rtol=1e-12, atol=1e-12)


@settings(deadline=None, derandomize=True, max_examples=30)
@given(values=vectors, shift=st.floats(-100, 100))
def test_layer_norm_ignores_a_shift_and_rms_norm_does_not(values: list[float], shift: float) -> None:
    x = _tensor(values)
    torch.testing.assert_close(normalise(x + shift, "layer"), normalise(x, "layer"), rtol=1e-9, atol=1e-9)
    assume(abs(shift) > 1)
    assert not torch.allclose(normalise(x + shift, "rms"), normalise(x, "rms"), atol=1e-6)


@settings(deadline=None, derandomize=True, max_examples=30)
@given(values=vectors)
def test_layer_norm_is_rms_norm_of_the_centred_input(values: list[float]) -> None:
    x = _tensor(values)
    torch.testing.assert_close(normalise(x, "layer"), normalise(x - x.mean(), "rms"), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, derandomize=True, max_examples=30)
@given(values=vectors)
def test_the_gradient_is_orthogonal_to_the_input(kind: str, values: list[float]) -> None:
    """J_N x = 0: a norm's Jacobian projects the stream's own direction out (Xiong et al. 2020, Lemma 3)."""
    x = _tensor(values)
    jacobian = torch.autograd.functional.jacobian(lambda v: normalise(v, kind), x)
    assert float((jacobian @ x).abs().max()) < 1e-9
    assert float(normalise(x, kind).square().mean()) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_torchs_own_norms_agree_at_vanishing_eps(scale: float) -> None:
    x = scale * torch.randn(3, 5, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(
        normalise(x, "layer"), torch.nn.functional.layer_norm(x, (16,), eps=1e-300), rtol=1e-10, atol=1e-10
    )
    torch.testing.assert_close(normalise(x, "rms"), torch.nn.functional.rms_norm(x, (16,), eps=1e-300), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_is_summed_in_float32(kind: str) -> None:
    """A sum of 4,096 squares in bfloat16 would stall at 256: the result is float32's, rounded once."""
    x = torch.randn(2, 4096, generator=torch.Generator().manual_seed(1)).bfloat16()
    expected = normalise(x.float(), kind).bfloat16()
    assert normalise(x, kind).dtype == torch.bfloat16
    assert torch.equal(normalise(x, kind), expected)
