"""A variant: name, streams, one update expression a stream, read-out, constants, initial gain, source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import sympy

from theory.algebra.expression import Expression, L, Stream, Sublayer, l, walk
from theory.algebra.printing import to_latex, to_text
from theory.errors import InvalidInput

Streams = tuple[tuple[str, Expression], ...]
Constants = tuple[tuple[sympy.Symbol, sympy.Expr], ...]


@dataclass(frozen=True)
class Variant:
    """A normalisation placement, the only place where its block's equation stands.

    Args:
        name: lower-case, hyphenated.
        update: the step's new value of each stream, as one expression (for the single stream ``x``)
            or a mapping from stream name to expression. It is applied once a sublayer.
        source: paper and equation.
        read_out: the network's output from the last streams; the stream ``x`` unless given.
        constants: value of each symbol that the coefficients use, as a formula in L (depth) and l (block).
        gain: factor on the standard deviation of the branch's matrices (DeepNorm's β: FFN, value and
            output projections; queries and keys keep theirs).

    Every stream starts as the embedded input.

    Raises:
        InvalidInput: when the parts do not fit together.
    """

    name: str
    update: Streams | Mapping[str, Expression] | Expression
    source: str
    read_out: Expression = Stream("x")
    constants: Constants | Mapping[sympy.Symbol, sympy.Expr] = field(default=())
    gain: sympy.Expr = sympy.Integer(1)

    def __post_init__(self) -> None:
        update = {"x": self.update} if isinstance(self.update, Expression) else dict(self.update)
        constants = {symbol: sympy.sympify(value) for symbol, value in dict(self.constants).items()}
        object.__setattr__(self, "update", tuple(update.items()))
        object.__setattr__(self, "constants", tuple(constants.items()))
        object.__setattr__(self, "gain", sympy.sympify(self.gain))
        _validate(self)

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of the residual streams."""
        return tuple(name for name, _ in self.steps)

    @property
    def steps(self) -> Streams:
        """(stream, expression) pairs of the update."""
        return self.update  # type: ignore[return-value]

    @property
    def formulas(self) -> Constants:
        """(symbol, formula in L and l) pairs of the constants."""
        return self.constants  # type: ignore[return-value]

    @property
    def equation(self) -> str:
        """The update and read-out as one line of text."""
        parts = [f"{name}_{{l}} = {to_text(node, '_{l-1}')}" for name, node in self.steps]
        parts.append(f"y = {to_text(self.read_out, '_{L}')}")
        parts += [f"{symbol} = {value}" for symbol, value in self.formulas]
        return "; ".join(parts)

    @property
    def latex(self) -> str:
        """The update and read-out as LaTeX, ready for a display."""
        parts = [f"{name}_{{l}} = {to_latex(node, '_{l-1}')}" for name, node in self.steps]
        parts.append(f"y = {to_latex(self.read_out, '_{L}')}")
        parts += [f"{sympy.latex(symbol)} = {sympy.latex(value)}" for symbol, value in self.formulas]
        return r",\qquad ".join(parts)

    def coefficient(self, formula: sympy.Expr, depth: int, layer: int) -> float:
        """Value of a coefficient in block ``layer`` (1..depth) of a network of ``depth`` blocks."""
        return _number(formula, self.formulas, depth, layer)


@lru_cache(maxsize=65536)
def _number(formula: sympy.Expr, constants: Constants, depth: int, layer: int) -> float:
    return float(formula.subs(dict(constants)).subs({L: depth, l: layer}))


def _validate(variant: Variant) -> None:
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", variant.name):
        raise InvalidInput(f"variant name {variant.name!r}: use lower-case letters and digits joined by hyphens, such as post-ln")
    where = f"variant {variant.name}"
    if not variant.source.strip():
        raise InvalidInput(f"{where}: give its source (paper and equation)")
    if "x" not in variant.streams:
        raise InvalidInput(f"{where}: no update for the stream 'x'; every variant has one")
    for part, node in (*variant.steps, ("read_out", variant.read_out)):
        if not isinstance(node, Expression):
            raise InvalidInput(f"{where}: the update of {part} is {node!r}, not an expression of streams, sublayers, norms")
    _validate_nodes(variant, where)
    for name, expression in (*((str(s), f) for s, f in variant.formulas), ("gain", variant.gain)):
        try:
            value = variant.coefficient(expression, 8, 3)
        except TypeError:
            raise InvalidInput(f"{where}: the constant {name} = {expression} may hold only L and l") from None
        if not value > 0:
            raise InvalidInput(f"{where}: the constant {name} is {value} at L=8, l=3; it has to be positive")


def _validate_nodes(variant: Variant, where: str) -> None:
    known = {L, l, *(symbol for symbol, _ in variant.formulas)}
    updates = tuple(node for _, node in variant.steps)
    for node in walk(*updates, variant.read_out):
        if isinstance(node, Stream) and node.name not in variant.streams:
            raise InvalidInput(f"{where}: stream {node.name!r} has no update; streams with one: {', '.join(variant.streams)}")
        if isinstance(node, Sublayer) and any(isinstance(inner, Sublayer) for inner in walk(node.argument)):
            raise InvalidInput(f"{where}: a sublayer inside a sublayer; write the second one as a step of its own")
        unknown = getattr(node, "coefficient", sympy.Integer(0)).free_symbols - known
        if unknown:
            names = ", ".join(sorted(map(str, unknown)))
            raise InvalidInput(f"{where}: {names} in a coefficient has no value; give it in constants")
    sublayers = [to_text(node) for node in walk(*updates) if isinstance(node, Sublayer)]
    if not sublayers:
        raise InvalidInput(f"{where}: the update holds no sublayer F, so there is nothing to normalise around")
    if len(sublayers) > 1:
        raise InvalidInput(
            f"{where}: {' and '.join(sublayers)} are two sublayers in one step; give it one, and the others with --sublayers"
        )
    if Stream("x") not in walk(variant.read_out):
        raise InvalidInput(
            f"{where}: the read-out does not use the stream x, whose gradient is measured; call the stream that it uses x"
        )
    if any(isinstance(node, Sublayer) for node in walk(variant.read_out)):
        raise InvalidInput(f"{where}: the read-out holds a sublayer; it may only combine and normalise streams")
