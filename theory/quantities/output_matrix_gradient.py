"""Squared gradient of the output matrix of each block's last sublayer (W₂ of an FFN); of shared weights, this use's."""

from theory.parameters import matrix_gradients
from theory.prediction import Quantity

QUANTITY = Quantity(
    name="output-matrix-gradient",
    definition="E‖∂𝓛/∂W‖_F² of the output matrix of block l's last sublayer (W₂ of an FFN, W_O of attention)",
    read=lambda profile: [block[-1].square for block in matrix_gradients(profile)],
    first_layer=1,
    tokens=None,
)
