"""What every variant has to answer, the registry's and a user's own: does the measurement follow the law derived from its expression?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tests.claims.atlas import Entry
from tests.claims.checks import VARIANT, follows_law, follows_law_in_the_limit
from tests.claims.declaration import BUILDERS, SUPPORTED, Builder, Check, Claim, Profile
from tests.claims.figures import across_layers
from tests.claims.sweeps import Sweep, cells_of
from tests.claims.texts import FLOAT32, ISOTROPIC
from theory.errors import NoClosedForm
from theory.laws.asymptotics import plain
from theory.laws.classes import closed_class
from theory.laws.kinds import solve
from theory.laws.solved import Solved
from theory.pairs import cosines, mean_between
from theory.stack import profile as profile_of
from theory.sublayers import sublayer
from theory.variants import load, registry

QUANTITIES = ("stream-gradient", "stream-moment")
TIED = (6, (128, 256))
"""Depth and widths for blocks that share their weights: their terms of order 1/width grow as the depth squared."""
TIED_RESOLUTION = 0.2
"""20 % for them: single networks scatter most, and two widths are read; chosen for cost."""
STEP = "relative-step"
"""How far a block moves the stream: it tells a small branch from a large one where the gradient is flat for both."""
RESOLUTION = VARIANT
ATTENTION = 0.15
"""15 % with attention: more scatter between networks than token by token."""
SATURATED = 16.0
"""Second moment of attention's input, so standard deviation of its logits, from which on a softmax reads one key in nearly
every row: the mean gradient then lies in near-ties too rare for any feasible number of networks to show."""
APART = 1e-6
"""1 − c of attention's tokens below which rounding is most of what tells them apart, and of the gradients of queries and keys."""


def depth(name: str, profile: Profile) -> int:
    """Blocks of a variant's token-wise stack."""
    blocks = 48 if profile.name == "full" else 24
    return TIED[0] if load(name).tied else blocks


def tokenwise(name: str, sublayers: str, profile: Profile) -> Sweep:
    """One variant's token-wise stack, the widest where there are several."""
    return Sweep(name, sublayers, (depth(name, profile),), profile.seed, TIED[1][-1] if load(name).tied else 256)


def at_widths(sweep: Sweep) -> list[Sweep]:
    """A stack at every width that its claim reads, rising: several where blocks share their weights."""
    return [replace(sweep, width=width) for width in TIED[1]] if load(sweep.variant).tied else [sweep]


def with_attention(name: str, profile: Profile) -> Sweep:
    """One variant's stack of attention and GELU, as deep as a feasible number of networks shows its mean."""
    blocks, width, most = (48, 256, 1.2) if profile.name == "full" else (12, 128, 0.5)
    blocks, width = (TIED[0], TIED[1][-1]) if load(name).tied else (blocks, width)
    dtype = "float64" if load(name).tied else "float32"  # gradients that all blocks shrink alike leave the range of float32
    sweep = Sweep(name, "attention,gelu", (blocks,), profile.seed, width, 16, dtype=dtype)
    found = profile_of(sweep.configuration(blocks), sweep.tokens)
    entering = [block[0].entering for block in found.blocks]
    readable = [np.diagonal(m).mean() <= SATURATED and 1 - mean_between(cosines(m)) >= APART for m in entering]
    blocks = [*readable, False].index(False)
    if found.scatter:
        blocks = min(blocks, sum(float(scatter.mean()) <= most for scatter in found.scatter[:-1]))
    return replace(sweep, depths=(blocks,))


def law_of(name: str) -> dict[str, str]:
    """The variant's law as the report prints it, with constants that follow the depth put in; that there is no closed form, where there is none."""
    variant = load(name)
    law = solve(variant)
    if isinstance(law, NoClosedForm):
        return {"latex": variant.latex, "text": f"{law}; predicted by the numeric recursion."}
    relu = closed_class(variant, (sublayer("relu"),))
    growth = f"with ReLU: {relu.in_depth.words}" if relu else ""
    where = f" for {law.condition}" if isinstance(law, Solved) and law.condition else ""
    formula = "" if law.gradient is None else f"E|∂𝓛/∂x_l|²/d = {plain(law.gradient)}{where}"
    return {"latex": variant.latex, "text": "; ".join(filter(None, (formula, growth))) + "."}


