"""Squared Frobenius norm of the gradient of every weight matrix, in order of application."""

from empirical.probes.base import Probe, by_layer, wide

# Matrices are drawn, and so recorded, in order of application.
PROBE = Probe("parameter-gradient", lambda seen: by_layer([wide(seen.tape.gradients[key]) for key in seen.tape.weights]))
