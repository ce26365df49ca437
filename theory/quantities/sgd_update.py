"""Change of the output after one SGD step."""

from theory.prediction import Quantity
from theory.updates.sgd import sgd_update

QUANTITY = Quantity(
    name="sgd-update",
    definition="E|δy|²/(n·d·η²) for the step W → W − η ∂(v·y)/∂W of blocks l+1 … L, v isotropic unit Gaussian, first order in η",
    read=sgd_update,
    tokens=None,
    isotropic=True,
    fresh=True,
    on_demand=True,
    infinite_width=True,
)
