"""One Adam step from rest: every weight moves by −η·sign(∂(v·y)/∂W).

With the statistics of `theory.updates.signs`, three kinds of terms are kept, at leading order in 1/width:

* what a sign step does along the gradients δ is handed up to P δ = P Pᵀ v and adds *coherently* over layers, matrices and
  tokens, as in SGD, with the same spread of singular values;
* the rest of sign(δ) adds between blocks as far as their gradients agree coordinate by coordinate, which the residual path
  keeps: (2/π)(asin ρ − ρ) at correlation ρ (exact for one token; for several the same shape in ρ is used);
* the rest of a first matrix W₁ of two, mixed by W₂, is fresh in every block and adds *incoherently*.

Left out: order 1/width, and Adam's ε. Weights with a gradient of exactly 0 (behind a ReLU that is off) do not move.
"""

from __future__ import annotations

from math import pi

import numpy as np

from theory.stack import Profile
from theory.updates.coherent import Coherent
from theory.updates.path import path
from theory.updates.signs import sign_steps

Array = np.ndarray


def adam_update(profile: Profile) -> list[float]:
    """E|δy|²/(n·d·η²) at layers 0..L: only the weights of blocks l+1 … L are updated.

    Raises:
        InvalidInput: steps of another form, a sublayer that mixes tokens.
    """
    configuration = profile.configuration
    tokens = len(profile.backward[0]["x", "x"])
    coherent, elementwise, fresh = Coherent(tokens), _Elementwise(tokens), np.zeros(tokens)
    values = np.zeros(configuration.depth + 1)
    for step in path(profile):
        signs = sign_steps(configuration, step)
        above, root = np.abs(step.above), np.sqrt(step.gradient)
        # P δ/|δ| is J Jᵀv·above/√g, with J what lies above the step and g its squared gain.
        strengths = {name: above[:, None] * sign.aligned / root for name, sign in signs.items()}
        own = dict.fromkeys(signs, np.ones((tokens, tokens)))
        coherent.add(step, strengths, own, {name: sign.shared for name, sign in signs.items()})
        elementwise.add(above * sum(sign.rest for sign in signs.values()), step.gradient, step.direct)
        fresh = fresh + above**2 * step.gradient * sum(sign.fresh for sign in signs.values())
        values[step.layer - 1] = coherent.square.sum() / tokens + (elementwise.square + fresh).mean()
    return values.tolist()


class _Elementwise:
    """Running second moment, by token, of the rests of sign(δ), whose coordinates the residual path keeps in place."""

    def __init__(self, tokens: int) -> None:
        self.square = np.zeros(tokens)
        self._amplitudes, self._gradients, self._kept = (np.zeros((0, tokens)) for _ in range(3))

    def add(self, amplitude: Array, upstream: Array, direct: Array) -> None:
        """Add a step's rest (root mean squares at its output), then go down the direct path."""
        correlation = np.clip(self._kept * np.sqrt(self._gradients / upstream), -1.0, 1.0)
        agreement = (np.arcsin(correlation) - correlation) / (pi / 2 - 1)
        meeting = (self._amplitudes * self._gradients * self._kept * agreement).sum(axis=0)
        self.square = self.square + amplitude**2 * upstream + 2 * amplitude * meeting
        self._amplitudes = np.vstack([self._amplitudes, amplitude])
        self._gradients = np.vstack([self._gradients, upstream])
        self._kept = np.vstack([self._kept, np.ones_like(direct)]) * direct
