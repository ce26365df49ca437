"""What an update has to know of each step of a stack: how it hands a change on, for every pair of tokens.

With B_i = a_i·1 + b_i·J_F,i the Jacobian of a step at token i, and τ the trace over the width, in free probability:

* χ_ij = τ(B_i B_jᵀ) = a_i a_j + b_i b_j κ_ij, the gain between tokens;
* V_ij = τ(B_iᵀB_i B_jᵀB_j)/(χ_ii χ_jj) − 1, the overlap of the two tokens' singular values; for i = j the variance V
  of the normalised squared singular values, which is what tells Θ² from (τ Θ)²;
* along a stack the excess w_ij = τ(H_i H_j)/(τH_i τH_j) − 1 of H = JᵀJ obeys w' = V_ij + χ_ij²/(χ_ii χ_jj) w.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from theory.configuration import Configuration
from theory.errors import InvalidInput
from theory.finite_width.paths import TWO_PATHS, derived
from theory.moments import Activation, slope_kernel, squared_slope_kernel
from theory.pairs import cosines
from theory.stack import Profile, SublayerStep
from theory.sublayers import AppliedTokenWise, TokenWise

Array = np.ndarray


@dataclass(frozen=True)
class PathStep:
    """One sublayer step; all arrays (tokens, tokens) unless said otherwise.

    Attributes:
        maps, moments: the sublayer and the second moments of its argument.
        variances: weight variance times fan-in of its matrices.
        kernels: each matrix's part of the sublayer's tangent kernel over its fan-in.
        above: coefficient from the gradient at the step's output to the gradient at F, (tokens,).
        direct: coefficient of the direct path, (tokens,).
        straight, branch: the two parts of χ_ij.
        spread: V_ij.
        gradient: squared gradient per coordinate at the step's output, (tokens,).
    """

    layer: int
    maps: TokenWise
    moments: Array
    variances: Mapping[str, float]
    kernels: Mapping[str, Array]
    above: Array
    direct: Array
    straight: Array
    branch: Array
    spread: Array
    gradient: Array

    @property
    def gain(self) -> Array:
        """χ_ij."""
        return self.straight + self.branch

    @property
    def first_variances(self) -> Array:
        """Second moments of the first pre-activations."""
        return self.variances[self.maps.matrices[0].name] * self.moments


def path(profile: Profile) -> Iterator[PathStep]:
    """The steps of a stack from the output down.

    Raises:
        InvalidInput: steps of another form, or a sublayer that mixes tokens.
    """
    configuration = profile.configuration
    if not derived(configuration.variant):
        raise InvalidInput(f"no law for the updates of {configuration.variant.name}: {TWO_PATHS}; measure instead")
    for layer in range(configuration.depth, 0, -1):
        for step in reversed(profile.blocks[layer - 1]):
            yield _path_step(configuration, layer, step)


def _path_step(configuration: Configuration, layer: int, step: SublayerStep) -> PathStep:
    maps = step.maps
    if not isinstance(maps, TokenWise):
        raise InvalidInput(f"updates are predicted for token-wise sublayers, not for {maps.name}: measure instead")
    ((node, _),) = step.gradients.at_sublayers.items()
    if "middle" in dict(node.inner):
        raise InvalidInput("updates are not predicted through a norm in a sublayer's middle: measure instead")
    assert isinstance(step.applied, AppliedTokenWise)
    moments, variances, kernels = step.entering, step.weights.variances, step.applied.tangent_kernels
    ones = np.ones(len(moments))
    above = step.gradients.forms[node].get(("∂", "x"), 0.0) * ones
    form = step.gradients.form("x")
    direct = form.get(("∂", "x"), 0.0) * ones
    below = above * form[("J", node)]
    kernel = step.applied.backward(np.ones_like(moments))
    straight, branch = np.multiply.outer(direct, direct), np.multiply.outer(below, below) * kernel
    gradient = np.diagonal(step.gradients.gram[("∂", "x"), ("∂", "x")])
    spread = _overlap(maps, variances, moments, straight, branch, configuration.expansion)
    return PathStep(layer, maps, moments, variances, kernels, above, direct, straight, branch, spread, gradient)


def _overlap(maps: TokenWise, variances: Mapping[str, float], moments: Array, straight: Array, branch: Array, e: int) -> Array:
    """V_ij from the paths' gains; the cross term of the two paths counts twice, R-diagonality removes the odd ones."""
    first = variances[maps.matrices[0].name] * moments
    of_slopes = slopes_overlap(maps.activation, first)
    correlation = cosines(slope_kernel(maps.activation, first))
    fourth = 1 + correlation**2 + of_slopes / e if len(maps.matrices) == 2 else 1 + of_slopes
    (a, b), own = (np.diagonal(straight), np.diagonal(branch)), np.diagonal(straight + branch)
    mixed = np.multiply.outer(a, a) + np.multiply.outer(a, b) + np.multiply.outer(b, a) + np.multiply.outer(b, b) * fourth
    return (mixed + 2 * straight * branch) / np.multiply.outer(own, own) - 1


def slopes_overlap(activation: Activation, moments: Array) -> Array:
    """E φ'(u_i)²φ'(u_j)² / (E φ'(u_i)² E φ'(u_j)²)."""
    squares = np.diagonal(slope_kernel(activation, moments))
    return squared_slope_kernel(activation, moments) / np.multiply.outer(squares, squares)
