"""Everything that a user's own variant has to answer, read off its expression; nothing here is typed in for one variant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from empirical.estimands import log_ratio, log_ratio_of_cells, log_relative
from empirical.statistics import Statistic
from empirical.verdicts import Band
from tests.claims.checks import follows_law, law_band
from tests.claims.declaration import REFUTED, SUPPORTED, Builder, Check, Claim, Profile
from tests.claims.figures import across_layers, against_depth
from tests.claims.runner import predict
from tests.claims.sources import generic
from tests.claims.sources.worst_case import NETWORKS, NORM, norm_sweep
from tests.claims.sweeps import Sweep, cells_of
from tests.claims.texts import ISOTROPIC
from theory.errors import InvalidInput
from theory.laws.classes import closed_class
from theory.quantities import quantity
from theory.spectrum.derivation import worst_case
from theory.sublayers import sublayer
from theory.variants import load

GRADIENT = "stream-gradient"
BESIDE = ("post-ln", "pre-ln", "deepnorm")
FLAT = Band(1 / 2, 2, "flat: the squared gradient changes by less than a factor 2, so the norm by less than √2")


def claims_of(name: str, options: str = "") -> dict[str, Builder]:
    """The claims of one variant, by id.

    Args:
        name: as `theory.variants.load` knows it.
        options: what the command line of a verification needs to have them.

    Raises:
        InvalidInput: theory can predict nothing of it.
    """
    parts = generic.PARTS | {"": _follows_law, "-in-depth": _in_depth, "-across-layers": _across_layers}
    parts |= {"-worst-case": _worst_case} if _has_worst_case(name) else {}
    parts |= {"-comparison": _comparison}
    return {f"variant-{name}{ending}": _builder(part, f"variant-{name}{ending}", name, options) for ending, part in parts.items()}


def _builder(part: Callable[[str, Profile], Claim], claim_id: str, name: str, options: str) -> Builder:
    return lambda profile: replace(part(name, profile), id=claim_id, options=options)


def _claim(name: str, title: str, reading: str, sweeps: list[Sweep], checks: list[Check], text: str = "") -> Claim:
    variant = load(name)
    claim = Claim(
        id="",
        group="variants",
        title=f"{name}: {title}",
        statement=f"{variant.equation}: {title}.",
        source=variant.source,
        reading=reading,
        law={"latex": variant.latex, "text": text} if text else generic.law_of(name),
        cells=cells_of(*sweeps),
        checks=tuple(checks),
        expected=SUPPORTED,
        assumptions=ISOTROPIC,
    )
    return replace(claim, expected=claim.verdict([check.expected for check in checks]))


def _follows_law(name: str, profile: Profile) -> Claim:
    """The generic claim; it says so where theory has no law for the worst case."""
    steps = () if _has_worst_case(name) else tuple(worst_case(load(name)))
    return replace(generic.follows_its_law(name, profile), steps=steps)


def _in_depth(name: str, profile: Profile) -> Claim:
    sweeps = [Sweep(name, sublayers, profile.depths, profile.seed) for sublayers in profile.sublayers]
    checks = []
    for sweep in sweeps:
        (shallow, first), (deep, last) = sweep.labels[0], sweep.labels[-1]
        what = f"squared gradient at the input, L={deep} over L={shallow}, {sweep.name}"
        checks += _flat(what, log_ratio_of_cells(last, first, GRADIENT, 0), (first, last), sweep)
        checks.append(follows_law(sweep, GRADIENT, rows=slice(0, 1), resolution=generic.RESOLUTION))
    title = "the gradient at the input does not depend on the depth"
    reading = f"Squared stream gradient at layer 0 for a unit gradient at the output, {profile.depths[0]} to {profile.depths[-1]} blocks."
    claim = _claim(name, title, reading, sweeps, checks, _classes(name, profile, "depth"))
    figure = against_depth(f"{name}: squared gradient at the input against depth", "squared gradient", sweeps, GRADIENT, 0)
    return replace(claim, figures=(figure,))


def _across_layers(name: str, profile: Profile) -> Claim:
    sweeps = [generic.tokenwise(name, sublayers, profile) for sublayers in profile.sublayers]
    depth, checks = generic.depth(name, profile), []
    for sweep in sweeps:
        what = f"squared gradient, layer 0 over layer {depth}, {sweep.name}"
        checks += _flat(what, log_ratio(sweep.deepest, GRADIENT, 0, depth), sweep.names, sweep)
        checks.append(follows_law(sweep, GRADIENT, resolution=generic.RESOLUTION))
    title = "the gradient is the same at all layers of one network"
    reading = f"Squared stream gradient at the first layer over the one at the last, {depth} blocks."
    return _claim(name, title, reading, sweeps, checks, _classes(name, profile, "layer"))


def _flat(what: str, statistic: Statistic, cells: tuple[str, ...], sweep: Sweep) -> list[Check]:
    """Flat or not, as theory expects; no check where the law lies so near the band's end that its own error decides."""
    check = Check(what, statistic, cells, FLAT, "statement", logarithm=True)
    found = predict(check, sweep.cells)
    assert found is not None  # an isotropic gradient always has a prediction
    value = float(found[0])
    room = law_band(sweep, sweep.depths[-1], generic.RESOLUTION).high
    inside = FLAT.low * room < value < FLAT.high / room
    outside = value * room < FLAT.low or value > FLAT.high * room
    return [replace(check, expected=SUPPORTED if inside else REFUTED)] if inside or outside else []


