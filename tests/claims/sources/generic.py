"""What every variant of the registry has to answer: does the measurement follow the law derived from its expression?"""

from __future__ import annotations

from collections.abc import Callable

from tests.claims.checks import VARIANT, follows_law
from tests.claims.declaration import BUILDERS, SUPPORTED, Claim, Profile
from tests.claims.figures import across_layers
from tests.claims.sweeps import Sweep, cells_of
from tests.claims.texts import ISOTROPIC
from theory.laws.asymptotics import plain
from theory.laws.derivation import values_of
from theory.laws.law import Law, closed_form
from theory.sublayers import sublayer
from theory.variants import load, registry

DEPTH = 24
QUANTITIES = ("stream-gradient", "stream-moment")
RESOLUTION = VARIANT


def law_of(name: str) -> dict[str, str]:
    """The variant's law as the report prints it; that there is no closed form, where there is none."""
    variant = load(name)
    law = closed_form(variant)
    if not isinstance(law, Law):
        return {"latex": variant.latex, "text": f"{law}; predicted by the numeric recursion."}
    relu = values_of(law, (sublayer("relu"),)) or {}
    growth = law.growth_in_depth(relu).describe("L") if variant.gain == 1 else law.growth_in_depth(law.homogeneous).describe("L")
    return {"latex": variant.latex, "text": f"E|∂𝓛/∂x_l|²/d = {plain(law.gradient)}; with ReLU: {growth}."}


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
