"""``python -m theory list | derive VARIANT | predict VARIANT``."""

from __future__ import annotations

import argparse
import json
import sys

from theory.boundary import read as read_boundaries
from theory.commands import (
    SCHEMA,
    Parser,
    add_configuration,
    configuration,
    leave_in_one_line,
    rows_as_json,
    rows_as_table,
    sublayer_names,
)
from theory.variants import load, registry


def main() -> None:
    """Parse the command line and run the command."""
    parser = Parser(prog="python -m theory", description="Derive scaling laws from a variant's expression.")
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="all variants with their equations")
    listing.add_argument("--json", action="store_true", help="print one JSON object")
    deriving = commands.add_parser("derive", help="a variant's law, step by step")
    deriving.add_argument("variant", help="name of a variant, or path of a .py file")
    deriving.add_argument("--sublayers", type=sublayer_names, default=(), help="put these sublayers' moments into the law")
    deriving.add_argument("--json", action="store_true", help="print one JSON object")
    predicting = commands.add_parser("predict", help="a quantity layer by layer, for one configuration")
    add_configuration(predicting)
    predicting.add_argument("--boundary", metavar="FILE", help="input and output moments that measure --boundary wrote")
    predicting.add_argument("--infinite-width", action="store_true", help="leave all terms of order 1/width out")
    arguments = parser.parse_args()
    {"list": _list, "derive": _derive, "predict": _predict}[arguments.command](arguments)


def _list(arguments: argparse.Namespace) -> None:
    rows = [{"name": v.name, "equation": v.equation, "source": v.source} for v in registry().values()]
    if arguments.json:
        print(json.dumps({"schema": SCHEMA, "variants": rows}))
        return
    for row in rows:
        print(f"{row['name']}\n    {row['equation']}\n    {row['source']}")


def _derive(arguments: argparse.Namespace) -> None:
    from theory.laws.derivation import derivation
    from theory.spectrum.derivation import worst_case
    from theory.sublayers import sublayer

    variant = load(arguments.variant)
    maps = tuple(sublayer(name) for name in arguments.sublayers)
    steps = [*derivation(variant, maps), *worst_case(variant, maps)]
    if arguments.json:
        print(json.dumps({"schema": SCHEMA, "variant": variant.name, "steps": [vars(step) for step in steps]}))
        return
    for number, step in enumerate(steps, start=1):
        print(f"{number:2}. {step.title}: {step.reason}")
        if step.text:
            print(f"        {step.text}")


def _predict(arguments: argparse.Namespace) -> None:
    from theory.quantities import quantity

    cell = configuration(arguments)
    boundaries = read_boundaries(arguments.boundary) if arguments.boundary else ()
    rows = quantity(arguments.quantity).predict(cell, boundaries, arguments.infinite_width)
    if arguments.json:
        print(rows_as_json(cell, arguments.quantity, rows))
        return
    from rich.console import Console

    Console().print(rows_as_table(f"{cell.variant.name}: predicted {arguments.quantity}", rows))


if __name__ == "__main__":
    sys.exit(leave_in_one_line(main))
