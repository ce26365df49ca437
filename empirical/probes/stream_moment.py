"""Second moment of the stream, per coordinate."""

from empirical.probes.base import Probe, by_layer, mean_square

PROBE = Probe("stream-moment", lambda seen: by_layer([mean_square(streams["x"]) for streams in seen.network.streams]))
