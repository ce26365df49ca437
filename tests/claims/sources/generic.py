"""What every variant of the registry has to answer: does the measurement follow the law derived from its expression?"""

from __future__ import annotations

from collections.abc import Callable

from tests.claims.checks import follows_law
from tests.claims.declaration import BUILDERS, SUPPORTED, Claim, Profile
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


def build(name: str) -> Callable[[Profile], Claim]:
    """The generic claim of one variant."""

    def of_profile(profile: Profile) -> Claim:
        sweeps = [Sweep(name, sublayers, (DEPTH,), profile.seed) for sublayers in profile.sublayers]
        return Claim(
            id=f"variant-{name}",
            group="variants",
            title=f"{name} follows the law derived from its expression",
            statement=f"{load(name).equation}: gradient and stream follow the recursion found by walking this expression.",
            source=load(name).source,
            reading=f"Every layer of a stack of {DEPTH} blocks, width 256, each of the activations.",
            law=law_of(name),
            cells=cells_of(*sweeps),
            checks=tuple(follows_law(sweep, quantity, resolution=RESOLUTION) for sweep in sweeps for quantity in QUANTITIES),
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
