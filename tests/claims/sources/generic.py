"""What every variant of the registry has to answer: does the measurement follow the law derived from its expression?"""

from __future__ import annotations

from collections.abc import Callable

from tests.claims.checks import follows_law, follows_law_in_the_limit
from tests.claims.declaration import BUILDERS, SUPPORTED, Check, Claim, Profile
from tests.claims.figures import across_layers
from tests.claims.sweeps import Sweep, cells_of
from tests.claims.texts import ISOTROPIC
from theory.laws.asymptotics import plain
from theory.laws.classes import closed_class
from theory.laws.kinds import solve
from theory.laws.recursion import NoClosedForm
from theory.laws.solved import Solved
from theory.sublayers import sublayer
from theory.variants import load, registry

DEPTH = 24
QUANTITIES = ("stream-gradient", "stream-moment")
TIED = (6, (128, 256))
"""Depth and widths for blocks that share their weights."""
TIED_RESOLUTION = 0.2
"""20 % for them: single networks scatter most, and two widths are read; chosen for cost."""
RESOLUTION = 0.1
"""10 % for every variant: stacks without residual scatter too much between networks for less."""


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


def _follows_law(stack: list[Sweep], quantity: str) -> Check:
    """At one width, or in the limit where there are several."""
    if len(stack) > 1:
        return follows_law_in_the_limit(stack, quantity, TIED_RESOLUTION)
    return follows_law(stack[0], quantity, resolution=RESOLUTION)


def build(name: str) -> Callable[[Profile], Claim]:
    """The generic claim of one variant."""

    def of_profile(profile: Profile) -> Claim:
        depth, widths = TIED if load(name).tied else (DEPTH, (256,))
        stacks = [[Sweep(name, sublayers, (depth,), profile.seed, width) for width in widths] for sublayers in profile.sublayers]
        sweeps = [stack[-1] for stack in stacks]
        return Claim(
            id=f"variant-{name}",
            group="variants",
            title=f"{name} follows the law derived from its expression",
            statement=f"{load(name).equation}: gradient and stream follow the recursion found by walking this expression.",
            source=load(name).source,
            reading=f"Every layer of a stack of {depth} blocks, width {' and '.join(map(str, widths))}, each of the activations.",
            law=law_of(name),
            cells=cells_of(*(sweep for stack in stacks for sweep in stack)),
            checks=tuple(_follows_law(stack, quantity) for stack in stacks for quantity in QUANTITIES),
            expected=SUPPORTED,
            assumptions=ISOTROPIC,
            derived=(name, "relu"),
            figures=(
                across_layers(
                    f"{name}: squared stream gradient across the layers",
                    "squared stream gradient",
                    sweeps,
                    "stream-gradient",
                    file="gradient",
                ),
            ),
        )

    return of_profile


for _name in registry():
    BUILDERS[f"variant-{_name}"] = build(_name)
