"""One step's Jacobian J = a·1 + b·J_F as a free-probability law, from the gains of its two paths.

J_F is R-diagonal (it ends in a Gaussian matrix), so the symmetrised singular-value laws of a·1 and b·J_F add freely
(Haagerup & Larsen 2000, proposition 3.5; a·1 may be turned by a Haar unitary without changing |J|). For a symmetric law
whose square has the S-transform S, the free cumulant transform is C(√w) = ψ where w = ψ(1 + ψ) S(ψ) (Arizmendi &
Pérez-Abreu 2009, theorem 6). So with A = a², B = b²κ² and T = J_F J_Fᵀ/κ²:

    branch   w = t(1 + t) S_T(t)/B            direct path   u = (−1 + √(1 + 4 A w))/2
    together ψ = t + u                        step          S_J(ψ) = w/(ψ(1 + ψ))

a curve with parameter t. The outermost Gaussian matrix of a sublayer gives S_T the factor 1/(1 + t), which leaves w = t g(t)/B.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from theory.sublayers.base import Factor

Array = np.ndarray
_ITERATIONS, _ACCURACY = 60, 1e-13
_LONGEST = 3.0  # step in log t: a table of slopes has a kink, from which a full step may leave the range of floats


@dataclass(frozen=True)
class StepLaws:
    """The laws of steps 1..k of a stack, each scaled to mean one.

    Args:
        direct, branch: A and B of each step, shape (k,); their scale drops out.
        factors: g of each step's sublayer.
    """

    direct: Array
    branch: Array
    factors: Sequence[Factor]

    def log_transforms(self, psi: Array) -> Array:
        """log S of each step at ψ > 0, shape (k, ψ's).

        Raises:
            ArithmeticError: Newton's iteration did not reach its accuracy.
        """
        total = self.direct + self.branch
        found = np.zeros((len(total), len(psi)))  # log S of a step without a branch
        for factor in dict.fromkeys(self.factors):  # steps of one kind are solved together
            own = np.array([other is factor for other in self.factors]) & (self.branch > 0)
            found[own] = _solve((self.direct / total)[own, None], (self.branch / total)[own, None], factor, psi)
        return found


def _solve(direct: Array, branch: Array, factor: Factor, psi: Array) -> Array:
    """Newton's iteration for log t at log ψ, then log S."""
    t = np.broadcast_to(psi, (len(direct), len(psi)))
    target = np.log(psi)
    for _ in range(_ITERATIONS):
        log_g, slope = factor(t)
        w = t * np.exp(log_g) / branch
        root = np.sqrt(1 + 4 * direct * w)
        reached = t + 2 * direct * w / (1 + root)
        miss = np.log(reached) - target
        if np.abs(miss).max() < _ACCURACY:
            return np.log(w) - target - np.log1p(psi)
        rise = (t + direct * w / root * (1 + t * slope)) / reached
        t = t * np.exp(np.clip(-miss / rise, -_LONGEST, _LONGEST))
    raise ArithmeticError(f"the S-transform of a step was found only to {np.abs(miss).max():.1e}")
