"""Squared gradient of every weight matrix.

Where all blocks share one block's weights, a row is the contribution of one use of the matrix, block by block: the square of
X_lᵀΔ_l alone, not of the sum over uses that an optimiser would see.
"""

from theory.parameters import matrix_gradients
from theory.prediction import Quantity

QUANTITY = Quantity(
    name="parameter-gradient",
    definition="E‖∂𝓛/∂W‖_F² of every weight matrix W of block l (of shared weights, their use in block l), summed over tokens; "
    "a block's last row is its output matrix",
    read=lambda profile: [matrix.square for block in matrix_gradients(profile) for matrix in block],
    first_layer=1,
    tokens=None,
    matrices=True,
)
