"""Checks that several claims make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from empirical.estimands import depth_exponent, held_out, log_over_cell, log_ratio, log_relative, log_relative_at_infinite_width
from empirical.verdicts import Band, Verdict
from tests.claims.declaration import SUPPORTED, Check, Whose
from tests.claims.ends import SEQUENCES
from tests.claims.sweeps import Sweep
from theory.finite_width.allowance import allowance, correction
from theory.variants import load

RESOLUTION = 0.05
"""Relative size of effect that a comparison with a law is to resolve."""
VARIANT = 0.1
"""The same for a variant of the field: stacks without residual scatter too much between networks for less."""


def law_band(sweep: Sweep, depth: int, resolution: float = RESOLUTION) -> Band:
    """Band of measured over predicted: the resolution plus what is left out of the prediction, either way."""
    configuration = sweep.configuration(depth)
    terms = allowance(configuration)
    if terms is not None:
        what = "terms of order 1/width² that the prediction leaves out (e² + 1/d, theory/finite_width/allowance.py)"
        finite = float(terms.max())
    else:
        first = correction(replace(configuration, variant=load("post-ln")))
        assert first is not None
        tied = configuration.variant.tied
        finite = float(np.abs(first).max()) * (depth if tied else 1) + 1 / configuration.width
        several = len(configuration.variant.streams) > 1
        left_out = "those of streams that no norm fixes" if several else "all, for this variant"
        what = f"terms of order 1/width that the prediction leaves out ({left_out}), taken to be Post-LN's for the same sublayers"
        what += f", {depth} times as large where {depth} blocks share their weights and so fluctuate together" if tied else ""
    width = 1 + resolution + finite
    reason = f"finite width: {what} = {finite:.3f} at d = {sweep.width}; plus {resolution}, the effect to be resolved"
    return Band(1 / width, width, reason)


def follows_law(
    sweep: Sweep, name: str, expected: Verdict = SUPPORTED, rows: slice = slice(None), resolution: float = RESOLUTION
) -> Check:
    """Measured over predicted at every layer (or ``rows``) of the deepest network; the law has no fitted constant."""
    depth = sweep.depths[-1]
    law = sweep.predicted(name, depth)
    return Check(
        name=f"{name}, measured over predicted, every layer of L={depth}, {sweep.name}",
        statistic=log_relative(sweep.deepest, name, law, rows),
        cells=(sweep.deepest,),
        band=law_band(sweep, depth, resolution),
        of="law",
        expected=expected,
        logarithm=True,
    )


def equals(one: Sweep, other: Sweep, name: str, of: Whose, rows: slice = slice(None)) -> Check:
    """A quantity of one variant over that of another whose law is the same, every row (or ``rows``) of the deepest network."""
    depth = other.depths[-1]
    return Check(
        f"{name}, {one.name} over {other.variant}, every row of L={depth}",
        log_over_cell(one.deepest, other.deepest, name, rows),
        (one.deepest, other.deepest),
        law_band(other, depth, VARIANT),
        of,
        logarithm=True,
    )


def follows_law_in_the_limit(sweeps: Sequence[Sweep], name: str, resolution: float = RESOLUTION) -> Check:
    """Measured over predicted at every layer, extrapolated in 1/width over one shared-weight network at several widths.

    Blocks with the same weights fluctuate together: their terms of order 1/width grow as the depth squared, and none is derived.
    """
    widest, depth = sweeps[-1], sweeps[-1].depths[-1]
    first = correction(replace(widest.configuration(depth), variant=load("post-ln")))
    assert first is not None
    left = (depth * float(np.abs(first).max())) ** 2
    width = 1 + resolution + left
    reason = (
        f"finite width: terms of order L²/d are extrapolated away; their square stays, {left:.3f} at d = {widest.width} (Post-LN's terms, "
        f"{depth} times as large where {depth} blocks fluctuate together); plus {resolution}, the effect to be resolved"
    )
    return Check(
        name=f"{name}, measured over predicted, extrapolated to infinite width, every layer of L={depth}, {widest.name}",
        statistic=log_relative_at_infinite_width([(s.width, s.deepest) for s in sweeps], name, widest.predicted(name, depth)),
        cells=tuple(s.deepest for s in sweeps),
        band=Band(1 / width, width, reason),
        of="law",
        logarithm=True,
    )


def follows_prediction(sweep: Sweep, name: str, rows: slice = slice(None), where: str = "every layer") -> Check:
    """Measured over predicted for a Post-LN Transformer, from its configuration and the measured ends of real data."""
    ends = 1.0
    reason = "15 %: the accuracy that the suite sets itself for Post-LN Transformers"
    if sweep.source == "text":
        ends = 1.3
        reason += (
            f"; times 1.3: the loss gradient's coherence is measured on {SEQUENCES} sequences, which leaves 10 % (standard error) "
            "on the prediction, three of them here"
        )
    return Check(
        name=f"{name}, measured over predicted, {where}, {sweep.name}",
        statistic=lambda means: log_relative(sweep.deepest, name, sweep.predicted(name, sweep.depths[-1]), rows)(means),
        cells=(sweep.deepest,),
        band=Band(1 / (1.15 * ends), 1.15 * ends, reason),
        of="law",
        logarithm=True,
    )


def extrapolates(sweep: Sweep, name: str, row: int, band: Band, expected: Verdict = SUPPORTED) -> Check:
    """The held-out depth over what a power law fitted to the other depths says."""
    return Check(
        name=f"held-out L={sweep.depths[-1]} over the extrapolated fit, {name}, {sweep.name}",
        statistic=held_out(sweep.labels, name, row),
        cells=sweep.names,
        band=band,
        of="law",
        expected=expected,
        logarithm=True,
    )


def exponent_in_depth(
    sweep: Sweep, name: str, row: int, band: Band, of: Whose, expected: Verdict = SUPPORTED, power: float = 1.0
) -> Check:
    """Exponent in L of one row, fitted without the largest depth."""
    fitted = sweep.labels[:-1]
    what = "norm" if power == 0.5 else "square"
    return Check(
        name=f"exponent in L of {name} ({what}), {sweep.name}",
        statistic=depth_exponent(fitted, name, row, power),
        cells=tuple(label for _, label in fitted),
        band=band,
        of=of,
        expected=expected,
    )


def ratio_of_rows(
    sweep: Sweep, what: str, name: str, rows: tuple[int, int], band: Band, of: Whose, expected: Verdict, power: float = 1.0
) -> Check:
    """Row over row of the deepest network; ``power`` 1/2 turns squares into norms."""
    return Check(
        name=f"{what}, {sweep.name}",
        statistic=log_ratio(sweep.deepest, name, *rows, power=power),
        cells=(sweep.deepest,),
        band=band,
        of=of,
        expected=expected,
        logarithm=True,
    )


def upper(limit: float, reason: str) -> Band:
    """A band from 0 to ``limit``."""
    return Band(0.0, limit, reason)


def lower(limit: float, reason: str) -> Band:
    """A band from ``limit`` upwards."""
    return Band(limit, np.inf, reason)
