"""Second moments of tokens read pair by pair: matrices of shape (tokens, tokens)."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def lengths(moments: Array) -> Array:
    """√(M_ii M_jj)."""
    root = np.sqrt(np.diagonal(moments))
    return np.multiply.outer(root, root)


def cosines(moments: Array) -> Array:
    """M_ij / √(M_ii M_jj)."""
    return moments / lengths(moments)


def mean_between(moments: Array) -> float:
    """Mean over pairs of different tokens; at least two tokens."""
    count = len(moments)
    return float((moments.sum() - np.trace(moments)) / (count * (count - 1)))
