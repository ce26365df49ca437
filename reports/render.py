"""Results → the text of report.md."""

from __future__ import annotations

import re
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from reports import markdown, numbers, words
from reports.atlas import atlas
from reports.records import Check, Claim, Figure, Results, Step, slug
from reports.summaries import pages


def render(results: Results) -> str:
    """The report as Markdown; its figures lie beside it as ``figures/`` + `picture`."""
    environment = Environment(
        loader=PackageLoader("reports"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters |= {
        "prose": markdown.prose,
        "cell": markdown.cell,
        "summary": markdown.summary,
        "formula": markdown.formula,
        "fence": markdown.fence,
        "slug": slug,
        "sentence": words.sentence,
        "mark": words.mark,
        "plain": numbers.plain,
        "band": numbers.band,
        "measured": numbers.measured,
        "ours": numbers.ours,
        "duration": numbers.duration,
        "interval": _interval,
        "value": _value,
        "picture": picture,
        "reasons": reasons,
    }
    environment.globals["symbols"] = words.SYMBOLS
    groups = words.grouped(results)
    text = environment.get_template("report.md.j2").render(
        results=results,
        groups=groups,
        titles={group: words.GROUPS.get(group, group.capitalize()) for group in groups},
        total=words.total(results),
        counts=words.counts(results),
        checks=sum(len(claim.checks) for claim in results.claims),
        pages=pages(results),
        page_of_variants=atlas(results),
        errata=[claim for claim in results.claims if claim.erratum],
        derived=_derived(groups),
        versions=", ".join(f"{name} {version}" for name, version in results.run.versions.items()),
    )
    return re.sub(r"\n{3,}", "\n\n", text)


def picture(claim: Claim, figure: Figure) -> str:
    """File name of a figure, the same in every run."""
    return f"{slug(claim.id)}-{slug(figure.name)}.png"


def reasons(claim: Claim) -> list[tuple[str, list[str]]]:
    """Each reason of a band with the names of the checks that it holds for."""
    found: dict[str, list[str]] = {}
    for check in claim.checks:
        if check.reason.strip():
            found.setdefault(check.reason, []).append(check.name)
    return list(found.items())


def _derived(groups: dict[str, list[Claim]]) -> dict[str, Claim | None]:
    """For each claim the earlier claim whose derivation is word for word the same, if there is one."""
    first: dict[tuple[Step, ...], Claim] = {}
    found: dict[str, Claim | None] = {}
    for claim in (claim for claims in groups.values() for claim in claims):
        earlier = first.setdefault(claim.derivation, claim)
        found[claim.id] = earlier if claim.derivation and earlier is not claim else None
    return found


def _interval(check: Check) -> tuple[str, str]:
    return numbers.with_interval(check.measured, check.low, check.high)


def _value(value: Any) -> str:
    if value is None or isinstance(value, float):
        return numbers.plain(value)
    return markdown.cell(value)
