"""The probes: one module a quantity of theory's, defining ``PROBE``."""

from __future__ import annotations

import importlib

from empirical.probes.base import Observation, Probe
from theory.quantities import QUANTITIES

PROBES: dict[str, Probe] = {
    name: importlib.import_module(f"empirical.probes.{name.replace('-', '_')}").PROBE for name in QUANTITIES
}

__all__ = ["PROBES", "Observation", "Probe"]
