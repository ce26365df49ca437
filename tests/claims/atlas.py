"""What a generic claim adds to the report's atlas of variants: classes, figures at 1,000 blocks, and its curve."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.claims.classes import classes_of
from tests.claims.figures import Values, over_layers
from tests.claims.sweeps import Sweep
from theory.configuration import Configuration
from theory.errors import InvalidInput
from theory.laws.asymptotics import plain
from theory.laws.law import Law, closed_form
from theory.quantities import quantity
from theory.spectrum.derivation import growth, spread
from theory.spectrum.edge import edges
from theory.stack import Profile, profile

DEEP = 1000


@dataclass(frozen=True)
class Entry:
    """One variant with one block of sublayers, at the sweep's largest depth."""

    sweep: Sweep

    def record(self, values: Values) -> dict[str, Any]:
        """The entry for results.jsonl; without measured values it has no curve."""
        configuration = self.sweep.configuration(self.sweep.depths[-1])
        return {
            "variant": configuration.variant.name,
            "equation": configuration.variant.equation,
            "sublayers": self.sweep.sublayers,
            "tokenwise": configuration.tokenwise,
            "depth": configuration.depth,
            "classes": classes_of(configuration.variant, configuration.sublayers),
            "worst_case": _worst_case(configuration),
            "deep": _deep(configuration) if configuration.tokenwise else None,
            "series": over_layers(self.sweep, values, "stream-gradient", relative=True) if values else [],
        }


def _worst_case(configuration: Configuration) -> str:
    """How the worst case over the typical one grows, where theory has it in closed form: Λ/mean ~ slope · m or slope · ln(L/l)."""
    law = closed_form(configuration.variant)
    found = growth(law, (spread,)) if configuration.tokenwise and isinstance(law, Law) else None
    if found is None:
        return ""
    slope = found.slope.subs(dict(configuration.variant.formulas))  # constants may follow the depth
    return f"{plain(slope).replace('E·', 'e·')} · {'(L − l)' if found.linear else 'ln(L/l)'}"


def _deep(configuration: Configuration) -> dict[str, Any]:
    """Figures of a stack of 1,000 blocks at infinite width; None where they leave the range of floats or have no law."""
    with np.errstate(all="ignore"):
        found = profile(replace(configuration, depth=DEEP), 1, infinite_width=True)
        gradient, moment = (quantity(name).read(found) for name in ("stream-gradient", "stream-moment"))
        ratio = gradient[0] / gradient[-1] if gradient[-1] else np.inf
        return {"depth": DEEP, "gradient": _number(ratio), "moment": _number(moment[-1]), "worst": _number(_worst(found))}


def _worst(found: Profile) -> float:
    try:
        return float(edges(found).infinite_width[0])
    except (InvalidInput, ArithmeticError):
        return np.nan


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) and value > 0 else None
