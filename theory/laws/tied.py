"""The law of blocks that share their weights: powers of one matrix in place of products of fresh ones.

With the same W in every block the gradient at the input of m blocks x + F(x), F linear, is (1 + Wᵀ)^m of the output's, a
polynomial in Wᵀ; its powers are orthogonal, so the squares of the *sums* of coefficients add, not the coefficients' own.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
import sympy

from theory.algebra import Variant
from theory.configuration import Configuration
from theory.errors import InvalidInput, NoClosedForm
from theory.laws.asymptotics import Growth
from theory.laws.proof import Proof, compare
from theory.laws.recursion import Step, generic_moments, q, symbolic_step
from theory.laws.steps import DerivationStep, formula
from theory.prediction import mean_square
from theory.stack import profile
from theory.sublayers import SublayerMaps

blocks = sympy.Symbol("m", integer=True, nonnegative=True)
"""Number of blocks up to the output."""
_power = sympy.Symbol("k", integer=True, nonnegative=True)
_SIZE, _POINTS = 10**3, 6
_DEPTHS = (50, 100, 200)  # far enough for a rate, and no square overflows


@dataclass(frozen=True)
class TiedLaw:
    """m blocks a·x + b·F(x) with the same linear F of gain κ².

    Attributes:
        direct, branch: a², and b²κ².
        gain: E|∂𝓛/∂x|² over the output's, a sum over powers of W.
        fresh: the same with fresh weights in every block.
        growth: class of ``gain`` in m.
        proof: the exact comparison with the recursion of second moments.
    """

    direct: sympy.Expr
    branch: sympy.Expr
    gain: sympy.Expr
    fresh: sympy.Expr
    growth: Growth
    proof: Proof

    def at(self, count: int, branch: sympy.Expr | int) -> sympy.Expr:
        """The gain of ``count`` blocks for a number κ² (constants stay symbols)."""
        (kappa,) = (moments.gain for moments in generic_moments(1))
        return sympy.expand(_binomials(self.direct, self.branch.subs(kappa, branch), count))


@lru_cache(maxsize=64)
def derive_tied(variant: Variant) -> TiedLaw:
    """Derive the law from the variant's expression, for one linear sublayer a block.

    Raises:
        NoClosedForm: norms in the block, several streams, places or constants that change from block to block.
        ArithmeticError: the sum failed the exact comparison (a bug).
    """
    step = one_step(variant)
    if step.direct.has(q) or step.branch.has(q) or step.forward == 1:
        raise NoClosedForm("a norm follows the stream's length, which depends on all powers of W")
    (moments,) = generic_moments(1)
    direct, branch = sympy.factor(step.direct**2), sympy.factor(step.branch**2 * moments.gain)
    return TiedLaw(
        direct=direct,
        branch=branch,
        gain=_sum(direct, branch),
        fresh=(direct + branch) ** blocks,
        growth=_growth(direct, branch),
        proof=_prove(direct, branch),
    )


def one_step(variant: Variant) -> Step:
    """A block's walk, whose two coefficients do not depend on whether its weights are used again.

    Raises:
        NoClosedForm: as `symbolic_step`.
    """
    (moments,) = generic_moments(1)
    return symbolic_step(replace(variant, tied=False), moments)


def _sum(direct: sympy.Expr, branch: sympy.Expr) -> sympy.Expr:
    if direct == 0:
        return branch**blocks
    terms = sympy.binomial(blocks, _power) ** 2 * direct ** (blocks - _power) * branch**_power
    return sympy.Sum(terms, (_power, 0, blocks))


def _binomials(direct: sympy.Expr, branch: sympy.Expr, count: int) -> sympy.Expr:
    return sum(
        (sympy.binomial(count, k) ** 2 * direct ** (count - k) * branch**k for k in range(count + 1)), start=sympy.Integer(0)
    )


def _growth(direct: sympy.Expr, branch: sympy.Expr) -> Growth:
    """Laplace and Heine's formula for Legendre polynomials (Szegő 1975, theorem 8.21.1)."""
    exponent = sympy.Integer(0) if direct == 0 else -sympy.Rational(1, 2)
    return Growth((sympy.sqrt(direct) + sympy.sqrt(branch)) ** 2, exponent)


