"""What a norm costs: operations on elements, counted as they are run, and times, measured in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

Tensor = torch.Tensor
Norm = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(x (tokens, width), gain (width,), bias (width,)) → (tokens, width); RMSNorm leaves the bias out."""
EPS = 1e-5
_FREE = ("view", "detach", "expand", "alias", "t", "unsqueeze", "_unsafe_view", "ones_like", "clone")
"""Operations that compute nothing."""


def layer_norm(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    """LayerNorm out of elementary operations (Ba et al. 2016)."""
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + EPS) * gain + bias


def rms_norm(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    """RMSNorm out of elementary operations (Zhang & Sennrich 2019, eq. 4; ε inside the root)."""
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS) * gain


def torch_layer_norm(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    """torch's own, one fused operation."""
    return functional.layer_norm(x, (x.shape[-1],), gain, bias, EPS)


def torch_rms_norm(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    """torch's own."""
    return functional.rms_norm(x, (x.shape[-1],), gain, EPS)


class _Counter(TorchDispatchMode):
    """Elements that every operation reads or writes, the larger of the two."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ not in _FREE:
            self.elements += max(part.numel() for part in (*args, out) if isinstance(part, Tensor))
        return out


def operations(norm: Norm, tokens: int, width: int) -> tuple[float, float]:
    """Operations per element of the input: of the forward pass, and of it with the backward pass."""
    x, gain, bias = _inputs(tokens, width)
    upstream = torch.randn(tokens, width)
    with _Counter() as counter:
        out = norm(x, gain, bias)
        forward = counter.elements
        torch.autograd.grad(out, [x, gain, bias], upstream, allow_unused=True)
    return forward / x.numel(), counter.elements / x.numel()


def times(norms: Mapping[str, Norm], tokens: int, width: int, repetitions: int) -> dict[str, np.ndarray]:
    """Processor seconds of a forward and a backward pass, (repetitions,) by name; the norms take turns."""
    x, gain, bias = _inputs(tokens, width)
    upstream = torch.randn(tokens, width)
    found = {name: np.zeros(repetitions) for name in norms}
    for repetition in range(-2, repetitions):  # two that do not count
        for name, norm in norms.items():
            started = time.process_time()
            torch.autograd.grad(norm(x, gain, bias), [x, gain, bias], upstream, allow_unused=True)
            taken = time.process_time() - started
            if repetition >= 0:
                found[name][repetition] = taken
    return found


def _inputs(tokens: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    x = torch.randn(tokens, width, requires_grad=True)
    return x, torch.ones(width, requires_grad=True), torch.zeros(width, requires_grad=True)
