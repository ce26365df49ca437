"""``python -m empirical train VARIANT``: held-out loss step by step, with intervals over seeds."""

from __future__ import annotations

import argparse
from math import isfinite
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from empirical.measurement import DTYPES, device_named
from empirical.statistics import mean_interval
from empirical.training.arm import Arm
from empirical.training.run import Trained, train
from empirical.training.schedules import AFTER, Schedule
from empirical.training.tasks import KINDS
from theory.commands import add_network, network, rows_as_json, rows_as_table
from theory.errors import InvalidInput


def add(commands: Any) -> None:
    """The command's flags; `arguments.act` is what it does."""
    parser = commands.add_parser("train", help="held-out loss step by step, for one configuration")
    add_network(parser)
    parser.set_defaults(sublayers=("attention", "gelu"), depth=6, width=64, tokens=64, act=_train)
    parser.add_argument(
        "--task", default="text", help=f"{', '.join(KINDS)}, or one with its data: text:library, translation:en-fr"
    )
    parser.add_argument("--batch", type=int, default=16, help="examples a step (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=400, help="of Adam (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=3e-3, help="peak learning rate (default: %(default)s)")
    parser.add_argument("--warmup", type=int, default=0, help="steps of linear warm-up (default: none)")
    parser.add_argument("--after", default="constant", help=f"after it: {', '.join(AFTER)} (default: %(default)s)")
    parser.add_argument("--clip", type=float, default=0.0, help="largest norm of a gradient (default: no limit)")
    parser.add_argument("--evaluations", type=int, default=20, help="of the held-out loss (default: %(default)s)")
    parser.add_argument("--held-out", type=int, default=64, help="examples that it is taken over (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="number of networks (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="base seed (default: %(default)s)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda (default: %(default)s)")
    parser.add_argument("--dtype", default="float32", help=f"{', '.join(DTYPES)} (default: %(default)s)")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help="kept there at every evaluation; read if it is there")
    parser.add_argument("--level", type=float, default=0.95, help="confidence level of a row's interval (default: %(default)s)")


def _train(arguments: argparse.Namespace) -> None:
    if arguments.seeds < 2:
        raise InvalidInput(f"seeds is {arguments.seeds}: an interval needs at least 2")
    if not 0 < arguments.level < 1:
        raise InvalidInput(f"level is {arguments.level}: it must lie between 0 and 1")
    arm = Arm(
        network(arguments),
        Schedule(arguments.rate, arguments.warmup, arguments.after),
        task=arguments.task,
        steps=arguments.steps,
        batch=arguments.batch,
        evaluations=arguments.evaluations,
        held_out=arguments.held_out,
        profiled=(),
        seed=arguments.seed,
        dtype=arguments.dtype,
        clip=arguments.clip,
    )
    device = device_named(arguments.device)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[loss]}"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        shown = bar.add_task(f"{arm.configuration.variant.name}: steps", total=arm.steps, loss="")
        found = train(
            arm,
            range(arguments.seeds),
            device,
            lambda step, loss: bar.update(shown, completed=step, loss=f"loss {loss:.3f}"),
            arguments.checkpoint,
        )
    _print(arm, found, arguments, str(device))


def _print(arm: Arm, found: Trained, arguments: argparse.Namespace, device: str) -> None:
    interval = mean_interval(found.values["held-out-loss"], arguments.level)
    rows = [
        {"step": step, "mean": _number(mean), "low": _number(low), "high": _number(high)}
        for step, mean, low, high in zip(found.steps, interval.value, interval.low, interval.high, strict=True)
    ]
    ended = ", ".join(sorted({rule for rule in found.ended if rule}))
    if arguments.json:
        more = {name: value for name, value in arm.describe().items() if name not in ("variant", "equation", "branch_gain")}
        more |= {"seeds": arguments.seeds, "device": device, "level": arguments.level}
        more |= {"unlearned": found.unlearned, "taken": found.taken, "ended": ended}
        print(rows_as_json(arm.configuration, "held-out-loss", rows, **more))
        return
    unlearned = "" if found.unlearned is None else f"; {found.unlearned:.4g} with nothing learned"
    early = f"; ended early after {found.taken} steps: {ended}" if ended else ""
    title = f"{arm.configuration.variant.name}: held-out loss, {arguments.seeds} networks, {arguments.level:.0%} intervals"
    Console().print(rows_as_table(title + unlearned + early, rows))


def _number(x: float) -> float | None:
    """None where a loss is no number: JSON has none either."""
    return float(x) if isfinite(x) else None
