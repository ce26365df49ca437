"""Square of the logarithm of each token's squared gradient at the stream."""

from empirical.probes.base import Probe, by_layer, log_squares

PROBE = Probe(
    "squared-log-gradient", lambda seen: by_layer([log_squares(g).square().mean(dim=1) for g in seen.gradients]), may_vanish=True
)
