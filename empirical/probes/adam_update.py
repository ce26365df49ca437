"""Squared change of the output after one Adam step of the blocks above a layer."""

from empirical.probes.base import Probe
from empirical.updates import adam, squared_update

PROBE = Probe("adam-update", lambda seen: squared_update(seen, adam), may_vanish=True, directions=True)
