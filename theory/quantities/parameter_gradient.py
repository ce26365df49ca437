"""Squared gradient of every weight matrix."""

from theory.parameters import matrix_gradients
from theory.prediction import Quantity

QUANTITY = Quantity(
    name="parameter-gradient",
    definition="E‖∂𝓛/∂W‖_F² of every weight matrix W of block l, summed over tokens; a block's last row is its output matrix",
    read=lambda profile: [matrix.square for block in matrix_gradients(profile) for matrix in block],
    first_layer=1,
    tokens=None,
    matrices=True,
)
