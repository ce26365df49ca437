"""Where in the stack an update applies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import sympy

from theory.algebra.expression import Expression, L, Sublayer, i, k, l, walk
from theory.errors import InvalidInput

Streams = tuple[tuple[str, Expression], ...]
SublayerKind = Literal["attention", "ffn"]


@dataclass(frozen=True)
class Position:
    """Sublayer ``index`` (1..count) of block ``layer`` (1..depth), and of which kind it is."""

    layer: int
    depth: int
    index: int = 1
    count: int = 1
    kind: SublayerKind = "ffn"

    @property
    def values(self) -> dict[sympy.Symbol, int]:
        """What the algebra's symbols l, L, i and k stand for here."""
        return {l: self.layer, L: self.depth, i: self.index, k: self.count}


@dataclass(frozen=True)
class Case:
    """An update that holds in some places of the stack only.

    Args:
        update: one expression, for the single stream ``x``, or a mapping from stream name to expression.
        sublayer: ``attention`` or ``ffn`` (whatever acts token by token), where it is for one of them only.
        when: a condition in l, L, i and k, such as ``l <= L / 4``.
    """

    update: Streams | Mapping[str, Expression] | Expression
    sublayer: SublayerKind | None = None
    when: sympy.Basic = sympy.true

    def __post_init__(self) -> None:
        object.__setattr__(self, "update", pairs(self.update))
        object.__setattr__(self, "when", sympy.sympify(self.when))
        if self.sublayer not in (None, "attention", "ffn"):
            raise InvalidInput(f"unknown kind of sublayer {self.sublayer!r} in a case: use attention or ffn")
        if self.when.free_symbols - {L, l, i, k} or not isinstance(self.when, sympy.logic.boolalg.Boolean):
            raise InvalidInput(f"the condition {self.when} of a case must be a comparison in l, L, i and k, such as l <= L / 4")

    @property
    def steps(self) -> Streams:
        """(stream, expression) pairs of the update."""
        return self.update  # type: ignore[return-value]

    def holds(self, position: Position) -> bool:
        """Whether the update applies there."""
        return self.sublayer in (None, position.kind) and (self.when is sympy.true or _true(self.when, position))

    def describe(self) -> str:
        """Such as ``attention, l ≤ L/4``; empty where it holds everywhere."""
        return ", ".join([*filter(None, [self.sublayer]), *([] if self.when == sympy.true else [_in_words(self.when)])])


def _in_words(condition: sympy.Basic) -> str:
    if isinstance(condition, sympy.Equality):
        return f"{condition.lhs} = {condition.rhs}"
    return str(condition).replace("<=", "≤").replace(">=", "≥")


@lru_cache(maxsize=65536)
def _true(condition: sympy.Basic, position: Position) -> bool:
    return bool(condition.subs(position.values))


def pairs(update: Streams | Mapping[str, Expression] | Expression) -> Streams:
    """An update as (stream, expression) pairs; a single expression is the stream x's."""
    return (("x", update),) if isinstance(update, Expression) else tuple(dict(update).items())


@lru_cache(maxsize=256)
def sublayer_node(steps: Streams) -> Sublayer:
    """The sublayer of a step with these (stream, update) pairs; a validated update holds one."""
    (node,) = [node for node in walk(*(update for _, update in steps)) if isinstance(node, Sublayer)]
    return node
