"""Change of the output after one optimiser step, by projections.

For an update U of the weights and a unit Gaussian w at the output, w·δy = Σ_W ⟨∂(w·y)/∂W, U_W⟩ to first order, and its
square has the mean |δy|² over w. So one more backward pass for each w gives the change for the blocks above every
layer at once, and no forward-mode pass is needed (the tests compare with one, and with a small real step).
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from empirical.probes.base import Observation, above_each_layer, wide

Tensor = torch.Tensor
Projection = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(X, Δ, Δ_w) → ⟨XᵀΔ_w, −U/η⟩ of a matrix with gradient XᵀΔ, shape (members,)."""


def sgd(x: Tensor, delta: Tensor, probe: Tensor) -> Tensor:
    """U = −η XᵀΔ."""
    return ((x @ x.mT) * (delta @ probe.mT)).sum(dim=(1, 2))


def adam(x: Tensor, delta: Tensor, probe: Tensor) -> Tensor:
    """U = −η sign(XᵀΔ), the first step of Adam from rest (ε = 0; a weight without gradient stays)."""
    if x.shape[1] == 1:
        return x.abs().sum(dim=(1, 2)) * (delta.sign() * probe).sum(dim=(1, 2))
    return ((x.mT @ delta).sign() * (x.mT @ probe)).sum(dim=(1, 2))


def squared_update(seen: Observation, projection: Projection) -> Tensor:
    """E|δy|²/(n·d·η²) for the blocks l+1 … L, at layers 0..L; (members, L + 1)."""
    depth, (members, tokens, width) = len(seen.network.last_steps), seen.network.output.shape
    assert seen.tape.factors is not None
    total = torch.zeros(members, depth + 1, dtype=torch.float64, device=seen.network.output.device)
    for direction in seen.directions:
        assert direction.factors is not None
        probes = direction.factors
        parts = (
            (key[0], projection(wide(x), wide(delta), wide(probes[key][1]))) for key, (x, delta) in seen.tape.factors.items()
        )
        total += above_each_layer(depth, parts).square()
    return total / (len(seen.directions) * tokens * width)
