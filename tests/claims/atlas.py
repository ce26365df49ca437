"""What a generic claim adds to the report's atlas of variants: classes, figures at 1,000 blocks, and its curve."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tests.claims.classes import classes_of
from tests.claims.figures import Values, over_layers
from tests.claims.sweeps import Sweep
from theory.configuration import Configuration
from theory.errors import InvalidInput
from theory.laws.law import Law, closed_form
from theory.prediction import Quantity
from theory.quantities import quantity
from theory.spectrum.derivation import worst_case

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
            "series": over_layers(self.sweep, values, "stream-gradient") if values else [],
        }


def _worst_case(configuration: Configuration) -> str:
    """The class of the worst case over the typical one, where theory has it in closed form."""
    if not configuration.tokenwise or not isinstance(closed_form(configuration.variant), Law):
        return ""
    return next((step.text for step in worst_case(configuration.variant) if step.title == "Worst case: class"), "")


def _deep(configuration: Configuration) -> dict[str, Any]:
    """Figures of a stack of 1,000 blocks at infinite width; None where they leave the range of floats or have no law."""
    deep = replace(configuration, depth=DEEP)
    gradient, moment = (_rows(quantity(name), deep) for name in ("stream-gradient", "stream-moment"))
    norm = _rows(quantity("operator-norm"), deep)
    return {
        "depth": DEEP,
        "gradient": None if gradient is None or not gradient[-1] else gradient[0] / gradient[-1],
        "moment": None if moment is None else moment[-1],
        "worst": None if norm is None else norm[0],
    }


def _rows(of: Quantity, configuration: Configuration) -> list[float] | None:
    try:
        return of.predicted(configuration, infinite_width=True).tolist()
    except InvalidInput:
        return None
