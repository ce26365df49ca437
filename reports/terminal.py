"""The summary for a terminal: one row a claim, then the totals."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from reports import numbers, words
from reports.records import Check, Claim, Results

COLOURS = {"supported": "blue", "refuted": "dark_orange", "by condition": "magenta", "inconclusive": "yellow"}
WIDE = 150


def show(results: Results, report: Path) -> None:
    """Print each claim's decisive check, the totals and where the report lies."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDE)
    with console.capture() as page:
        _print(console, results, report)
    print(page.get(), end="")


def _print(console: Console, results: Results, report: Path) -> None:
    console.print(_table(results))
    for claim in results.failed:
        console.print(Text.assemble((f"{claim.id}: ", "bold red"), words.sentence(claim)))
        for check in claim.failing:
            console.print(Text(f"    {_line(check)}"))
    for name in results.missing:
        console.print(Text.assemble((f"{name}: ", "bold red"), "planned, but not measured"))
    for note in results.notes:
        console.print(Text(f"note: {note}", style="yellow"))
    found = ", ".join(f"{count} {verdict}" for verdict, count in words.counts(results).items())
    style = "bold green" if results.complete else "bold red"
    console.print(Text.assemble((words.total(results), style), f": {found}." if found else "."))
    console.print(Text(f"Report: {report}"), soft_wrap=True)


def _table(results: Results) -> Table:
    table = Table(title=f"Verification, profile {results.run.profile}", title_style="bold", title_justify="left")
    for name in ("claim", "verdict", "expected", "predicted", "measured [interval]", "band", "passed"):
        justify: JustifyMethod = "right" if name == "predicted" else "left"
        table.add_column(name, justify=justify, overflow="fold", min_width=24 if name == "claim" else None)
    groups = words.grouped(results).values()
    for claims in groups:
        for claim in claims:
            table.add_row(*_row(claim))
        table.add_section()
    for name in results.missing:
        table.add_row(Text(name), Text("missing", style="red"), "", "", "", "", Text("no", style="bold red"))
    return table


def _row(claim: Claim) -> list[Text]:
    check = claim.decisive
    figures = [numbers.plain(check.predicted), numbers.measured(check), numbers.band(check.band)] if check else ["—"] * 3
    verdict = claim.verdict if claim.error is None else "not judged"
    return [
        Text(claim.id),
        Text(verdict, style=COLOURS[claim.verdict]),
        Text(claim.expected, style=COLOURS[claim.expected]),
        *(Text(figure) for figure in figures),
        Text("yes", style="green") if claim.as_expected else Text("no", style="bold red"),
    ]


def _line(check: Check) -> str:
    found = f"measured {numbers.measured(check)}, band {numbers.band(check.band)}"
    return f"{check.name}: {check.verdict}, theory expects {check.expected}; {found}"
