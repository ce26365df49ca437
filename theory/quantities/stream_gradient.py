"""Squared gradient at the stream."""

from theory.prediction import Quantity, mean_square

QUANTITY = Quantity(
    name="stream-gradient",
    definition="E|∂𝓛/∂x_l|²/(n·d), isotropic unit Gaussian gradient at the output (after the final norm)",
    read=lambda profile: [mean_square(moments) for moments in profile.backward],
)