def _prove(direct: sympy.Expr, branch: sympy.Expr, seed: int = 0) -> Proof:
    """The sum over powers against the recursion of second moments, both exact, at random rationals.

    Raises:
        ArithmeticError: they differ.
    """
    draw, depths = random.Random(seed), []
    free = sorted(direct.free_symbols | branch.free_symbols, key=str)
    for _ in range(_POINTS):
        total = draw.randint(2, 12)
        point = {symbol: sympy.Rational(draw.randint(1, _SIZE), draw.randint(1, _SIZE)) ** 2 for symbol in free}
        a2, b2 = direct.subs(point), branch.subs(point)
        compare("gradient", recursion(sympy.sqrt(a2), b2, total), _binomials(a2, b2, total), total)
        depths.append(total)
    return Proof(_POINTS, tuple(depths))


def recursion(direct: sympy.Expr, branch: sympy.Expr, count: int) -> sympy.Expr:
    """E|g_m|² of g_{j+1} = a g_j + b J(g_j), from E J(g_i)·J(g_j) = κ² E g_i·g_j and E g_0·J(g_j) = 0, entry by entry.

    Args:
        direct: a.
        branch: b²κ².
        count: m.
    """
    # rows[j] holds E g_i·g_j and E g_i·bJ(g_j) for i ≤ the current block.
    both = [[sympy.Integer(1)]]
    crossed = [[sympy.Integer(0)]]
    for block in range(count):
        for i in range(block + 1):
            if i:
                crossed[i].append(direct * crossed[i - 1][block] + branch * both[i - 1][block])
            elif block:
                crossed[0].append(sympy.Integer(0))
        # E g_{block+1}·bJ(g_j) needs E g_block·bJ(g_j) for all j up to block.
        crossed.append([direct * crossed[block][j] + branch * both[block][j] for j in range(block + 1)])
        new = [direct * both[block][i] + crossed[i][block] for i in range(block + 1)]
        both.append([*new, direct * new[block] + crossed[block + 1][block]])
        for i in range(block + 1):
            both[i].append(new[i])
    return both[count][count]


def tied_steps(variant: Variant, sublayers: tuple[SublayerMaps, ...]) -> Iterable[DerivationStep]:
    """From shared weights to the law, with numbers for ``sublayers`` where they are given."""
    yield DerivationStep(
        "Model",
        "All blocks share one block's weights, independent with zero mean, and the width goes to infinity. The forward pass uses "
        "W again and again, never its transpose: all W a are jointly Gaussian over blocks and tokens, with covariance κ² E a·a'; "
        "backwards Wᵀ may be taken as fresh (gradient independence, as in Tensor Programs). So E F(x_l)·F(x_j) is F's kernel K "
        "at the cosine of x_l and x_j, and E J_lᵀδ_l·J_jᵀδ_j = K̇ E δ_l·δ_j: a block's tokens are more tokens of one sublayer. "
        "predict walks that.",
    )
    try:
        if len(sublayers) > 1:
            raise NoClosedForm("several sublayers a block: words in several matrices")
        step = one_step(variant)
        yield DerivationStep(
            "Powers of one matrix",
            "For a linear sublayer each gradient is a polynomial in Wᵀ applied to the output's gradient, and powers of a matrix "
            "with independent entries are orthogonal: the trace counts pairings of W with Wᵀ, and only the nested one survives.",
            r"\tfrac1d E\,\mathrm{tr}\,(W^{\mathsf T})^j W^k = \delta_{jk}\,\kappa^{2k}",
            "E tr (Wᵀ)^j W^k/d = δ_jk κ^(2k)",
        )
        normalised = step.direct == 1 and step.branch == 1 / sympy.sqrt(q)
        yield from _normalised_steps() if normalised else _plain_steps(derive_tied(variant))
    except NoClosedForm as reason:
        yield DerivationStep(
            "No closed form", f"{reason}. The numeric recursion over all pairs of blocks still holds: predict uses it."
        )
    yield from _numbers(variant, sublayers)


