"""What a claim is: a statement, its reading, the law, what is measured, bands with reasons, the expected verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np

from empirical.measurement import Cell
from empirical.statistics import Estimate, Statistic
from empirical.training import Arm
from empirical.verdicts import Band, Verdict, judge
from tests.claims.atlas import Entry
from tests.claims.summaries import Summary
from tests.claims.together import Together
from theory.laws.steps import DerivationStep

Whose = Literal["statement", "law"]
SUPPORTED, REFUTED, BY_CONDITION = Verdict.SUPPORTED, Verdict.REFUTED, Verdict.BY_CONDITION


@dataclass(frozen=True)
class Training:
    """How large trained networks are, and how many there are of each.

    Attributes:
        looks: numbers of networks at which a check is judged; more are trained only where it is not decided.
        rates: peak learning rates, falling: the claims' own first, one that Post-LN bears without warm-up last.
        steps, batch: of the optimiser.
        warmup: steps of it, where there is one.
        deep: blocks of the stacks that are to be too deep for Post-LN.
        short: steps of deep stacks; their warm-up is shorter in proportion.
        text, pairs: corpora.
        dtype: as `Arm`.
    """

    looks: tuple[int, ...]
    depth: int
    deep: int
    width: int
    heads: int
    tokens: int
    rates: tuple[float, ...]
    steps: int
    batch: int
    warmup: int
    short: int
    text: str = "topics"
    pairs: str = "en-de"
    dtype: str = "float32"

    @property
    def short_warmup(self) -> int:
        """Steps of warm-up where ``short`` are taken."""
        return self.warmup * self.short // self.steps


@dataclass(frozen=True)
class Profile:
    """How much is measured.

    Attributes:
        depths: geometrically spaced; the largest is held out from every fit.
        budget: most networks a cell may take.
        sublayers: of the generic claims.
        training: sizes of the networks that are trained.
        seed: base seed.
    """

    name: str
    depths: tuple[int, ...]
    budget: int
    sublayers: tuple[str, ...]
    training: Training
    seed: int = 0


_DEPTHS, _SUBLAYERS = (2, 4, 8, 16, 32, 64, 128, 256), ("linear", "relu", "gelu", "silu", "tanh")
_LAPTOP = Training(
    looks=(4, 8, 16),
    depth=6,
    deep=12,
    width=64,
    heads=4,
    tokens=64,
    rates=(3e-3, 1e-3),
    steps=400,
    batch=8,
    warmup=200,
    short=200,
)
_LONGER = replace(
    _LAPTOP,
    looks=(5, 10, 20),
    deep=24,
    rates=(3e-3, 1e-3, 5e-4),
    steps=1000,
    warmup=300,
    short=1000,
    text="library",
    pairs="en-all",
)
_LARGE = Training(
    looks=(5, 10),
    depth=12,
    deep=64,
    width=512,
    heads=8,
    tokens=128,
    rates=(1e-3, 2.5e-4, 5e-5),
    steps=4000,
    batch=32,
    warmup=1000,
    short=4000,
    text="library",
    pairs="en-all",
    dtype="bfloat16",
)
PROFILES = {
    "quick": Profile("quick", (2, 4, 8, 16, 32, 64), 8192, ("relu", "gelu"), _LAPTOP),
    "full": Profile("full", _DEPTHS, 32768, _SUBLAYERS, _LONGER),
    "gpu": Profile("gpu", _DEPTHS, 32768, _SUBLAYERS, _LARGE),
}


class Direct(Protocol):
    """A measurement that is not a stack of blocks: readings of the first members, by quantity."""

    def __call__(self, members: int) -> Mapping[str, np.ndarray]:
        """(members, rows) of each quantity."""


@dataclass(frozen=True)
class Check:
    """One number against one band.

    Args:
        name: what the number is.
        statistic: from cell means to the number (or one a layer).
        cells: labels of the cells that it reads.
        band: where it lies if the statement (or law) holds, in the units that are shown.
        of: whose band it is, the printed ``statement``'s or our ``law``'s.
        expected: the verdict that theory expects.
        predicted: theory's value in the units that are shown, where it is not the statistic of theory's own rows.
        logarithm: the statistic is the logarithm of what is shown.
    """

    name: str
    statistic: Statistic
    cells: tuple[str, ...]
    band: Band
    of: Whose
    expected: Verdict = SUPPORTED
    predicted: float | None = None
    logarithm: bool = False
    unit: str = ""

    def verdict(self, found: Estimate) -> Verdict:
        """The band's verdict on an estimate, on the statistic's own scale."""
        if not self.logarithm:
            return judge(found, self.band)
        with np.errstate(divide="ignore"):
            low, high = np.log(self.band.low), np.log(self.band.high)
        return judge(found, Band(float(low), float(high), self.band.reason))

    def in_units(self, values: np.ndarray) -> np.ndarray:
        """From the statistic's scale to the units that are shown."""
        return np.exp(values) if self.logarithm else np.asarray(values)

    def decisive(self, found: Estimate) -> int:
        """The component nearest to (or furthest beyond) an end of the band."""
        low, high = self.in_units(found.low), self.in_units(found.high)
        room = np.minimum(low - self.band.low, self.band.high - high)
        return int(np.argmin(np.where(np.isfinite(room), room, np.inf)))


