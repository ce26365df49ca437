"""One Adam step from rest: every weight moves by −η·sign(∂(v·y)/∂W).

For one token ∂/∂W = a δᵀ, so sign(∂/∂W) = sign(a) sign(δ)ᵀ is exactly rank one and W's output moves by −η‖a‖₁ sign(δ), where
‖a‖₁ = fan_in·E|a|. For a Gaussian gradient sign(δ) = √(2/π) δ/|δ| + rest (δ per coordinate, the rest of variance 1 − 2/π).

* The part along δ is handed up to P_W δ = P_W P_Wᵀ v: it adds *coherently* over layers and matrices, like SGD's, with the same
  excess w of the singular values.
* The rest of sign(δ) adds between blocks only as far as their gradients agree coordinate by coordinate, which the residual
  path keeps: E[rest·rest'] = (2/π)(asin ρ − ρ) at correlation ρ.
* A first matrix W₁ of two moves F by W₂|D|sign(W₂ᵀδ): its part along δ is √(2/π) E|φ'|·√(v₂h/d), the remainder has variance v₂ E φ'²
  and is fresh in every block: *incoherent*.

Kept: these three at leading order in 1/width. Left out: order 1/width, and Adam's ε. Weights with a gradient of exactly 0
(behind a ReLU that is off) do not move.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, sqrt

import numpy as np

from theory.configuration import Configuration
from theory.errors import InvalidInput
from theory.stack import Profile
from theory.updates.coherent import Coherent
from theory.updates.path import PathStep, path

Array = np.ndarray


@dataclass(frozen=True)
class SignStep:
    """How one matrix's sign step moves its sublayer's output, per coordinate of F and per unit of η.

    Attributes:
        aligned: coefficient of δ/|δ| (δ at F, per coordinate).
        rest: coefficient of sign(δ) − √(2/π) δ.
        fresh: variance of what is independent of all other matrices.
        shared: overlap of ``aligned`` with the path through the matrix's own branch.
    """

    aligned: float
    rest: float
    fresh: float
    shared: float


def adam_update(profile: Profile) -> list[float]:
    """E|δy|²/(n·d·η²) at layers 0..L for one token: only the weights of blocks l+1 … L are updated.

    Raises:
        InvalidInput: more than one token, several streams, a sublayer that mixes tokens.
    """
    configuration = profile.configuration
    if len(profile.backward[0]["x", "x"]) > 1:
        raise InvalidInput("adam-update is predicted for one token, whose gradients have rank one: use --tokens 1, or measure")
    coherent, elementwise, fresh = Coherent(1), _Elementwise(), 0.0
    values = np.zeros(configuration.depth + 1)
    for step in path(profile):
        signs = _sign_steps(configuration, step)
        above, upstream = abs(float(step.above[0])), float(step.gradient[0])
        # P_W δ/|δ| is J Jᵀv·above/√g, with J what lies above the step and g its squared gain.
        coherent.add(
            step,
            {name: np.array([[sign.aligned * above / sqrt(upstream)]]) for name, sign in signs.items()},
            dict.fromkeys(signs, np.ones((1, 1))),
            {name: np.array([[sign.shared]]) for name, sign in signs.items()},
        )
        elementwise.add(above * sum(sign.rest for sign in signs.values()), upstream, float(step.direct[0]))
        fresh += above**2 * upstream * sum(sign.fresh for sign in signs.values())
        values[step.layer - 1] = float(coherent.square[0, 0]) + elementwise.square + fresh
    return values.tolist()


class _Elementwise:
    """Running second moment of the rests of sign(δ), whose coordinates the residual path keeps in place."""

    def __init__(self) -> None:
        self.square = 0.0
        self._above: Array = np.zeros((0, 3))
        """(amplitude, squared gradient, product of direct coefficients down to here) of every step above."""

    def add(self, amplitude: float, upstream: float, direct: float) -> None:
        amplitudes, gradients, kept = self._above.T
        correlation = np.clip(kept * np.sqrt(gradients / upstream), -1.0, 1.0)
        agreement = 2 / pi * (np.arcsin(correlation) - correlation)
        self.square += amplitude**2 * upstream * (1 - 2 / pi) + 2 * amplitude * float(amplitudes @ (gradients * kept * agreement))
        self._above = np.vstack([self._above, [amplitude, upstream, 1.0]])
        self._above[:, 2] *= direct


def _sign_steps(configuration: Configuration, step: PathStep) -> dict[str, SignStep]:
    activation, variance = step.maps.activation, float(step.first_variances[0, 0])
    slope, square, cube = (
        activation.expectation(lambda z, k=k: np.abs(activation.derivative(z)) ** k, variance) for k in (1, 2, 3)
    )
    along, expansion = sqrt(2 / pi), configuration.expansion
    entering = configuration.width * along * sqrt(float(step.moments[0, 0]))
    if len(step.maps.matrices) == 1:
        aligned = entering * slope
        return {"W": SignStep(along * aligned, aligned, entering**2 * (square - slope**2), cube / (square * slope))}
    output = step.variances["W2"]
    hidden = configuration.width * expansion * activation.expectation(lambda z: np.abs(activation.value(z)), variance)
    first = SignStep(
        along * entering * slope * sqrt(output * expansion),
        0.0,
        entering**2 * output * square,
        1 + cube / (square * slope) / expansion,
    )
    return {"W1": first, "W2": SignStep(along * hidden, hidden, 0.0, 1.0)}
