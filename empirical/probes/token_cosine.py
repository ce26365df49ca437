"""Mean cosine between the stream's tokens."""

from empirical.probes.base import Probe, by_layer, mean_cosine

PROBE = Probe(
    "token-cosine", lambda seen: by_layer([mean_cosine(s["x"]) for s in seen.network.streams]), may_vanish=True, is_ratio=True
)
