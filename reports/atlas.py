"""The page that compares all variants: one row each, grouped by class, and their curves as small multiples on common axes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from reports.numbers import plain
from reports.records import Claim, Entry, Results

KINDS = {
    "flat": "Flat: the same gradient at all layers",
    "logarithmic": "Logarithmic across the layers",
    "power": "A power of the layer",
    "stretched exponential": "Between a power and an exponential",
    "exponential": "Exponential across the layers",
    "zero": "No gradient",
}
"""Classes of the typical squared gradient across the layers, in the order of the page."""
OTHERS = "No class: the numeric recursion decides"
LEAD = "relu"
"""Sublayers whose class a variant is listed under; every class is exact for them."""
CURVES = {True: "tokenwise", False: "attention"}


@dataclass(frozen=True)
class Row:
    """One variant: its claims and their entries."""

    variant: str
    claims: tuple[Claim, ...]
    entries: tuple[Entry, ...]

    @property
    def lead(self) -> Entry:
        """The entry that the variant is listed by."""
        first = [entry for entry in self.entries if entry.sublayers == LEAD] or [e for e in self.entries if e.tokenwise]
        return (first or list(self.entries))[0]

    @property
    def group(self) -> str:
        """Heading that it stands under."""
        kind = self.lead.classes.kind if self.lead.classes is not None else ""
        return KINDS.get(kind, OTHERS)

    @property
    def size(self) -> float:
        """Logarithm of the gradient at the input over the output's in the deep stack, by which rows are sorted."""
        ratio = self.lead.deep.gradient if self.lead.deep is not None else None
        return math.log(ratio) if ratio else math.inf

    def words(self, part: str) -> str:
        """A class, one wording for all sublayers that share it."""
        return _shared([(e.sublayers, getattr(e.classes, part) if e.classes is not None else "") for e in self.entries])

    @property
    def worst_case(self) -> str:
        """The worst case's class, where theory has one."""
        return next((entry.worst_case for entry in self.entries if entry.worst_case), "—")

    def deep(self, part: str) -> str:
        """A figure of the deep stack."""
        return _shared([(e.sublayers, plain(getattr(e.deep, part))) for e in self.entries if e.deep is not None])


def _shared(found: list[tuple[str, str]]) -> str:
    by_words: dict[str, list[str]] = {}
    for sublayers, words in found:
        if words and words != "—":
            by_words.setdefault(words, []).append(sublayers.replace(",", " + "))
    if not by_words:
        return "—"
    if len(by_words) == 1 and len(next(iter(by_words.values()))) == len(found):
        return next(iter(by_words))
    return "; ".join(f"{words} ({', '.join(names)})" for words, names in by_words.items())


@dataclass(frozen=True)
class Panels:
    """Small multiples: one panel a variant, all on the axes of the first."""

    name: str
    title: str
    entries: tuple[tuple[Entry, ...], ...]

    @property
    def picture(self) -> str:
        """File name."""
        return f"{self.name}.png"


@dataclass(frozen=True)
class Atlas:
    """The page: groups of rows by heading, and the figures."""

    groups: dict[str, list[Row]]
    panels: tuple[Panels, ...]
    depth: int


def atlas(results: Results) -> Atlas | None:
    """The page, None where the results hold fewer than two variants."""
    claims: dict[str, list[Claim]] = {}
    for claim in results.claims:
        for name in dict.fromkeys(entry.variant for entry in claim.atlas):
            claims.setdefault(name, []).append(claim)
    if len(claims) < 2:
        return None
    rows = [Row(name, tuple(own), tuple(e for c in own for e in c.atlas if e.variant == name)) for name, own in claims.items()]
    rows.sort(key=lambda row: (row.size, row.variant))
    groups = {heading: [row for row in rows if row.group == heading] for heading in (*KINDS.values(), OTHERS)}
    ordered = [row for group in groups.values() for row in group]
    depths = [entry.deep.depth for row in rows for entry in row.entries if entry.deep is not None]
    return Atlas({heading: own for heading, own in groups.items() if own}, _panels(ordered), max(depths, default=0))


def _panels(rows: list[Row]) -> tuple[Panels, ...]:
    titles = {
        True: "Squared gradient over the output's, from the input (left) to the output (right): token-wise sublayers",
        False: "Squared gradient over the output's, from the input (left) to the output (right): blocks of attention and FFN",
    }
    found = []
    for tokenwise, title in titles.items():
        entries = tuple(tuple(e for e in row.entries if e.tokenwise == tokenwise and e.series) for row in rows)
        if any(entries):
            found.append(Panels(f"atlas-{CURVES[tokenwise]}", title, tuple(own for own in entries if own)))
    return tuple(found)