@dataclass(frozen=True)
class Ours:
    """Our figure beside a source's, measured with an interval but judged by no band; fields as `Check` has them."""

    statistic: Statistic
    cells: tuple[str, ...]
    logarithm: bool = False


def ours(check: Check) -> Ours:
    """What a check measures, to be shown beside a source's figure."""
    return Ours(check.statistic, check.cells, check.logarithm)


@dataclass(frozen=True)
class Claim:
    """A claim, complete for one profile. Everything in it ends up in the report."""

    id: str
    group: Literal["gradients", "forward", "training", "variants"]
    title: str
    statement: str
    source: str
    reading: str
    law: dict[str, str]
    cells: Mapping[str, Cell | Arm | Together | Direct]
    checks: tuple[Check, ...]
    expected: Verdict
    assumptions: tuple[str, ...] = ()
    derived: tuple[str, str] | None = None
    """Variant and sublayers (comma-separated) whose derivation the report prints."""
    steps: tuple[DerivationStep, ...] = ()
    """A derivation beyond the gradient's, printed after it."""
    figures: tuple[Callable[[Mapping[str, Mapping[str, np.ndarray]]], dict[str, Any]], ...] = ()
    """Each from measured values (label of a cell → quantity → (members, rows)) to a figure's record."""
    summary: Summary | None = None
    """Its line on the page of a statement that several claims read."""
    atlas: tuple[Entry, ...] = ()
    """What it adds to the page that compares all variants."""
    reported: tuple[Mapping[str, Any], ...] = ()
    """The source's own figures; ours beside them (``ours``) in words, or as a tuple of `Ours`."""
    erratum: dict[str, str] | None = None
    zeros_allowed: bool = False
    first_look: int = 256
    budget: int | None = None
    """Most networks a cell, where the profile's are too few for the resolution that the claim asks for."""
    looks: tuple[int, ...] = ()
    """Numbers of networks at which a check is judged, in place of ``first_look`` and its multiples up to the budget."""
    options: str = ""
    """What a verification needs on its command line to have this claim."""

    def verdict(self, verdicts: list[Verdict]) -> Verdict:
        """The statement's verdict from its checks' (the law's, where the statement is the law)."""
        own = [v for check, v in zip(self.checks, verdicts, strict=True) if check.of == "statement"] or verdicts
        if Verdict.INCONCLUSIVE in own:
            return Verdict.INCONCLUSIVE
        return own[0] if len(set(own)) == 1 else BY_CONDITION


Builder = Callable[[Profile], Claim]
BUILDERS: dict[str, Builder] = {}
"""Claims by id, each built for a profile."""


def claim(build: Builder) -> Builder:
    """Register a claim under its function's name with hyphens."""
    BUILDERS[build.__name__.replace("_", "-")] = build
    return build
