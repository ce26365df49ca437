"""The algebra in which a block's update is written: streams, sublayers, norms, pointwise functions, scalings, sums.

An expression is an immutable tree. Two equal ``Sublayer`` nodes of one update are one application
of one sublayer, so a branch that feeds two streams is written twice and computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import sympy

from theory.errors import InvalidInput

L = sympy.Symbol("L", integer=True, positive=True)
"""Depth: the number of blocks."""
l = sympy.Symbol("l", integer=True, positive=True)  # noqa: E741 - the field's own name
"""Index of a block, from 1 to L."""
i, k = sympy.symbols("i k", integer=True, positive=True)
"""Index of a sublayer in its block, from 1 to k, and the number of sublayers of a block; (l − 1)k + i numbers all of them."""

Node = TypeVar("Node")
NormKind = Literal["layer", "rms"]
INNER = ("query", "key", "value", "middle")
"""Where a sublayer may normalise inside: its queries, keys and values (head by head), and the input of its last matrix."""
POINTWISE = ("tanh",)
"""Functions that may stand where a norm would."""
_FLOAT = "the coefficient {} is a float: write it exactly, as sympy.Rational or a formula in L and l"


class Expression:
    """Base of all nodes; gives them ``+`` and scalar ``*``."""

    def __add__(self, other: Expression) -> Sum:
        return Sum(_terms(self) + _terms(other))

    def __mul__(self, coefficient: Any) -> Scale:
        return Scale(coefficient, self)

    __rmul__ = __mul__

    @property
    def children(self) -> tuple[Expression, ...]:
        """The nodes that this node is computed from."""
        return ()


def _hashed_once(node: type[Node]) -> type[Node]:
    """Keep a node's hash, which runs through all that lies below it: a walk asks for it in every layer of a deep stack."""
    structural = node.__hash__

    def kept(self: Any) -> int:
        if "_hash" not in self.__dict__:
            self.__dict__["_hash"] = structural(self)
        return int(self.__dict__["_hash"])

    node.__hash__ = kept  # type: ignore[method-assign]
    return node


def _terms(node: Expression) -> tuple[Expression, ...]:
    if not isinstance(node, Expression):
        raise InvalidInput(f"cannot add {node!r} to an expression: wrap it in a Stream, a Norm or a Sublayer")
    return node.terms if isinstance(node, Sum) else (node,)


@_hashed_once
@dataclass(frozen=True)
class Stream(Expression):
    """A residual stream as it enters the step, shape (tokens, width)."""

    name: str = "x"


@_hashed_once
@dataclass(frozen=True)
class _Unary(Expression):
    argument: Expression

    def __post_init__(self) -> None:
        if not isinstance(self.argument, Expression):
            raise InvalidInput(f"{type(self).__name__} acts on an expression, not on {self.argument!r}")

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.argument,)


@_hashed_once
@dataclass(frozen=True)
class Sublayer(_Unary):
    """The branch F(argument): attention, FFN or whatever the configuration puts in this step.

    ``inner`` holds (place, kind) pairs of norms inside it, places as in `INNER`; a sublayer without such a place (an FFN has
    no queries) leaves that norm out.
    """

    inner: tuple[tuple[str, NormKind], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for place, _ in self.inner:
            if place not in INNER:
                raise InvalidInput(f"no norm at {place!r} inside a sublayer: use {', '.join(INNER)}")


@_hashed_once
@dataclass(frozen=True)
class Norm(_Unary):
    """LayerNorm (``kind="layer"``) or RMSNorm (``kind="rms"``) over the width, gain 1, bias 0."""

    kind: NormKind = "layer"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in ("layer", "rms"):
            raise InvalidInput(f"unknown norm {self.kind!r}: use 'layer' or 'rms'")


@_hashed_once
@dataclass(frozen=True)
class Pointwise(_Unary):
    """A function of each coordinate, such as tanh, where a norm would stand."""

    function: str = "tanh"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.function not in POINTWISE:
            raise InvalidInput(f"no pointwise function {self.function!r}: use {', '.join(POINTWISE)}")


@_hashed_once
@dataclass(frozen=True)
class Matched(_Unary):
    """``ω · argument``, ω one number for the whole network that gives it the root mean square of ``reference``.

    ω is set once, at initialisation, by looking at the forward pass; no gradient flows through it.
    """

    reference: Expression = Stream()

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.argument, self.reference)


@_hashed_once
@dataclass(frozen=True)
class Scale(Expression):
    """``coefficient · argument``; the coefficient may hold L, l, i, k and the variant's constants."""

    coefficient: sympy.Expr
    argument: Expression

    def __post_init__(self) -> None:
        if isinstance(self.coefficient, Expression) or not isinstance(self.argument, Expression):
            raise InvalidInput("a scaling is number * expression: streams cannot be multiplied with each other")
        try:
            object.__setattr__(self, "coefficient", sympy.sympify(self.coefficient))
        except (sympy.SympifyError, TypeError) as error:
            raise InvalidInput(f"the coefficient {self.coefficient!r} is not a formula: {' '.join(str(error).split())}") from None
        if self.coefficient.has(sympy.Float):
            raise InvalidInput(_FLOAT.format(self.coefficient))

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.argument,)


@_hashed_once
@dataclass(frozen=True)
class Sum(Expression):
    """The sum of two or more terms."""

    terms: tuple[Expression, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.terms


def F(argument: Expression, **inner: Callable[[Expression], Norm]) -> Sublayer:  # noqa: N802 - the papers' letter
    """The branch applied to ``argument``, with norms inside where they are named: ``F(x, query=RMS, key=RMS)``."""
    return Sublayer(argument, tuple((place, norm(argument).kind) for place, norm in inner.items()))


def LN(argument: Expression) -> Norm:  # noqa: N802
    """LayerNorm (Ba et al. 2016): subtract the mean over the width, divide by the standard deviation."""
    return Norm(argument, "layer")


def RMS(argument: Expression) -> Norm:  # noqa: N802
    """RMSNorm (Zhang & Sennrich 2019, eq. 4): divide by the root of the mean square."""
    return Norm(argument, "rms")


def tanh(argument: Expression) -> Pointwise:
    """tanh of each coordinate (dynamic tanh, Zhu et al. 2025, is ``tanh(α * x)``)."""
    return Pointwise(argument, "tanh")


def walk(*roots: Expression) -> Iterator[Expression]:
    """Every distinct node under ``roots``, each after its children (a topological order)."""
    seen: set[Expression] = set()

    def visit(node: Expression) -> Iterator[Expression]:
        if node in seen:
            return
        seen.add(node)
        for child in node.children:
            yield from visit(child)
        yield node

    for root in roots:
        yield from visit(root)
