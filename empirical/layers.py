"""One random linear layer with its bias, with its weights (dense) or without them (matrix-free), for a batch of members.

Matrix-free (exact for Gaussian weights): the forward product XW and the backward product GWᵀ depend on W only
through projections onto the tokens' span. With Xᵀ = QR, XW = RᵀZ for Z = QᵀW i.i.d.; in the backward pass
GWᵀ = GZᵀQᵀ + G W'ᵀ(1 − QQᵀ) with W' fresh, whose product with Gᵀ = Q_g R_g is R_gᵀE for E i.i.d. The cost is
O(tokens²·width) in place of O(tokens·width²), and no width² numbers are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from empirical.draws import Draws
from theory.errors import InvalidInput

Tensor = torch.Tensor
ENGINES = ("dense", "matrix-free")


@dataclass
class WeightRecord:
    """What was drawn for one matrix or bias, for the sanity gate."""

    intended: float
    """Variance times fan-in; a bias's second moment."""
    fan_in: int
    count: int
    mean_square: float
    """Measured, in the units of ``intended``, pooled over the batch."""
    fingerprint: tuple[float, ...]
    """First numbers of the first member, to tell that layers differ."""
    uniform: bool = False


@dataclass
class Tape:
    """What the layers of one pass leave behind, keyed by (layer, sublayer, matrix)."""

    weights: dict[tuple[int, int, str], WeightRecord] = field(default_factory=dict)
    biases: dict[tuple[int, int, str], WeightRecord] = field(default_factory=dict)
    gradients: dict[tuple[int, int, str], Tensor] = field(default_factory=dict)
    """Squared Frobenius norm of ∂𝓛/∂W, shape (members,)."""
    factors: dict[tuple[int, int, str], tuple[Tensor, Tensor]] | None = None
    """Where they are asked for (dense engine): X and Δ of ∂𝓛/∂W = XᵀΔ, each (members, tokens, features)."""


class Linear(Protocol):
    """What applies weight matrices: x W + b for the matrix of a key, (members, …, fan_in) → (members, …, fan_out)."""

    def __call__(
        self, key: tuple[int, int, str], x: Tensor, fan_out: int, variance: float, bias: float = 0.0, uniform: bool = False
    ) -> Tensor:
        """x W + b; see `RandomLinear`."""


class KnownLinear:
    """Applies matrices that were drawn before, differentiably to any order, to streams with any number of leading axes.

    Args:
        matrices: (members, fan_in, fan_out) by key.
        shifts: (members, 1, fan_out) by key, where there is a bias.
    """

    def __init__(
        self, matrices: Mapping[tuple[int, int, str], Tensor], shifts: Mapping[tuple[int, int, str], Tensor] | None = None
    ) -> None:
        self.matrices, self.shifts = matrices, shifts or {}

    def __call__(
        self, key: tuple[int, int, str], x: Tensor, fan_out: int, variance: float, bias: float = 0.0, uniform: bool = False
    ) -> Tensor:
        """x W + b of ``key``: one product a member, whatever lies between members and width."""
        product = x.flatten(1, -2) @ self.matrices[key]
        return (product + self.shifts[key] if key in self.shifts else product).unflatten(1, x.shape[1:-1])


def require_engine(engine: str, tied: bool) -> None:
    """Refuse an engine that there is not, or that shared weights rule out.

    Raises:
        InvalidInput: it is unknown, or would draw fresh projections of weights that all blocks share.
    """
    if engine not in ENGINES:
        raise InvalidInput(f"unknown engine {engine!r}: use {' or '.join(ENGINES)}")
    if tied and engine != "dense":
        raise InvalidInput(
            "the matrix-free engine draws every block afresh, and here all share one block's weights: use --engine dense"
        )