def _plain_steps(law: TiedLaw) -> Iterable[DerivationStep]:
    left, text = r"\frac{E|\partial\mathcal{L}/\partial x_{L-m}|^2}{E|\partial\mathcal{L}/\partial x_L|^2}", "G(m)"
    yield DerivationStep(
        "Law, linear sublayer",
        "The direct path and the branch add in amplitude: W^k is reached on binomial(m, k) ways, and that number is squared. The "
        "stream's second moment follows the same sum upwards."
        if law.direct
        else "One way only, W^m: tying changes nothing.",
        *formula(left, law.gain, text),
    )
    yield DerivationStep(
        "Law, fresh weights", "There every way has matrices of its own, and squares of ways add.", *formula(left, law.fresh, text)
    )
    yield DerivationStep(
        "Proof",
        f"Sum and recursion of second moments agree exactly at {law.proof.points} random rational points, depths "
        f"{law.proof.depths}.",
    )
    yield DerivationStep(
        "Finite width",
        "Blocks fluctuate together, not independently: the variance over networks of log G is of order m²/d, not m/d. The mean "
        "of squares is then carried by few networks once m² is of order d.",
    )
    if not law.direct:
        yield DerivationStep("Asymptotic class", f"{law.growth.describe('m')}, as with fresh weights.")
        return
    z = law.branch / law.direct
    yield DerivationStep(
        "Legendre polynomials",
        "The sum is one, at an argument beyond 1; equal weights on both paths give the central binomial coefficient.",
        *formula(left, law.direct**blocks * sympy.hyper((-blocks, -blocks), (1,), z), text),
    )
    if law.direct == 1 and law.branch.is_Symbol:
        yield DerivationStep(
            "Law at equal paths",
            "binomial(2m, m) ~ 4^m/√(πm), against 2^m for fresh weights.",
            *formula(left, sympy.binomial(2 * blocks, blocks), "G(m) at κ² = 1"),
        )
    yield DerivationStep(
        "Asymptotic class",
        f"{law.growth.describe('m')} (Laplace and Heine: the largest term of the sum, a Gaussian around it); with fresh weights "
        f"{Growth(law.direct + law.branch, sympy.Integer(0)).describe('m')}. A branch of gain κ² is felt at κm of order one, not "
        "at κ²m.",
    )
    yield DerivationStep(
        "Other sublayers",
        "Slope kernels between different blocks lie between 0 and κ² where φ' is not negative: G lies between the fresh and the "
        "linear law. For homogeneous F neighbouring blocks grow alike (their cosine tends to 1), and the stream's rate is found "
        "to tend to the linear one; a slope kernel falls as √(1 − cosine) below it, so that the gradient's rate does so slowly.",
    )


def _normalised_steps() -> Iterable[DerivationStep]:
    yield DerivationStep(
        "Law, linear sublayer",
        "The norms before the branch divide W by √q_j: a polynomial with roots of different sizes, whose coefficients are "
        "elementary symmetric sums e_k. The stream has the same coefficients, so q_L = q₀ G(0→L), and behind a final norm "
        "E|∂𝓛/∂x_0|² = 1/q₀ exactly, whatever L.",
        r"G(l\to L) = \sum_k \kappa^{2k}\, e_k\big(q_l^{-1/2},\dots,q_{L-1}^{-1/2}\big)^2",
        "G(l→L) = Σ_k κ^(2k) e_k(1/√q_l, …, 1/√q_(L−1))²",
    )
    yield DerivationStep(
        "Asymptotic class",
        "For many blocks ∏(1 + W/√q_j) tends to exp(tW), t = Σ 1/√q_j, and q = q₀ Σ_k (κt)^(2k)/k!² = q₀ I₀(2κt); dt/dl = 1/√q "
        "then gives √q ~ κ l: the stream grows as l², with fresh weights as l. Behind a final norm the gradient at fixed l is "
        "flat in L, and falls as about 1/l² across layers, up to powers of log l.",
        r"q_l \sim \kappa^2 l^2",
        "q_l ~ κ² l²",
    )


def _numbers(variant: Variant, sublayers: tuple[SublayerMaps, ...]) -> Iterable[DerivationStep]:
    """Numbers of the recursion itself, for token-wise sublayers."""
    if not sublayers or not all(maps.tokenwise for maps in sublayers):
        return
    names, logs = tuple(maps.name for maps in sublayers), []
    for depth in _DEPTHS:
        with np.errstate(all="ignore"):
            try:
                found = profile(Configuration(variant, names, depth), 1)
            except InvalidInput:  # predict says why
                return
            ends = mean_square(found.forward[-1]), mean_square(found.backward[0])
        if not np.all(np.isfinite(ends)):
            return
        logs.append(np.log(ends))
    rates = [
        np.exp((above - below) / (deep - shallow))
        for (shallow, below), (deep, above) in pairwise(zip(_DEPTHS, logs, strict=True))
    ]
    between = [f"{a} to {b} blocks" for a, b in pairwise(_DEPTHS)]
    yield DerivationStep(
        f"Numbers for {','.join(names)}",
        "Factor a block on the stream's second moment at the output and on the squared gradient at the input, by the recursion: "
        + "; ".join(f"{where}, {rate[0]:.5g} and {rate[1]:.5g}" for where, rate in zip(between, rates, strict=True))
        + ".",
    )
