"""Squared operator norm of the Jacobian from a layer to the output: the worst case of the squared gradient."""

from theory.prediction import Profile, Quantity
from theory.spectrum.edge import edges


def _read(profile: Profile) -> list[float]:
    return list(map(float, edges(profile).at(profile.configuration.width)))


QUANTITY = Quantity(
    name="operator-norm",
    definition="squared operator norm of ∂y/∂x_l, y the output (after the final norm); of one token where tokens do not mix",
    read=_read,
    on_demand=True,
)