class RandomLinear:
    """Draws and applies the weight matrices and biases of one batch.

    Args:
        draws: the batch's generators.
        engine: ``dense`` or ``matrix-free``.
        keep: whether to keep dense matrices in ``matrices`` and biases in ``shifts``, for a `KnownLinear`.
        tied: whether all layers use what the first one drew; keys stay one a use.

    Raises:
        InvalidInput: as `require_engine`.
    """

    def __init__(self, draws: Draws, engine: str, keep: bool = False, tied: bool = False) -> None:
        require_engine(engine, tied)
        self.draws, self.engine, self.keep, self.tied = draws, engine, keep, tied
        self._shared: dict[tuple[int, str], tuple[Tensor, WeightRecord, Tensor | None, WeightRecord | None]] = {}
        self.tape = Tape()
        self.matrices: dict[tuple[int, int, str], Tensor] = {}
        self.shifts: dict[tuple[int, int, str], Tensor] = {}

    def __call__(
        self, key: tuple[int, int, str], x: Tensor, fan_out: int, variance: float, bias: float = 0.0, uniform: bool = False
    ) -> Tensor:
        """x W + b for a fresh W of the given variance times fan-in and a fresh b (the first layer's, where weights are tied).

        Args:
            key: (layer, sublayer, matrix).
            x: (members, tokens, fan_in).
            fan_out: columns of W.
            variance: weight variance times fan-in.
            bias: second moment of b's entries; b is not drawn where it is 0.
            uniform: draw W and b from a uniform distribution, not a Gaussian one.

        Raises:
            InvalidInput: more tokens than the matrix-free engine can project on, or uniform weights for it.
        """
        if key in self.tape.weights:
            raise AssertionError(f"{key} drawn twice in one pass")
        tokens, fan_in = x.shape[1:]
        std = (variance / fan_in) ** 0.5
        if self.engine == "matrix-free" and tokens >= min(fan_in, fan_out):
            raise InvalidInput(
                f"{tokens} tokens are too many for the matrix-free engine at width {min(fan_in, fan_out)}: "
                "use --engine dense, or fewer tokens than the width"
            )
        if self.engine == "matrix-free" and uniform:
            raise InvalidInput(
                "the matrix-free engine is exact for Gaussian weights only, and these are uniform: use --engine dense"
            )
        weights, record, shift, bias_record = self._shared.get(key[1:]) or self._weights(x, fan_out, variance, bias, uniform)
        if self.tied:
            self._shared[key[1:]] = weights, record, shift, bias_record
        self.tape.weights[key] = record
        if self.keep:
            self.matrices[key] = weights
        operation = _Dense if self.engine == "dense" else _MatrixFree
        result: Tensor = operation.apply(x, weights, self, key, std)
        if shift is None or bias_record is None:
            return result
        self.tape.biases[key] = bias_record
        if self.keep:
            self.shifts[key] = shift
        return result + shift

    def _weights(
        self, x: Tensor, fan_out: int, variance: float, bias: float, uniform: bool
    ) -> tuple[Tensor, WeightRecord, Tensor | None, WeightRecord | None]:
        """Fresh W (or its projection on the tokens), b, and what was drawn."""
        tokens, fan_in = x.shape[1:]
        std = (variance / fan_in) ** 0.5
        if self.engine == "dense":
            weights = self._drawn(fan_in, fan_out, std=std, uniform=uniform)
        else:
            weights = self.draws.normal("weights", tokens, fan_out, std=std, dtype=at_least_float(x))
        record = _record(weights, variance, fan_in, uniform)
        if not bias:
            return weights, record, None, None
        shift = self._drawn(1, fan_out, std=bias**0.5, uniform=uniform)
        return weights, record, shift, _record(shift, bias, 1, uniform)

    def _drawn(self, *shape: int, std: float, uniform: bool) -> Tensor:
        return (self.draws.uniform if uniform else self.draws.normal)("weights", *shape, std=std)


def _record(weights: Tensor, variance: float, fan_in: int, uniform: bool) -> WeightRecord:
    mean_square = float(weights.float().square().mean()) * fan_in
    return WeightRecord(variance, fan_in, weights.numel(), mean_square, tuple(weights[0, 0, :4].tolist()), uniform)


def at_least_float(x: Tensor) -> torch.dtype:
    """The dtype of ``x``, float32 where it is narrower."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _squared_frobenius(x: Tensor, delta: Tensor) -> Tensor:
    """‖XᵀΔ‖_F² = Σ_ij (x_i·x_j)(δ_i·δ_j), without forming the fan_in × fan_out gradient; shape (members,)."""
    x, delta = x.to(at_least_float(x)), delta.to(at_least_float(delta))
    return ((x @ x.mT) * (delta @ delta.mT)).sum(dim=(1, 2))


class _Dense(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weights: Tensor, layer: RandomLinear, key: tuple[int, int, str], std: float) -> Tensor:
        ctx.save_for_backward(x, weights)
        ctx.layer, ctx.key = layer, key
        return x @ weights

    @staticmethod
    def backward(ctx: Any, *deltas: Tensor) -> tuple[Tensor | None, ...]:
        x, weights = ctx.saved_tensors
        (delta,) = deltas
        ctx.layer.tape.gradients[ctx.key] = _squared_frobenius(x, delta)
        if ctx.layer.tape.factors is not None:
            ctx.layer.tape.factors[ctx.key] = (x, delta)
        return delta @ weights.mT, None, None, None, None


class _MatrixFree(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, z: Tensor, layer: RandomLinear, key: tuple[int, int, str], std: float) -> Tensor:
        basis, r = torch.linalg.qr(x.mT.to(z.dtype))
        ctx.save_for_backward(x, basis, z)
        ctx.layer, ctx.key, ctx.std = layer, key, std
        return (r.mT @ z).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *deltas: Tensor) -> tuple[Tensor | None, ...]:
        x, basis, z = ctx.saved_tensors
        delta = deltas[0].to(z.dtype)
        ctx.layer.tape.gradients[ctx.key] = _squared_frobenius(x, delta)
        r = torch.linalg.qr(delta.mT).R
        fresh = ctx.layer.draws.normal("backward", delta.shape[1], x.shape[2], std=ctx.std, dtype=z.dtype)
        fresh = fresh - (fresh @ basis) @ basis.mT
        gradient = (delta @ z.mT) @ basis.mT + r.mT @ fresh
        return gradient.to(x.dtype), None, None, None, None