def _classes(name: str, profile: Profile, axis: str) -> str:
    """The law's class for each of the profile's sublayers, or that the recursion decides."""
    variant = load(name)
    found = {names: closed_class(variant, (sublayer(names),)) for names in profile.sublayers}
    words = {
        names: (classes.in_depth if axis == "depth" else classes.across_layers).words if classes else "the numeric recursion"
        for names, classes in found.items()
    }
    return "; ".join(f"{names}: {of}" for names, of in words.items()) + "."


def _has_worst_case(name: str) -> bool:
    sweep = norm_sweep(name, "relu", 2, 0, 64)
    try:
        quantity(NORM).predicted(sweep.configuration(2))
    except InvalidInput:
        return False
    return True


def _worst_case(name: str, profile: Profile) -> Claim:
    sweep = norm_sweep(name, profile.sublayers[-1], 5, profile.seed, 128)
    maps = (sublayer(sweep.sublayers),)
    title = "the worst case follows the law derived from the expression"
    reading = (
        "Squared operator norm of the Jacobian from every layer to the output: the gradient for the worst upstream direction."
    )
    (summary, *_) = [step for step in worst_case(load(name), maps) if step.title == "Worst case: product"]
    claim = _claim(name, title, reading, [sweep], [follows_law(sweep, NORM, resolution=generic.RESOLUTION)], summary.text)
    figure = across_layers(claim.title, "squared operator norm to the output", [sweep], NORM)
    return replace(
        claim,
        assumptions=NETWORKS,
        steps=tuple(worst_case(load(name), maps)),
        law=claim.law | {"latex": summary.latex},
        figures=(figure,),
    )


def _comparison(name: str, profile: Profile) -> Claim:
    """The variant beside the field's three: each follows its own law, and the variant's networks no other's."""
    sublayers = profile.sublayers[-1]
    mine = generic.tokenwise(name, sublayers, profile)
    others = [replace(mine, variant=other) for other in BESIDE if other != name]
    own = follows_law(mine, GRADIENT, resolution=generic.RESOLUTION)
    checks = [replace(own, of="statement"), *(follows_law(other, GRADIENT, resolution=generic.RESOLUTION) for other in others)]
    for other in others:
        checks += _told_apart(mine, other)
    names = " and ".join(other.variant for other in others)
    claim = _claim(
        name,
        f"its own law holds, beside those of {names}",
        f"Squared stream gradient at every layer of {mine.depths[-1]} blocks, {sublayers}; the networks of {name} are also held against the laws of "
        "those others that differ by more than both bands.",
        [mine, *others],
        checks,
    )
    title = f"{name} beside {names}: squared gradient across the layers, {sublayers}"
    figure = across_layers(title, "squared stream gradient", [mine, *others], GRADIENT, file="comparison")
    return replace(claim, figures=(figure,))


def _told_apart(mine: Sweep, other: Sweep) -> list[Check]:
    (depth,) = mine.depths
    laws = [sweep.predicted(GRADIENT, depth) for sweep in (mine, other)]
    bands = [law_band(sweep, depth, generic.RESOLUTION) for sweep in (mine, other)]
    if np.abs(np.log(laws[0] / laws[1])).max() <= 1.5 * np.log(bands[0].high * bands[1].high):
        return []
    what = f"networks of {mine.name} over the law of {other.variant}, every layer of L={depth}"
    return [Check(what, log_relative(mine.deepest, GRADIENT, laws[1]), mine.names, bands[1], "law", REFUTED, logarithm=True)]
