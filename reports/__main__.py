"""``python -m reports RESULTS.jsonl [--output DIR]``."""

from __future__ import annotations

import io
import sys
from pathlib import Path

from reports.records import Results
from theory.commands import Parser, leave_in_one_line


def main() -> int:
    """Exit code: 0 every planned claim is there and passed, 1 some claim did not pass or is missing, 2 bad input."""
    complete: list[bool] = []

    def run() -> None:
        results, report = _write()
        complete.append(results.complete)
        from reports.terminal import show

        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")
        show(results, report)

    return leave_in_one_line(run) or int(not all(complete))


def _write() -> tuple[Results, Path]:
    parser = Parser(
        prog="python -m reports", description="Turn recorded verdicts into report.md with figures, and a summary here."
    )
    parser.add_argument("results", type=Path, metavar="RESULTS.jsonl", help="what the claims recorded")
    parser.add_argument("--output", type=Path, metavar="DIR", help="where report.md and figures/ go (default: beside RESULTS)")
    arguments = parser.parse_args()
    from reports.results import read

    results = read(arguments.results)
    from reports.atlas import atlas
    from reports.figures import draw
    from reports.panels import draw_panels
    from reports.render import picture, render
    from reports.summaries import pages
    from reports.writing import write_all

    folder = arguments.results.parent if arguments.output is None else arguments.output
    report = folder / "report.md"
    figures = {picture(claim, figure): figure for claim in results.claims for figure in claim.figures}
    figures |= {page.picture: page.figure for page in pages(results) if page.figure is not None}
    pictures = {folder / "figures" / name: draw(figure) for name, figure in figures.items()}
    page = atlas(results)
    pictures |= {folder / "figures" / panels.picture: draw_panels(panels) for panels in (page.panels if page else ())}
    write_all(pictures | {report: render(results).encode()})
    return results, report


if __name__ == "__main__":
    sys.exit(main())
