"""One SGD step: δy = −η Θ v, with Θ the network's neural tangent kernel over tokens *and* coordinates.

Θ_ij = Σ_W (a_i·a_j)_W P_i P_jᵀ, P_i the Jacobian from W's output at token i to y_i. With as many outputs as the network is
wide, Θ is no multiple of the identity over coordinates: E|Θv|² = tr Θ² exceeds (tr Θ)² by the spread of the singular values.
Kept: all terms of leading order in 1/width, coherent over layers and matrices. Left out: order 1/width (the norms'
projections, the scatter of single networks).
"""

from __future__ import annotations

import numpy as np

from theory.configuration import Configuration
from theory.moments import slope_kernel, squared_slope_kernel
from theory.stack import Profile
from theory.updates.coherent import Coherent
from theory.updates.path import PathStep, path

Array = np.ndarray


def sgd_update(profile: Profile) -> list[float]:
    """E|δy|²/(n·d·η²) at layers 0..L: only the weights of blocks l+1 … L are updated.

    Raises:
        InvalidInput: steps of another form, or a sublayer that mixes tokens.
    """
    configuration = profile.configuration
    tokens = len(profile.backward[0]["x", "x"])
    coherent = Coherent(tokens)
    values = np.zeros(configuration.depth + 1)
    for step in path(profile):
        shared = _shared_reach(configuration, step)
        coherent.add(step, _strengths(configuration, step), shared, shared)
        values[step.layer - 1] = coherent.square.sum() / tokens
    return values.tolist()


def _strengths(configuration: Configuration, step: PathStep) -> dict[str, Array]:
    """(a_i·a_j) τ(R_i R_jᵀ) of each matrix, R from its output to the step's output."""
    reach = np.multiply.outer(step.above, step.above)
    return {
        matrix.name: matrix.shape(configuration.width, configuration.expansion)[0] * step.kernels[matrix.name] * reach
        for matrix in step.maps.matrices
    }


def _shared_reach(configuration: Configuration, step: PathStep) -> dict[str, Array]:
    """ρ of a matrix with itself, and with all that lies below through its branch: the spread of its own reach.

    The two agree because J_F J_Fᵀ is, in the mean over the first matrix, that matrix's reach; D brings in
    τ(D_i²D_j²)/τ(D_iD_j)².
    """
    kernel = slope_kernel(step.maps.activation, step.first_variances)
    slopes = squared_slope_kernel(step.maps.activation, step.first_variances) / np.where(kernel == 0, np.inf, kernel) ** 2
    if len(step.maps.matrices) == 1:
        return {"W": slopes}
    return {"W1": 1 + slopes / configuration.expansion, "W2": np.ones_like(slopes)}
