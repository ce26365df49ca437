"""A variant: name, streams, updates, read-out, constants, initial gain, source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import sympy

from theory.algebra.expression import Expression, L, Stream, l
from theory.algebra.placement import Case, Position, Streams, SublayerKind, pairs
from theory.algebra.printing import to_latex, to_text
from theory.algebra.validation import validate
from theory.errors import InvalidInput

Constants = tuple[tuple[sympy.Symbol, sympy.Expr], ...]
INPUT = Stream("e")
"""The embedded input, from which every stream starts."""


@dataclass(frozen=True)
class Variant:
    """A normalisation placement, the only place where its block's equation stands.

    Args:
        name: lower-case, hyphenated.
        update: the step's new value of each stream, as one expression (for the single stream ``x``)
            or a mapping from stream name to expression; applied once a sublayer. Several placements in one stack are a
            sequence of `Case`, of which the first that holds is applied.
        source: paper and equation.
        read_out: the network's output from the last streams; the stream ``x`` unless given.
        entry: first values of streams that do not start as the embedded input, from the stream ``e``, which is that input.
        constants: value of each symbol that the coefficients use, as a formula in L (depth), l (block), i and k (sublayer).
        gain: factor on the standard deviation of the branch's matrices, a formula in L (DeepNorm's β: FFN, value and
            output projections; queries and keys keep theirs).
        tied: all blocks share one block's weights (a looped block).
        learnable: constants that training moves, one number wherever the update is applied; laws at initialisation do not ask.

    Raises:
        InvalidInput: when the parts do not fit together.
    """

    name: str
    update: tuple[Case, ...] | Sequence[Case] | Streams | Mapping[str, Expression] | Expression
    source: str
    read_out: Expression = Stream("x")
    entry: Streams | Mapping[str, Expression] | Expression = ()
    constants: Constants | Mapping[sympy.Symbol, sympy.Expr] = field(default=())
    gain: sympy.Expr = sympy.Integer(1)
    tied: bool = False
    learnable: tuple[sympy.Symbol, ...] = ()

    def __post_init__(self) -> None:
        constants = {symbol: sympy.sympify(value) for symbol, value in dict(self.constants).items()}
        object.__setattr__(self, "update", _cases(self.update))
        object.__setattr__(self, "entry", pairs(self.entry))
        object.__setattr__(self, "constants", tuple(constants.items()))
        object.__setattr__(self, "learnable", tuple(self.learnable))
        object.__setattr__(self, "gain", sympy.sympify(self.gain))
        validate(self)

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of the residual streams."""
        return tuple(name for name, _ in self.cases[0].steps)

    @property
    def cases(self) -> tuple[Case, ...]:
        """The updates, each with where it holds."""
        return self.update  # type: ignore[return-value]

    @property
    def formulas(self) -> Constants:
        """(symbol, formula in L, l, i and k) pairs of the constants."""
        return self.constants  # type: ignore[return-value]

    @property
    def start(self) -> Streams:
        """(stream, expression in the embedded input) pairs."""
        given = dict(self.entry)  # type: ignore[arg-type]
        return tuple((name, given.get(name, INPUT)) for name in self.streams)

    def steps_at(self, position: Position) -> Streams:
        """(stream, expression) pairs of the update at one place of the stack.

        Raises:
            InvalidInput: no case holds there.
        """
        for case in self.cases:
            if case.holds(position):
                return case.steps
        raise InvalidInput(
            f"variant {self.name}: no case holds for {position.kind} sublayer {position.index} of block {position.layer} of "
            f"{position.depth}; end its updates with a Case without a condition"
        )

    def fixed_steps(self, kind: SublayerKind, index: int = 1, count: int = 1) -> Streams | None:
        """The update of one sublayer of every block; None where that changes from block to block or with the depth."""
        place = Position(1, 1, index, count, kind)
        for case in self.cases:
            if case.sublayer in (None, kind) and case.when.free_symbols & {l, L}:
                return None
            if case.holds(place):
                return case.steps
        return self.steps_at(place)

    @property
    def equation(self) -> str:
        """Updates and read-out as one line of text."""
        return "; ".join(self._parts(to_text, str, " ({})".format))

    @property
    def latex(self) -> str:
        """Updates and read-out as LaTeX, ready for a display."""
        return r",\qquad ".join(self._parts(to_latex, sympy.latex, r"\;\text{{({})}}".format))

    def _parts(
        self, expression: Callable[..., str], formula: Callable[[sympy.Expr], str], remark: Callable[[str], str]
    ) -> list[str]:
        parts = [f"{name}_{{0}} = {expression(node)}" for name, node in self.start if node != INPUT]
        for case in self.cases:
            where = remark(case.describe()) if case.describe() else ""
            parts += [f"{name}_{{l}} = {expression(node, '_{l-1}')}{where}" for name, node in case.steps]
        tied = remark("one block's weights for all") if self.tied else ""
        parts.append(f"y = {expression(self.read_out, '_{L}')}{tied}")
        return parts + [f"{formula(symbol)} = {formula(value)}" for symbol, value in self.formulas]

    def coefficient(self, formula: sympy.Expr, position: Position) -> float:
        """Value of a coefficient at one place of the stack."""
        return _number(formula, self.formulas, position)

    def branch_gain(self, depth: int) -> float:
        """Factor on the standard deviation of the branch's matrices in a stack of ``depth`` blocks."""
        return self.coefficient(self.gain, Position(1, depth))


def _cases(update: object) -> tuple[Case, ...]:
    if isinstance(update, Expression | Mapping):
        return (Case(update),)
    parts: tuple[Any, ...] = tuple(update)  # type: ignore[arg-type]
    return parts if parts and all(isinstance(part, Case) for part in parts) else (Case(parts),)


@lru_cache(maxsize=65536)
def _number(formula: sympy.Expr, constants: Constants, position: Position) -> float:
    if formula.is_number:
        return float(formula)
    return float(formula.subs(dict(constants)).subs(position.values))
