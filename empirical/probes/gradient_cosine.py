"""Mean cosine between the tokens' gradients."""

from empirical.probes.base import Probe, by_layer, mean_cosine

PROBE = Probe("gradient-cosine", lambda seen: by_layer([mean_cosine(g) for g in seen.gradients]), may_vanish=True, is_ratio=True)
