"""One statement, several readings: claims that share a summary's key, gathered on one page with one figure."""

from __future__ import annotations

from dataclasses import dataclass

from reports import words
from reports.records import Claim, Figure, Results, Series, slug

RULER = "in proportion to m"


@dataclass(frozen=True)
class Page:
    """A summary page.

    Attributes:
        key: that its claims share.
        title: heading.
        claims: in the order of the results; each has a summary.
        figure: the claims' curves over their common ruler m, None where no claim has one.
    """

    key: str
    title: str
    claims: tuple[Claim, ...]
    figure: Figure | None

    @property
    def picture(self) -> str:
        """File name of its figure."""
        return f"summary-{slug(self.key)}.png"


def pages(results: Results) -> tuple[Page, ...]:
    """The summary pages of the results, none where no claim has a summary."""
    found: dict[str, list[Claim]] = {}
    for claim in results.claims:
        if claim.summary is not None:
            found.setdefault(claim.summary.key, []).append(claim)
    return tuple(_page(key, tuple(claims)) for key, claims in found.items())


def _page(key: str, claims: tuple[Claim, ...]) -> Page:
    curves = tuple(series for claim in claims if claim.summary is not None for series in claim.summary.series)
    title = f"{words.SUMMARIES.get(key, key)}: one statement, {words.count(len(claims), 'reading')}"
    if not curves:
        return Page(key, title, claims, None)
    longest = max((x for series in curves for x in series.x if x is not None), default=1.0)
    ruler = Series(RULER, "statement", (1.0, longest), (1.0, longest), group=RULER)
    figure = Figure(
        name=f"summary-{key}",
        series=(*curves, ruler),
        title=title,
        xlabel="m, the blocks from the layer to the output",
        ylabel="value at m over value at m = 1",
        xscale="log",
        yscale="log",
    )
    return Page(key, title, claims, figure)
