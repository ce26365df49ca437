"""Attention patterns behind norms on queries, keys and values, head by head, and on what enters the output matrix.

Here a point of the quadrature draws a head's queries and keys coordinate by coordinate and normalises them. Gradients
through a norm are divided by the root mean square σ of what it normalised, token by token, and lose their parts along that
and (LayerNorm) along the mean. All of this is of order one or 1/d_h, and kept:

* logits q̂·k̂/√d_h and the Gram matrices of q̂, k̂ and 1/σ are those of the sampled heads;
* of a query's gradient Σ_j P_ij k̂_j the part along q̂_i is Σ_j P_ij ℓ_ij/√d_h, ℓ the logits. Its square is taken off the length
  exactly; the cosines between tokens' gradients are left as they are (a difference of order 1/(n d_h)). Keys alike;
* values are Gaussian given the tokens, so E v̂_j·v̂_k/d_h and the mean of Π_jΠ_k/(σ_jσ_k) over a value's coordinates are
  functions of their cosine, here to first order in 1/d_h;
* the norm before W_O divides by the root mean square over all heads, so points are drawn in networks of as many heads. Its
  projection is of order 1/width.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from theory.errors import InvalidInput
from theory.sublayers.base import Array, Surroundings, Weights
from theory.sublayers.patterns import Patterns, mt, normal, softmax, tokens_drawn, told_apart

_LEAST = 3  # directions of a head's normalised vectors from which E 1/σ² is finite


@dataclass(frozen=True, kw_only=True)
class NormedPatterns(Patterns):
    """Points of the quadrature as in `Patterns`, whose methods include the norms.

    Attributes:
        entering: second moments of the tokens; ``gram`` is of the values themselves here, behind their norm.
        logits: ℓ, masked ones 0; of keys as in ``keys``.
        head_width: d_h.
        query_divisor, key_divisor: σ of each token, (points, tokens), None without that norm.
        value_factor: of a value's gradient, (points, tokens, tokens), None without that norm.
        middle: root mean squares over the network of what enters W_O, (points, tokens), None without that norm.
    """

    entering: Array
    logits: Array
    head_width: int
    query_divisor: Array | None = None
    key_divisor: Array | None = None
    value_factor: Array | None = None
    middle: Array | None = None

    @property
    def tokens(self) -> Array:
        return self.entering

    def rows(self) -> Array:
        return self._divided(super().rows())

    def values(self, gradient: Array) -> Array:
        found = super().values(self._divided(gradient))
        return found if self.value_factor is None else found * self.value_factor

    def at_queries(self, gradient: Array) -> Array:
        gradient = self._divided(gradient)
        found = super().at_queries(gradient)
        if self.query_divisor is None:
            return found
        a, c = self.attention, self.gram
        b = a * self.logits
        sums, read = b.sum(axis=2), a @ c
        along = ((b @ c - 2 * sums[:, :, None] * read) * b).sum(axis=2) + sums**2 * (read * a).sum(axis=2)
        along = along * np.diagonal(gradient, axis1=-2, axis2=-1) / self.enlarged**2
        return self._below(found, along, self.query_divisor)

    def at_keys(self, gradient: Array) -> Array:
        gradient = np.broadcast_to(self._divided(gradient), self.attention.shape)
        found = super().at_keys(gradient)
        if self.key_divisor is None:
            return found
        a, c = self.attention, self.gram
        b, read = a * self.logits, a @ c
        weighted = gradient @ b
        along = np.diagonal(c, axis1=1, axis2=2) * (b * weighted).sum(axis=1) - 2 * (b * read * weighted).sum(axis=1)
        along = (along + (b * ((gradient * (read @ mt(a))) @ b)).sum(axis=1)) / self.enlarged
        return self._below(found, along, self.key_divisor)

    def _divided(self, moments: Array) -> Array:
        """What the norm before W_O leaves of its input, or of a gradient at its output."""
        return moments if self.middle is None else moments / _outer(self.middle)

    def _below(self, found: Array, along: Array, divisor: Array) -> Array:
        """Below the norm of queries or keys: less the squared part ``along`` what was normalised, over its root mean square."""
        own = np.diagonal(found, axis1=1, axis2=2)
        lost = np.divide(along, self.head_width * own, out=np.zeros_like(own), where=own > 0)
        return found * _outer(np.sqrt(np.clip(1 - lost, 0.0, None)) / divisor)


def normed_sample(moments: Array, weights: Weights, around: Surroundings) -> NormedPatterns:
    """Draw the points for tokens of second moments ``moments``, (tokens, tokens), behind the norms of ``around.inner``.

    Raises:
        InvalidInput: heads so narrow that gradients behind a norm have no second moment.
    """
    inner, size, draw = around.inner, around.head_width, around.generator
    for place in ("query", "key", "value"):
        if place in inner and _directions(inner[place], size) < _LEAST:
            raise InvalidInput(
                f"a norm over a head's {size} coordinates leaves a {place}'s gradient without a second moment: "
                f"use heads of at least {_LEAST + size - _directions(inner[place], size)}"
            )
    heads = around.heads if "middle" in inner else 1
    networks = -(-around.points(len(moments)) // heads)
    moments, enlarged = told_apart(moments)
    x = tokens_drawn(moments, around, networks * heads)  # of its own for each head: what heads share is of order 1/d
    tokens = x @ mt(x)

    def coordinates(name: str) -> Array:
        projected = np.sqrt(weights.variances[name]) * x @ normal(draw, len(x), x.shape[2], size)
        bias = weights.biases.get(name, 0.0)
        return projected + np.sqrt(bias) * normal(draw, len(x), 1, size) if bias else projected

    queries, query_divisor = _normalised(coordinates("WQ"), inner.get("query"))
    keys, key_divisor = _normalised(coordinates("WK"), inner.get("key"))
    logits = queries @ mt(keys) / np.sqrt(size)
    attention = softmax(logits, around.causal)
    if "key" not in inner:  # as `Patterns` has them: of unit weight variance
        logits, keys = logits / np.sqrt(weights.variances["WK"]), keys / np.sqrt(weights.variances["WK"])
    read, value_factor = weights.applied("WV", tokens), None
    if "value" in inner:
        read, value_factor = _normed_values(read, _directions(inner["value"], size))
    patterns = NormedPatterns(
        attention=attention,
        gram=read,
        # Behind LayerNorm a query has no mean, so its gradient has none: keys count without theirs. Queries alike.
        keys=_gram(keys, inner.get("query")),
        queries=_gram(queries, inner.get("key")),
        enlarged=enlarged,
        entering=tokens,
        logits=np.where(attention > 0, logits, 0.0),
        head_width=size,
        query_divisor=query_divisor,
        key_divisor=key_divisor,
        value_factor=value_factor,
    )
    if "middle" not in inner:
        return patterns
    squares = np.diagonal(patterns.rows(), axis1=1, axis2=2).reshape(networks, heads, -1).mean(axis=1)
    return replace(patterns, middle=np.repeat(np.sqrt(squares), heads, axis=0))


def _normalised(vectors: Array, kind: str | None) -> tuple[Array, Array | None]:
    """Vectors (points, tokens, d_h) behind a norm over their coordinates, and what it divided by."""
    if kind is None:
        return vectors, None
    if kind == "layer":
        vectors = vectors - vectors.mean(axis=2, keepdims=True)
    divisor = np.sqrt((vectors**2).mean(axis=2))
    return vectors / divisor[:, :, None], divisor


def _gram(vectors: Array, kind: str | None) -> Array:
    """Second moments per coordinate, of what of them lies where a norm of this kind lets gradients be."""
    if kind == "layer":
        vectors = vectors - vectors.mean(axis=2, keepdims=True)
    return vectors @ mt(vectors) / vectors.shape[2]


def _normed_values(moments: Array, directions: int) -> tuple[Array, Array]:
    """(E v̂_j·v̂_k/d_h, E tr(Π_jΠ_k)/(d_h σ_jσ_k)) of Gaussian values of these moments, to first order in 1/directions.

    E of a sample cosine r: c − c(1 − c²)/(2e) (Hotelling 1953); tr = e − 2 + r²; E 1/(σ_jσ_k) = 1/(e − 3/2 − c²/2) up to the
    values' variance, exact at c = 1.
    """
    root = np.sqrt(np.diagonal(moments, axis1=1, axis2=2))
    cosine = moments / _outer(root)
    gradient = (directions - 2 + cosine**2) / (directions - 1.5 - cosine**2 / 2)
    return cosine * (1 - (1 - cosine**2) / (2 * directions)), gradient / _outer(root)


def _directions(kind: str, size: int) -> int:
    """Directions of a head's vectors behind a norm."""
    return size - (kind == "layer")


def _outer(of_token: Array) -> Array:
    """Products for each pair of tokens, (points, tokens, tokens)."""
    return of_token[:, :, None] * of_token[:, None, :]
