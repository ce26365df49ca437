"""What the command lines share: the flags of a configuration, one-line errors, exit codes."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import sympy

from theory.configuration import Configuration
from theory.errors import InvalidInput
from theory.initialisations import INITIALISATIONS
from theory.quantities import QUANTITIES, quantity
from theory.variants import load

SCHEMA = 1


class Parser(argparse.ArgumentParser):
    """An argument parser whose every error is one line and exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Print one line and leave."""
        raise InvalidInput(f"{message} (see {self.prog} --help)")


def sublayer_names(text: str) -> tuple[str, ...]:
    """``attention,gelu`` → ("attention", "gelu")."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def exact_number(text: str) -> sympy.Expr:
    """``1/4`` or ``0.25`` as an exact number.

    Raises:
        InvalidInput: it is none.
    """
    try:
        return sympy.Rational(text)
    except (TypeError, ValueError, ZeroDivisionError):
        raise InvalidInput(f"{text!r} is no number: write it as 1, 1/4 or 0.25") from None


def add_network(parser: argparse.ArgumentParser) -> None:
    """The flags that describe a network."""
    parser.add_argument(
        "variant", help="name of a variant (see: python -m theory list), or path of a .py file that defines VARIANT"
    )
    parser.add_argument(
        "--sublayers", type=sublayer_names, default=("relu",), help="the block's sublayers, such as relu or attention,gelu"
    )
    parser.add_argument("--depth", type=int, default=24, help="number of blocks L (default: %(default)s)")
    parser.add_argument("--width", type=int, default=256, help="width d of the residual stream (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=8, help="tokens n in a sequence (default: %(default)s)")
    parser.add_argument(
        "--heads", type=int, help="attention heads; must divide the width (default: 4, or the largest of 2, 1 that does)"
    )
    parser.add_argument("--causal", action="store_true", help="mask later tokens in attention")
    parser.add_argument("--gain", type=float, default=1.0, help="factor on every weight variance (default: %(default)s)")
    parser.add_argument("--init", default="fan-in", help=f"one of {', '.join(INITIALISATIONS)} (default: %(default)s)")
    parser.add_argument("--expansion", type=int, default=1, help="hidden width over width (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def add_configuration(parser: argparse.ArgumentParser) -> None:
    """The flags that ``predict`` and ``measure`` have in common."""
    add_network(parser)
    parser.add_argument("--quantity", default="stream-gradient", help=f"one of {', '.join(QUANTITIES)} (default: %(default)s)")


def configuration(arguments: argparse.Namespace) -> Configuration:
    """The configuration that the flags of `add_configuration` describe.

    Raises:
        InvalidInput: a flag out of range, an unknown variant, sublayer or quantity.
    """
    quantity(arguments.quantity)
    return network(arguments)


def network(arguments: argparse.Namespace) -> Configuration:
    """The configuration that the flags of `add_network` describe.

    Raises:
        InvalidInput: a flag out of range, an unknown variant or sublayer.
    """
    heads = arguments.heads
    if heads is None:
        heads = next((h for h in (4, 2) if arguments.width > 0 and arguments.width % h == 0), 1)
    return Configuration(
        variant=load(arguments.variant),
        sublayers=arguments.sublayers,
        depth=arguments.depth,
        width=arguments.width,
        tokens=arguments.tokens,
        heads=heads,
        causal=arguments.causal,
        gain=arguments.gain,
        expansion=arguments.expansion,
        init=arguments.init,
    )


def rows_as_json(cell: Configuration, name: str, rows: list[dict[str, Any]], **more: Any) -> str:
    """The contract of ``predict --json`` and ``measure --json``."""
    settings = cell.describe() | {"quantity": name} | more
    return json.dumps({"schema": SCHEMA, "variant": cell.variant.name, "config": settings, "rows": rows})


def rows_as_table(title: str, rows: list[dict[str, Any]]) -> Any:
    """The rows as a table for a terminal."""
    from rich.table import Table

    table = Table(title=title)
    for column in rows[0]:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*(f"{v:.6g}" if isinstance(v, float) else str(v) for v in row.values()))
    return table


def leave_in_one_line(main: Callable[[], None]) -> int:
    """Run ``main``; bad input, an interrupt or a failing disk becomes one line on stderr and exit code 2."""
    try:
        main()
        sys.stdout.flush()
        return 0
    except (InvalidInput, FloatingPointError) as error:
        message = str(error)
    except KeyboardInterrupt:
        message = "interrupted; run the same command again (a verification goes on where it stopped)"
    except MemoryError:
        message = "out of memory: use fewer --seeds, tokens or a smaller --width"
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        message = (
            f"cannot write or read {error.filename or 'the output'}: {error.strerror}; free some space or name another place"
        )
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return 2
