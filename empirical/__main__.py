"""``python -m empirical``: ``measure VARIANT`` gives the same rows as ``python -m theory predict``, ``train VARIANT`` trains;
``corpora`` lists the data.
"""

from __future__ import annotations

import argparse
import json
import sys

from rich.console import Console
from rich.progress import Progress

from empirical.corpora import listing
from empirical.ensemble import Ensemble
from empirical.layers import ENGINES
from empirical.measurement import DTYPES, Cell, boundaries, device_named
from empirical.sanity import gate
from empirical.sources import SOURCES
from empirical.statistics import mean_interval
from empirical.training import command
from theory.boundary import write
from theory.commands import SCHEMA, Parser, add_configuration, configuration, leave_in_one_line, rows_as_json, rows_as_table
from theory.errors import InvalidInput
from theory.quantities import quantity

BOUNDARIES = 16
"""Sequences whose ends are written: a prediction averages over them."""


def main() -> None:
    """Parse the command line and do what it asks for."""
    parser = Parser(prog="python -m empirical", description="Measure networks at initialisation, or train them; list the data.")
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure", help="a quantity layer by layer, for one configuration")
    add_configuration(measuring)
    measuring.add_argument("--seeds", type=int, default=64, help="number of networks (default: %(default)s)")
    measuring.add_argument("--engine", default="dense", help=f"{' or '.join(ENGINES)} (default: %(default)s)")
    measuring.add_argument("--device", default="auto", help="auto, cpu or cuda (default: %(default)s)")
    measuring.add_argument("--dtype", default="float64", help=f"{', '.join(DTYPES)} (default: %(default)s)")
    measuring.add_argument("--seed", type=int, default=0, help="base seed (default: %(default)s)")
    measuring.add_argument("--input", default="isotropic", help=f"{', '.join(SOURCES)} or coherent:COSINE (default: %(default)s)")
    measuring.add_argument(
        "--boundary",
        metavar="FILE",
        help=f"write the second moments of inputs and output gradients there, for predict (first {BOUNDARIES} networks)",
    )
    measuring.add_argument(
        "--level", type=float, default=0.95, help="confidence level of a row's interval (default: %(default)s)"
    )
    measuring.set_defaults(act=_measure)
    command.add(commands)
    showing = commands.add_parser("corpora", help="the data of the training claims: sizes, hashes, entropies")
    showing.add_argument("names", nargs="*", metavar="NAME", help=f"default: {', '.join(listing.NAMES)}; en-fr and so on")
    showing.add_argument("--json", action="store_true", help="print one JSON object")
    showing.set_defaults(act=_corpora)
    arguments = parser.parse_args()
    arguments.act(arguments)


def _corpora(arguments: argparse.Namespace) -> None:
    rows = map(listing.row, arguments.names) if arguments.names else map(listing.row_if_installed, listing.NAMES)
    if arguments.json:
        print(json.dumps({"schema": SCHEMA, "corpora": list(rows)}))
        return
    for row in rows:
        print(listing.line(row), flush=True)


def _measure(arguments: argparse.Namespace) -> None:
    if arguments.seeds < 2:
        raise InvalidInput(f"seeds is {arguments.seeds}: an interval needs at least 2")
    if not 0 < arguments.level < 1:
        raise InvalidInput(f"level is {arguments.level}: it must lie between 0 and 1")
    wanted = quantity(arguments.quantity)
    extra = (wanted.name,) if wanted.on_demand else ()
    cell = Cell(configuration(arguments), arguments.input, arguments.engine, arguments.dtype, arguments.seed, extra)
    wanted.require_fresh(cell.configuration)
    if wanted.isotropic and arguments.input != "isotropic":
        raise InvalidInput(f"{wanted.name} is defined for an isotropic gradient at the output: use --input isotropic")
    if wanted.name not in cell.quantities:
        raise InvalidInput(f"{wanted.name} compares two tokens: give --tokens 2 or more")
    device = device_named(arguments.device)
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"{cell.configuration.variant.name}: networks", total=arguments.seeds)
        ensemble = Ensemble(cell, device, lambda added: progress.advance(task, added))
        try:
            ensemble.extend(arguments.seeds)
        except KeyboardInterrupt:
            if ensemble.members < 2:
                raise
            progress.stop()
            _print(ensemble, wanted.name, arguments)
            raise InvalidInput(
                f"interrupted after {ensemble.members} of {arguments.seeds} networks: the rows are theirs; run it again for all"
            ) from None
    if arguments.boundary:
        write(arguments.boundary, boundaries(cell, range(min(arguments.seeds, BOUNDARIES)), device))
    _print(ensemble, wanted.name, arguments)


def _print(ensemble: Ensemble, name: str, arguments: argparse.Namespace) -> None:
    cell, readings = ensemble.cell, ensemble.readings
    gate(cell, readings)
    found = mean_interval(readings.values[name], arguments.level)
    labels = quantity(name).labels(cell.configuration)
    rows = [
        label | {"mean": float(mean), "low": float(low), "high": float(high)}
        for label, mean, low, high in zip(labels, found.value, found.low, found.high, strict=True)
    ]
    if arguments.json:
        more = {
            "seeds": readings.members,
            "engine": cell.engine,
            "device": str(ensemble.device),
            "dtype": cell.dtype,
            "seed": cell.seed,
        }
        print(rows_as_json(cell.configuration, name, rows, **more, input=cell.source, level=arguments.level))
        return
    title = f"{cell.configuration.variant.name}: measured {name}, {readings.members} networks, {arguments.level:.0%} intervals"
    Console().print(rows_as_table(title, rows))


if __name__ == "__main__":
    sys.exit(leave_in_one_line(main))
