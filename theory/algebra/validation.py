"""Whether the parts of a variant fit together; every complaint is one line that says how to mend it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from theory.algebra.expression import Expression, L, Scale, Stream, Sublayer, i, k, l, walk
from theory.algebra.placement import Position, Streams
from theory.algebra.printing import to_text
from theory.errors import InvalidInput

if TYPE_CHECKING:
    from theory.algebra.variant import Variant

_EXAMPLE = Position(3, 8, 1, 2)


def validate(variant: Variant) -> None:
    """Check a variant as it is made.

    Raises:
        InvalidInput: the first part that does not fit.
    """
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", variant.name):
        raise InvalidInput(f"variant name {variant.name!r}: use lower-case letters and digits joined by hyphens, such as post-ln")
    where = f"variant {variant.name}"
    if not variant.source.strip():
        raise InvalidInput(f"{where}: give its source (paper and equation)")
    if "x" not in variant.streams:
        raise InvalidInput(f"{where}: no update for the stream 'x'; every variant has one")
    for case in variant.cases:
        if {name for name, _ in case.steps} != set(variant.streams):
            raise InvalidInput(
                f"{where}: its cases update different streams; write the same streams in each, y: y for one that stays"
            )
        _validate_update(case.steps, variant.streams, where)
    _validate_ends(variant, where)
    _validate_coefficients(variant, where)


def _expressions(steps: Streams, where: str) -> tuple[Expression, ...]:
    for part, node in steps:
        if not isinstance(node, Expression):
            raise InvalidInput(f"{where}: the update of {part} is {node!r}, not an expression of streams, sublayers, norms")
    return tuple(node for _, node in steps)


def _validate_update(steps: Streams, streams: tuple[str, ...], where: str) -> None:
    nodes = list(walk(*_expressions(steps, where)))
    _require_streams(nodes, streams, where)
    for node in nodes:
        if isinstance(node, Sublayer) and any(isinstance(inner, Sublayer) for inner in walk(node.argument)):
            raise InvalidInput(f"{where}: a sublayer inside a sublayer; write the second one as a step of its own")
    sublayers = [to_text(node) for node in nodes if isinstance(node, Sublayer)]
    if not sublayers:
        raise InvalidInput(f"{where}: the update holds no sublayer F, so there is nothing to normalise around")
    if len(sublayers) > 1:
        raise InvalidInput(
            f"{where}: {' and '.join(sublayers)} are two sublayers in one step; give it one, and the others with --sublayers"
        )


def _require_streams(nodes: list[Expression], streams: tuple[str, ...], where: str) -> None:
    for node in nodes:
        if isinstance(node, Stream) and node.name not in streams:
            raise InvalidInput(f"{where}: stream {node.name!r} has no update; streams with one: {', '.join(streams)}")


def _validate_ends(variant: Variant, where: str) -> None:
    entry = list(walk(*_expressions(variant.start, where)))
    if any(isinstance(node, Stream) and node.name != "e" for node in entry):
        raise InvalidInput(f"{where}: the entry may use the embedded input Stream('e') only")
    strangers = set(dict(variant.entry)) - set(variant.streams)  # type: ignore[arg-type]
    if strangers:
        raise InvalidInput(f"{where}: an entry for {', '.join(sorted(strangers))}, which has no update")
    read_out = list(walk(*_expressions((("read_out", variant.read_out),), where)))
    _require_streams(read_out, variant.streams, where)
    if Stream("x") not in read_out:
        raise InvalidInput(
            f"{where}: the read-out does not use the stream x, whose gradient is measured; call the stream that it uses x"
        )
    for name, nodes in (("read-out", read_out), ("entry", entry)):
        if any(isinstance(node, Sublayer) for node in nodes):
            raise InvalidInput(f"{where}: the {name} holds a sublayer; it may only combine and normalise streams")


def _validate_coefficients(variant: Variant, where: str) -> None:
    known = {L, l, i, k, *(symbol for symbol, _ in variant.formulas)}
    updates = (node for case in variant.cases for _, node in case.steps)
    nodes = walk(*updates, variant.read_out, *(node for _, node in variant.start))
    formulas = [node.coefficient for node in nodes if isinstance(node, Scale)]
    for formula in formulas:
        unknown = formula.free_symbols - known
        if unknown:
            names = ", ".join(sorted(map(str, unknown)))
            raise InvalidInput(f"{where}: {names} in a coefficient has no value; give it in constants")
    for symbol in variant.learnable:
        if symbol not in known - {L, l, i, k}:
            raise InvalidInput(f"{where}: the learnable {symbol} has no value to start from; give it in constants")
        if any(symbol in formula.free_symbols and formula != symbol for formula in formulas):
            raise InvalidInput(f"{where}: the learnable {symbol} has to be a coefficient by itself, as in {symbol} * F(x)")
    if variant.gain.free_symbols - {L}:
        raise InvalidInput(f"{where}: the gain {variant.gain} may hold only L: all blocks start with one gain")
    for name, expression in (*((str(s), f) for s, f in variant.formulas), ("gain", variant.gain)):
        try:
            value = variant.coefficient(expression, _EXAMPLE)
        except TypeError:
            raise InvalidInput(f"{where}: the constant {name} = {expression} may hold only L, l, i and k") from None
        if not value >= 0 or (value == 0 and name == "gain"):
            raise InvalidInput(f"{where}: the constant {name} is {value} at L=8, l=3; it has to be positive (a gate may be 0)")
