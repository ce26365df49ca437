"""How far independent relative perturbations of the weights move the output (Liu et al. 2020)."""

import numpy as np

from theory.parameters import matrix_gradients
from theory.prediction import Profile, Quantity


def _read(profile: Profile) -> list[float]:
    """With an isotropic unit gradient v, E‖δy‖² = δ² Σ_W Var(W) E‖∂(v·y)/∂W‖_F²: each matrix moves the output on its own."""
    coordinates = profile.configuration.width * len(profile.backward[0]["x", "x"])
    blocks = [
        sum(matrix.variance / matrix.fan_in * matrix.square for matrix in block) / coordinates
        for block in matrix_gradients(profile)
    ]
    return [*np.cumsum(blocks[::-1])[::-1].tolist(), 0.0]


QUANTITY = Quantity(
    name="output-sensitivity",
    definition="E|y(W + δ·W̃) − y(W)|²/(n·d·δ²) as δ → 0, W̃ an independent copy of every weight matrix W of blocks l+1 … L",
    read=_read,
    isotropic=True,
    fresh=True,
)