def _follows_law(sweep: Sweep, quantity: str, resolution: float) -> Check:
    """At one width, or in the limit where there are several."""
    stack = at_widths(sweep)
    if len(stack) > 1:
        return follows_law_in_the_limit(stack, quantity, TIED_RESOLUTION)
    return follows_law(sweep, quantity, resolution=resolution)


def follows_its_law(name: str, profile: Profile) -> Claim:
    """Token by token: the gradient and the stream at every layer."""
    sweeps = [tokenwise(name, sublayers, profile) for sublayers in profile.sublayers]
    title = f"{name}: squared stream gradient across the layers"
    return Claim(
        id=f"variant-{name}",
        group="variants",
        title=f"{name} follows the law derived from its expression",
        statement=f"{load(name).equation}: gradient and stream follow the recursion found by walking this expression.",
        source=load(name).source,
        reading=f"Every layer of a stack of {depth(name, profile)} blocks, width {_widths(sweeps[0])}, each of the activations.",
        law=law_of(name),
        cells=cells_of(*(each for sweep in sweeps for each in at_widths(sweep))),
        checks=tuple(check for sweep in sweeps for check in _tokenwise_checks(sweep)),
        expected=SUPPORTED,
        assumptions=ISOTROPIC,
        derived=(name, "relu"),
        figures=(across_layers(title, "squared stream gradient", sweeps, "stream-gradient", file="gradient"),),
        atlas=tuple(Entry(sweep) for sweep in sweeps),
    )


def _widths(sweep: Sweep) -> str:
    return " and ".join(str(each.width) for each in at_widths(sweep))


def _tokenwise_checks(sweep: Sweep) -> list[Check]:
    """Of the steps from the second block on: the first may also correct the input's length, which scatters by 2/d.

    Where a closed gate makes the law of the steps 0, the sanity gate has seen that they are.
    """
    checks = [_follows_law(sweep, quantity, RESOLUTION) for quantity in QUANTITIES]
    if load(sweep.variant).tied:
        return checks
    if sweep.predicted(STEP, sweep.depths[-1])[1:].all():
        checks.append(follows_law(sweep, STEP, rows=slice(1, None), resolution=RESOLUTION))
    return checks


def follows_its_law_with_attention(name: str, profile: Profile) -> Claim:
    """The same for blocks of attention and FFN."""
    sweep = with_attention(name, profile)
    (blocks,) = sweep.depths
    title = f"{name}: squared stream gradient across the layers, attention and GELU"
    return Claim(
        id=f"variant-{name}-attention",
        group="variants",
        title=f"{name}: a block of attention and FFN follows the law derived from the expression",
        statement=f"{load(name).equation}: with attention, gradient and stream follow the recursion found by walking this expression.",
        source=load(name).source,
        reading=f"Every layer of a stack of {blocks} blocks of attention and GELU FFN, width {_widths(sweep)}, {sweep.tokens} tokens, "
        "bidirectional, gradients independent across tokens.",
        law={
            "latex": load(name).latex,
            "text": "The numeric recursion over the expression, with attention's maps of second moments between all pairs of tokens.",
        },
        cells=cells_of(*at_widths(sweep)),
        checks=tuple(_follows_law(sweep, quantity, ATTENTION) for quantity in QUANTITIES),
        expected=SUPPORTED,
        assumptions=(
            *ISOTROPIC,
            *([FLOAT32] if sweep.dtype == "float32" else []),
            f"as deep as logits keep a standard deviation of at most {SATURATED:g}, tokens differ by more than rounding and the gradient's logarithm does not scatter too much",
        ),
        figures=(across_layers(title, "squared stream gradient", [sweep], "stream-gradient", file="gradient"),),
        atlas=(Entry(sweep),),
        first_look=64,
    )


Part = Callable[[str, Profile], Claim]
PARTS: dict[str, Part] = {"": follows_its_law, "-attention": follows_its_law_with_attention}
"""The generic claims by the ending of their ids."""


def builder(part: Part, name: str) -> Builder:
    """One generic claim of one variant, to be built for a profile."""
    return lambda profile: part(name, profile)


for _name in registry():
    BUILDERS.update({f"variant-{_name}{ending}": builder(part, _name) for ending, part in PARTS.items()})
