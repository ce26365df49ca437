"""Logarithm of each token's squared gradient at the stream, per coordinate."""

from empirical.probes.base import Probe, by_layer, log_squares

PROBE = Probe("log-gradient", lambda seen: by_layer([log_squares(g).mean(dim=1) for g in seen.gradients]), may_vanish=True)
