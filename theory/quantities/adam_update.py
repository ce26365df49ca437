"""Change of the output after one Adam step."""

from theory.prediction import Quantity
from theory.updates.adam import adam_update

QUANTITY = Quantity(
    name="adam-update",
    definition="E|δy|²/(n·d·η²) for Adam's first step, W → W − η sign(∂(v·y)/∂W) of blocks l+1 … L; otherwise as sgd-update",
    read=adam_update,
    tokens=None,
    isotropic=True,
    fresh=True,
    on_demand=True,
    infinite_width=True,
)
