"""Largest eigenvalues of a batch of symmetric non-negative maps by Lanczos's iteration (Golub & Van Loan, section 10.1)."""

from __future__ import annotations

from collections.abc import Callable

import torch

Tensor = torch.Tensor
_EVERY = 4
"""Iterations between looks at the Ritz values."""


def largest_eigenvalue(apply: Callable[[Tensor], Tensor], start: Tensor, residual: float = 2e-3) -> Tensor:
    """Largest eigenvalue of each map.

    A Ritz value θ with residual r lies within r²/gap of an eigenvalue; the iteration ends for a map when r ≤ ``residual``·θ,
    which leaves 4e-4 of θ at a relative gap of 1 %. Every map is judged by itself, so that its value does not depend on the
    batch it is in.

    Args:
        apply: (…, dim) → (…, dim), each map to its own vector.
        start: (…, dim), not orthogonal to the wanted eigenvectors.
        residual: relative to the eigenvalue.

    Returns:
        (…) in float64; not a number where ``start`` vanishes or is not finite.
    """
    length = start.norm(dim=-1, keepdim=True)
    basis = [start / length]
    diagonal: list[Tensor] = []
    beside: list[Tensor] = []
    found = torch.full(start.shape[:-1], float("nan"), dtype=torch.float64, device=start.device)
    todo = torch.isfinite(basis[0]).all(dim=-1)
    dimension = start.shape[-1]
    for iteration in range(1, dimension + 1):
        vector = apply(basis[-1])
        diagonal.append(_dot(vector, basis[-1]))
        for _ in range(2):  # full reorthogonalisation, twice is enough (Parlett)
            for known in basis:
                vector = vector - _dot(vector, known)[..., None].to(vector.dtype) * known
        beside.append(vector.norm(dim=-1).double())
        scale = torch.stack(diagonal).amax(dim=0)
        # Where the Krylov space is exhausted the next vector is noise: put nothing in its place.
        beside[-1] = torch.where(beside[-1] > 4 * torch.finfo(vector.dtype).eps * scale, beside[-1], 0.0)
        if iteration % _EVERY == 0 or iteration == dimension:
            value, rest = _ritz(diagonal, beside, todo)
            done = (rest <= residual * value) | (iteration == dimension)
            places = todo.nonzero(as_tuple=True)
            found[tuple(place[done] for place in places)] = value[done]
            todo[tuple(place[done] for place in places)] = False
            if not todo.any():
                break
        weight = torch.where(beside[-1] > 0, 1 / beside[-1], 0.0).to(vector.dtype)
        basis.append(vector * weight[..., None])
    return found


def _dot(left: Tensor, right: Tensor) -> Tensor:
    return (left * right).sum(dim=-1).double()


def _ritz(diagonal: list[Tensor], beside: list[Tensor], todo: Tensor) -> tuple[Tensor, Tensor]:
    """Largest Ritz value of the maps that are left, and its residual."""
    matrix = torch.diag_embed(torch.stack(diagonal, dim=-1)[todo])
    if len(diagonal) > 1:
        off = torch.diag_embed(torch.stack(beside[:-1], dim=-1)[todo], 1)
        matrix = matrix + off + off.mT
    values, vectors = torch.linalg.eigh(matrix)
    return values[:, -1], beside[-1][todo] * vectors[:, -1, -1].abs()
