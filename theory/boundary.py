"""What a prediction is told of a network's two ends: second moments of its inputs and of its output's gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from theory.errors import InvalidInput

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Boundary:
    """The two ends of one sequence.

    Args:
        inputs: x_i·x_j/d of the stream entering block 1, (tokens, tokens).
        gradients: δ_i·δ_j/d of ∂𝓛/∂y at the network's output, (tokens, tokens).

    Raises:
        InvalidInput: no square symmetric matrices of one size.
    """

    inputs: Array
    gradients: Array

    def __post_init__(self) -> None:
        for name in ("inputs", "gradients"):
            matrix = getattr(self, name)
            square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1]
            if not square or not np.all(np.isfinite(matrix)) or not np.allclose(matrix, matrix.T):
                raise InvalidInput(f"{name} of a boundary must be a finite symmetric (tokens, tokens) matrix")
        if len(self.inputs) != len(self.gradients):
            raise InvalidInput(f"a boundary of {len(self.inputs)} input tokens and {len(self.gradients)} output tokens")

    def require(self, tokens: int) -> None:
        """Refuse another number of tokens.

        Raises:
            InvalidInput: it differs.
        """
        if len(self.inputs) != tokens:
            raise InvalidInput(f"the boundary has {len(self.inputs)} tokens, not {tokens}: give --tokens {len(self.inputs)}")


def write(path: str, boundaries: Sequence[Boundary]) -> None:
    """Write boundaries of one size to a file, whole or not at all.

    Raises:
        OSError: no space, no permission.
    """
    target = Path(path)
    unfinished = target.with_name(target.name + ".part")
    try:
        with unfinished.open("wb") as file:
            np.savez(
                file,
                inputs=np.stack([ends.inputs for ends in boundaries]),
                gradients=np.stack([ends.gradients for ends in boundaries]),
            )
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def read(path: str) -> tuple[Boundary, ...]:
    """The boundaries of a file that ``measure --boundary`` wrote: arrays ``inputs`` and
    ``gradients``, (sequences, tokens, tokens).

    Raises:
        InvalidInput: not such a file.
    """
    if not Path(path).is_file():
        raise InvalidInput(f"no boundary file {path}: write one with python -m empirical measure ... --boundary {path}")
    try:
        with np.load(path) as file:
            return tuple(Boundary(x, g) for x, g in zip(file["inputs"], file["gradients"], strict=True))
    except (ValueError, KeyError, OSError) as error:
        raise InvalidInput(f"{path} is no boundary file: write one with python -m empirical measure ... --boundary") from error
