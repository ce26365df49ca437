"""Squared gradient at the stream, per coordinate."""

from empirical.probes.base import Probe, by_layer, mean_square

PROBE = Probe("stream-gradient", lambda seen: by_layer([mean_square(g) for g in seen.gradients]))
