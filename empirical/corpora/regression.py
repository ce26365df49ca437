"""A regression task for sweeps over depth.

The article's own is not published in full. This one is fixed by a seed, and about as hard for shallow networks as the article's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

import numpy as np
import torch

from theory.moments.activations import activation, mean_slope

Tensor = torch.Tensor

WIDTH, UNITS = 8, 4
"""Coordinates of an input, directions of it that the target depends on.

With them a Pre-LN network of two blocks of width 64 comes to a loss of about 3e-3 in 400 steps of Adam (batch 128, rate 3e-3
falling linearly to 0); the article reports 3.2e-3.
"""

SEED, HELD_OUT = 0, 4096


@dataclass(frozen=True, eq=False)
class Regression:
    """y = Σ_i a_i tanh⟨u_i, x⟩ without noise: u_i orthonormal, x ~ N(0, I), so that E y = 0; a such that E y² = 1.

    Losses are mean squared errors, so predicting the mean costs 1.

    Attributes:
        name, digest: for the record; the SHA-256 is of all directions and coefficients, rounded to six decimals.
        directions: u, (`WIDTH`, `UNITS`).
        coefficients: a, (`UNITS`, 1).
        held_out: inputs (`HELD_OUT`, `WIDTH`) and targets (`HELD_OUT`, 1) that no generator of a training run draws.
        linear_loss: exact loss of the best linear prediction.
    """

    name: str
    digest: str
    directions: Tensor
    coefficients: Tensor
    held_out: tuple[Tensor, Tensor]
    linear_loss: float

    @property
    def width(self) -> int:
        """Coordinates of an input."""
        return len(self.directions)

    def target(self, inputs: Tensor) -> Tensor:
        """y, (..., 1), of inputs (..., `WIDTH`)."""
        return _target(inputs, self.directions, self.coefficients)

    def batches(self, generator: torch.Generator, batch: int) -> tuple[Tensor, Tensor]:
        """``batch`` fresh inputs, drawn from ``generator`` (on the CPU), and their targets."""
        inputs = torch.randn(batch, self.width, generator=generator)
        return inputs, self.target(inputs)


@lru_cache
def regression() -> Regression:
    """The task, the same on every machine."""
    random = np.random.Generator(np.random.SFC64(SEED))
    directions, triangle = np.linalg.qr(random.standard_normal((WIDTH, UNITS)))
    directions *= np.sign(np.diag(triangle))  # QR leaves the signs open
    tanh = activation("tanh")
    power, _ = tanh.moments(1.0)
    coefficients = random.standard_normal((UNITS, 1))
    coefficients /= np.linalg.norm(coefficients) * power**0.5
    inputs = torch.from_numpy(random.standard_normal((HELD_OUT, WIDTH))).float()
    digest = sha256(np.rint(1e6 * np.concatenate([directions.ravel(), coefficients.ravel()])).astype("<i8").tobytes()).hexdigest()
    u, a = torch.from_numpy(directions).float(), torch.from_numpy(coefficients).float()
    linear_loss = 1 - mean_slope(tanh, 1.0) ** 2 / power  # Stein: E z tanh(z) = E tanh'(z)
    return Regression("regression", digest, u, a, (inputs, _target(inputs, u, a)), linear_loss)


def _target(inputs: Tensor, directions: Tensor, coefficients: Tensor) -> Tensor:
    return torch.tanh(inputs @ directions) @ coefficients
