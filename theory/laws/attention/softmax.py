"""Second moments of softmax weights over Gaussian logits, for exchangeable tokens of cosine c.

At infinite width and head width the logits ℓ_ij = q_i·k_j/√d_h have E ℓ_ij ℓ_i'k = C_ii' C_jk with C_ii = 1, C_ij = c.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import sympy

n = sympy.Symbol("n", integer=True, positive=True)
"""Tokens."""
c = sympy.Symbol("c", positive=True)
"""Cosine between two of them."""
variance, covariance = sympy.Symbol("tau^2", positive=True), sympy.Symbol(r"tau_\times^2", positive=True)
"""Of what a row's logits do not share (τ²), and of that between two rows at the same key (τ_×²)."""
share, overlap = sympy.Symbol("p", positive=True), sympy.Symbol("r", positive=True)
"""p = Σ_j E a_ij² of one row, r = Σ_j E a_ij a_i'j of two."""


@dataclass(frozen=True)
class Softmax:
    """Each entry a sympy expression in n and c, or in n, τ² and τ_×² where it says so.

    Attributes:
        variance, covariance: τ² and τ_×² in c.
        moment: E exp(t z) of a Gaussian z of variance τ², in t.
        share, overlap: p and r in n, τ² and τ_×².
    """

    variance: sympy.Expr
    covariance: sympy.Expr
    moment: sympy.Expr
    share: sympy.Expr
    overlap: sympy.Expr

    @property
    def values(self) -> dict[sympy.Symbol, sympy.Expr]:
        """p and r in n and c."""
        at_cosine = {variance: self.variance, covariance: self.covariance}
        return {share: self.share.subs(at_cosine), overlap: self.overlap.subs(at_cosine)}


t = sympy.Symbol("t", real=True)


@lru_cache(maxsize=1)
def softmax() -> Softmax:
    """Derive the moments.

    A ratio of expectations stands for the expectation of a softmax; rows then sum to 1 exactly, and the relative error is
    of order 1/n.
    """
    row, rows = _unshared(sympy.Integer(1)), _unshared(c)
    z = sympy.Symbol("z", real=True)
    density = sympy.exp(-(z**2) / (2 * variance)) / sympy.sqrt(2 * sympy.pi * variance)
    moment = sympy.simplify(sympy.integrate(sympy.exp(t * z) * density, (z, -sympy.oo, sympy.oo)))
    one = moment.subs(t, 1)
    twice = moment.subs(t, 2)
    # z_ij + z_i'j is Gaussian of variance 2τ² + 2τ_×².
    both = moment.subs(t, 1).subs(variance, 2 * variance + 2 * covariance)
    return Softmax(row, rows, moment, _ratio(twice, one), _ratio(both, one))


def _unshared(queries: sympy.Expr) -> sympy.Expr:
    """Half of E (ℓ_ij − ℓ_ik)(ℓ_i'j − ℓ_i'k): what all keys of a row share drops out of the softmax."""

    def logits(same_key: bool) -> sympy.Expr:
        return queries * (1 if same_key else c)

    return sympy.factor((2 * logits(True) - 2 * logits(False)) / 2)


def _ratio(same_key: sympy.Expr, single: sympy.Expr) -> sympy.Expr:
    """n E[x_j y_j]/E[Σ_j x_j Σ_k y_k], keys independent given what they share."""
    total = n * same_key + n * (n - 1) * single**2
    return sympy.simplify(1 / sympy.expand(sympy.powsimp(sympy.expand(total / (n * same_key)))))
