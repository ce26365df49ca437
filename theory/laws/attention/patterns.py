"""Attention's maps on exchangeable second moments, from sums over keys of products of two rows of a pattern.

Moments are C = c + (1 − c)δ forward and Γ = g_×  + (g − g_×)δ backward (g_× = gγ). Sums over keys reduce to the power sums
P_pq = Σ_j a_ij^p a_i'j^q of two rows, exactly, at any pattern; leading order in 1/n then keeps p = P_20 and r = P_11.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import sympy

from theory.laws.attention.exchangeable import Pair
from theory.laws.attention.softmax import c, n, overlap, share

# Rows i and i' at the keys j and k, and δ_jk.
_a, _b, _a2, _b2, _same = sympy.symbols("a b a_2 b_2 delta")
square, between = sympy.Symbol("g", positive=True), sympy.Symbol(r"g_\times", real=True)
"""Diagonal and off-diagonal second moment of the gradient at attention's output."""


def power_sum(first: int, second: int = 0) -> sympy.Expr:
    """P_pq of two rows; rows sum to one."""
    if first + second < 2:
        return sympy.Integer(1) if first + second else n
    return {(2, 0): share, (1, 1): overlap}.get((first, second), sympy.Symbol(f"P_{first}{second}", positive=True))


def over_keys(expression: sympy.Expr) -> sympy.Expr:
    """Σ_jk of a polynomial in a_ij, a_ik, a_i'j, a_i'k and δ_jk."""
    total = sympy.Integer(0)
    polynomial = sympy.Poly(sympy.expand(expression), _a, _b, _a2, _b2, _same)
    for (a, b, a2, b2, same), coefficient in polynomial.terms():
        summed = power_sum(a + b, a2 + b2) if same else power_sum(a, a2) * power_sum(b, b2)
        total += coefficient * summed
    return sympy.expand(total)


def one_row(expression: sympy.Expr) -> sympy.Expr:
    """The same with i' = i."""
    merged = {power_sum(p, q): power_sum(p + q) for p in range(4) for q in range(1, 4) if p + q > 1}
    return expression.subs(merged, simultaneous=True)


def leading(expression: sympy.Expr) -> sympy.Expr:
    """Leading order in 1/n, where P_pq is of order n^(1−p−q)."""
    order = sympy.Symbol("o", positive=True)
    orders = {power_sum(p, q): order ** (p + q - 1) * power_sum(p, q) for p in range(4) for q in range(4) if 1 < p + q < 4}
    terms = sympy.Poly(sympy.expand(expression.subs(orders, simultaneous=True)), order).terms()
    return sympy.factor(terms[-1][1])


@dataclass(frozen=True)
class AttentionMaps:
    """Maps of unit gain, in n, c, p, r, the gradient's g and g_×.

    Attributes:
        output: second moments of the output.
        values, queries, keys: of the gradient at the input through each of the three.
        scores: Σ_jk E[P_ij P_i'k] (k_j·k_k)/Γ_ii' at any pattern: of one row, and of two.
        score_at_key: Σ_j E[P_ij P_i'j]/Γ_ii' at any pattern: of one row, and of two.
        scores_total: Σ_jk E[P_ij P_i'k]/Γ_ii', which vanishes: a row's weights sum to one.
    """

    output: Pair
    values: Pair
    queries: Pair
    keys: Pair
    scores: Pair
    score_at_key: Pair
    scores_total: sympy.Expr

    @property
    def backward(self) -> Pair:
        """The whole gradient at the input; its three parts are uncorrelated."""
        return self.values + self.queries + self.keys


@lru_cache(maxsize=1)
def attention_maps() -> AttentionMaps:
    """Derive the maps: forward and values at any n, queries and keys to leading order in 1/n."""
    tokens = c + (1 - c) * _same
    read = over_keys(_a * _b2 * tokens)
    output = Pair(one_row(read), read)

    def over_tokens(of_one: sympy.Expr, of_two: sympy.Expr) -> sympy.Expr:
        """Σ_ii'."""
        return n * of_one + n * (n - 1) * of_two

    def matrix(diagonal: sympy.Expr, total: sympy.Expr) -> Pair:
        """From the mean diagonal entry and the sum of all entries."""
        return Pair(sympy.factor(diagonal), sympy.factor((total - n * diagonal) / (n * (n - 1))))

    at_key, everywhere = over_keys(_a * _a2 * _same), over_keys(_a * _b2)
    values = matrix(
        over_tokens(square * one_row(at_key), between * at_key) / n, over_tokens(square * everywhere, between * everywhere)
    )

    # P_ij = a_ij δ_i·(v_j − o_i); over Gaussian values E P_ij P_i'k = Γ_ii' a_ij a_i'k H_jk.
    spread = tokens - (c + (1 - c) * _b) - (c + (1 - c) * _a2) + read
    scores = over_keys(_a * _b2 * spread * tokens)
    score_at_key = over_keys(_a * _a2 * _same * spread)
    scores_total = over_keys(_a * _b2 * spread)
    queries = Pair(square * leading(one_row(scores)), between * leading(scores))
    keys = matrix(over_tokens(square * leading(one_row(score_at_key)), between * c * leading(score_at_key)) / n, scores_total)
    return AttentionMaps(
        output,
        values,
        queries,
        keys,
        Pair(sympy.factor(one_row(scores)), sympy.factor(scores)),
        Pair(sympy.factor(one_row(score_at_key)), sympy.factor(score_at_key)),
        scores_total,
    )
