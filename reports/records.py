"""What a results file holds: schema 1, field by field as frozen dataclasses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

SCHEMA = 1
Verdict = Literal["supported", "refuted", "inconclusive", "by condition"]
Style = Literal["measured", "law", "statement", "heldout", "reported"]
Scale = Literal["linear", "log"]
Number = float | None


def slug(name: str) -> str:
    """A name as it may stand in a link or in a file's name."""
    return re.sub(r"[^a-z0-9._]+", "-", name.lower()).strip("-.") or "unnamed"


@dataclass(frozen=True)
class Run:
    """The first line: what was run, where, and which claims were planned."""

    profile: str
    planned: tuple[str, ...]
    seed: int | None = None
    device: str = ""
    dtype: str = ""
    commit: str | None = None
    dirty: bool = False
    corpus: str | None = None
    started: str = ""
    machine: str = ""
    accelerator: str | None = None
    versions: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
    variants: tuple[str, ...] = ()
    """A user's own, where the run is about them only."""


@dataclass(frozen=True)
class Law:
    """The law that theory derives, as LaTeX and as one plain sentence."""

    latex: str = ""
    text: str = ""


@dataclass(frozen=True)
class Step:
    """One step of a derivation."""

    title: str
    reason: str = ""
    latex: str = ""
    text: str = ""


@dataclass(frozen=True)
class Check:
    """One measured number beside its band; an end of the band that is None is open.

    With several ``components`` (such as layers) their intervals are simultaneous, and the number is the one that decided.
    """

    name: str
    verdict: Verdict
    expected: Verdict
    band: tuple[Number, Number]
    band_of: Literal["statement", "law"]
    predicted: Number = None
    measured: Number = None
    low: Number = None
    high: Number = None
    level: Number = None
    reason: str = ""
    seeds: int | None = None
    budget: int | None = None
    unit: str = ""
    components: int = 1

    @property
    def as_expected(self) -> bool:
        """Whether it came out as theory expects; an inconclusive check never does."""
        return self.verdict == self.expected and self.verdict != "inconclusive"


@dataclass(frozen=True)
class Series:
    """One line or cloud of points; ``low`` and ``high`` are ends of intervals."""

    label: str
    style: Style
    x: tuple[Number, ...]
    y: tuple[Number, ...]
    low: tuple[Number, ...] | None = None
    high: tuple[Number, ...] | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        """Refuse series whose values do not go with their x."""
        for name in ("y", "low", "high"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.x):
                raise ValueError(f"series {self.label!r} has {len(self.x)} x but {len(values)} {name}")


@dataclass(frozen=True)
class Figure:
    """Axes and series of one figure."""

    name: str
    series: tuple[Series, ...]
    title: str = ""
    xlabel: str = ""
    ylabel: str = ""
    xscale: Scale = "linear"
    yscale: Scale = "linear"


@dataclass(frozen=True)
class Table:
    """The full figures behind a claim."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Reported:
    """A source's own figure beside ours."""

    what: str
    source: str
    value: str
    ours: str = ""
    note: str = ""
    measured: tuple[tuple[Number, Number, Number], ...] = ()
    """Ours with its interval (value, low, high), one or more."""


@dataclass(frozen=True)
class Erratum:
    """A statement that is wrong as printed."""

    printed: str
    right: str
    why: str = ""


@dataclass(frozen=True)
class Sanity:
    """Whether the measurement was valid at all."""

    passed: bool
    checks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Summary:
    """One reading of a statement that several claims read: its line and its curve on their common page."""

    key: str
    reading: str
    law: str = ""
    series: tuple[Series, ...] = ()


@dataclass(frozen=True)
class Classes:
    """Asymptotic classes in words; ``kind`` is that of the gradient across layers."""

    kind: str
    in_depth: str
    across_layers: str
    forward: str


@dataclass(frozen=True)
class Deep:
    """Predicted figures of a deep stack: squared gradient at the input over the output's, stream moment at the end, worst case.

    None where a figure has no law or leaves the range of floats.
    """

    depth: int
    gradient: Number = None
    moment: Number = None
    worst: Number = None


@dataclass(frozen=True)
class Entry:
    """One variant with one block of sublayers, as the atlas compares them."""

    variant: str
    equation: str
    sublayers: str
    depth: int
    tokenwise: bool = True
    classes: Classes | None = None
    worst_case: str = ""
    deep: Deep | None = None
    series: tuple[Series, ...] = ()


@dataclass(frozen=True)
class Claim:
    """One claim with its law, its checks and its verdict."""

    id: str
    title: str
    verdict: Verdict
    expected: Verdict
    passed: bool
    checks: tuple[Check, ...]
    group: str = "gradients"
    statement: str = ""
    source: str = ""
    reading: str = ""
    assumptions: tuple[str, ...] = ()
    law: Law = Law()
    derivation: tuple[Step, ...] = ()
    figures: tuple[Figure, ...] = ()
    table: Table | None = None
    reported: tuple[Reported, ...] = ()
    erratum: Erratum | None = None
    summary: Summary | None = None
    atlas: tuple[Entry, ...] = ()
    sanity: Sanity | None = None
    command: str = ""
    seconds: Number = None
    error: str | None = None

    def __post_init__(self) -> None:
        """Refuse two figures that would share a file."""
        names = [slug(figure.name) for figure in self.figures]
        if len(set(names)) < len(names):
            raise ValueError(f"claim {self.id!r} has two figures of one name: {', '.join(names)}")

    @property
    def as_expected(self) -> bool:
        """Whether the claim passes: recorded so, and borne out by its verdict, its gate and every check."""
        valid = self.error is None and (self.sanity is None or self.sanity.passed)
        decided = self.verdict == self.expected and self.verdict != "inconclusive"
        return self.passed and valid and decided and bool(self.checks) and not self.failing

    @property
    def failing(self) -> tuple[Check, ...]:
        """The checks that did not come out as expected."""
        return tuple(check for check in self.checks if not check.as_expected)

    @property
    def decisive(self) -> Check | None:
        """The check to show for the whole claim: a failing one, else one of the statement's own band that gave the verdict."""
        gave = [check for check in self.checks if check.verdict == self.verdict]
        own = [check for check in gave if check.band_of == "statement"]
        return next(iter([*self.failing, *own, *gave, *self.checks]), None)


@dataclass(frozen=True)
class End:
    """The last line of a run that was not interrupted."""

    finished: str = ""
    seconds: Number = None


@dataclass(frozen=True)
class Results:
    """A whole results file; ``notes`` say what is odd about it."""

    run: Run
    claims: tuple[Claim, ...]
    end: End | None = None
    notes: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """Planned claims without a verdict."""
        measured = {claim.id for claim in self.claims}
        return tuple(name for name in self.run.planned if name not in measured)

    @property
    def failed(self) -> tuple[Claim, ...]:
        """Claims that did not come out as expected."""
        return tuple(claim for claim in self.claims if not claim.as_expected)

    @property
    def complete(self) -> bool:
        """Whether every planned claim is there and passed."""
        return not self.missing and not self.failed
