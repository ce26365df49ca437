"""Change of the output after one Adam step."""

from theory.prediction import Quantity
from theory.updates.adam import adam_update

QUANTITY = Quantity(
    name="adam-update",
    definition="E|δy|²/(n·d·η²) for the step W → W − η sign(∂(v·y)/∂W) (Adam from rest) of blocks l+1 … L, v isotropic unit Gaussian, first order in η",
    read=adam_update,
    tokens=None,
    isotropic=True,
    on_demand=True,
    infinite_width=True,
)
