"""Squared change of the output after one SGD step of the blocks above a layer."""

from empirical.probes.base import Probe
from empirical.updates import sgd, squared_update

PROBE = Probe("sgd-update", lambda seen: squared_update(seen, sgd), may_vanish=True, directions=True)
