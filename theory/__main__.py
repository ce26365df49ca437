"""``python -m theory list | new NAME | derive VARIANT | predict VARIANT | prescribe VARIANT``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from theory.boundary import read as read_boundaries
from theory.commands import (
    SCHEMA,
    Parser,
    add_configuration,
    configuration,
    exact_number,
    leave_in_one_line,
    rows_as_json,
    rows_as_table,
    sublayer_names,
)
from theory.configuration import Configuration
from theory.laws.steps import DerivationStep
from theory.prescription import TARGETS, TOLERANCE, prescribe
from theory.variants import load, registry


def main() -> None:
    """Parse the command line and run the command."""
    parser = Parser(prog="python -m theory", description="Derive scaling laws from a variant's expression.")
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="all variants with their equations")
    listing.add_argument("--json", action="store_true", help="print one JSON object")
    creating = commands.add_parser("new", help="a commented file that your own variant starts from")
    creating.add_argument("name", help="its name: lower-case letters and digits joined by hyphens")
    creating.add_argument("--directory", type=Path, default=Path(), help="where NAME.py is written (default: here)")
    deriving = commands.add_parser("derive", help="a variant's law, step by step")
    deriving.add_argument("variant", help="name of a variant, or path of a .py file")
    deriving.add_argument("--sublayers", type=sublayer_names, default=(), help="put these sublayers' moments into the law")
    deriving.add_argument("--json", action="store_true", help="print one JSON object")
    predicting = commands.add_parser("predict", help="a quantity layer by layer, for one configuration")
    add_configuration(predicting)
    predicting.add_argument("--boundary", metavar="FILE", help="input and output moments that measure --boundary wrote")
    predicting.add_argument("--infinite-width", action="store_true", help="leave all terms of order 1/width out")
    _add_prescribing(commands.add_parser("prescribe", help="the constants that meet a target at a depth"))
    arguments = parser.parse_args()
    run = {"list": _list, "new": _new, "derive": _derive, "predict": _predict, "prescribe": _prescribe}
    run[arguments.command](arguments)


def _add_prescribing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("variant", help="deepnorm, or a .py file of the form N(alpha x + F(x)) with alpha in its constants")
    parser.add_argument("--depth", type=int, required=True, help="number of blocks L")
    parser.add_argument("--target", required=True, help=" or ".join(TARGETS))
    parser.add_argument(
        "--sublayers", type=sublayer_names, default=("attention", "gelu"), help="of one block (default: attention,gelu)"
    )
    parser.add_argument("--bound", default="1", help="of bounded-update: the summed relative update (default: %(default)s)")
    parser.add_argument(
        "--tolerance", type=float, default=TOLERANCE, help="of flat-gradient, on the squared gradient (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _list(arguments: argparse.Namespace) -> None:
    rows = [{"name": v.name, "equation": v.equation, "source": v.source} for v in registry().values()]
    if arguments.json:
        print(json.dumps({"schema": SCHEMA, "variants": rows}))
        return
    for row in rows:
        print(f"{row['name']}\n    {row['equation']}\n    {row['source']}")


def _new(arguments: argparse.Namespace) -> None:
    from theory.template import create

    path = create(arguments.name, arguments.directory)
    print(f"{path} is a variant that runs; make it yours, then: tox run -e verify -- --variant {path}")


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
    _print_steps(steps)


def _print_steps(steps: Iterable[DerivationStep]) -> None:
    for number, step in enumerate(steps, start=1):
        print(f"{number:2}. {step.title}: {step.reason}")
        if step.text:
            print(f"        {step.text}")


def _prescribe(arguments: argparse.Namespace) -> None:
    network = Configuration(load(arguments.variant), arguments.sublayers, arguments.depth)
    found = prescribe(network, arguments.target, exact_number(arguments.bound), arguments.tolerance)
    if arguments.json:
        answer = {"schema": SCHEMA, "variant": network.variant.name, "depth": network.depth, "target": arguments.target}
        answer |= {"sublayers": ",".join(network.sublayers), "constants": found.constants, "formulas": found.formulas}
        answer |= {"freedom": found.freedom, "achieved": {"gradient": found.gradient, "update": found.update}}
        print(json.dumps(answer | {"steps": [vars(step) for step in found.steps]}))
        return
    print(f"{network.variant.name}, {network.depth} blocks of {','.join(network.sublayers)}, {arguments.target}:")
    for name, value in found.constants.items():
        print(" = ".join([f"    {name}", f"{value:.8g}", *filter(None, [found.formulas.get(name)])]))
    print(f"Freedom: {found.freedom}.")
    print(f"Squared gradient at the input over the output's: {found.gradient:.6g}; summed relative update: {found.update:.6g}.")
    _print_steps(found.steps)


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
