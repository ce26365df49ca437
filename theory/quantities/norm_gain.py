"""What a block's outermost norm multiplies a gradient by."""

from theory.algebra import Norm
from theory.prediction import Profile, Quantity


def _read(profile: Profile) -> list[float]:
    values = []
    for block in profile.blocks:
        walk = block[-1].walk
        norms = [node for node in walk.order if isinstance(node, Norm)]
        values.append(float((1 / walk.root_mean_squares[norms[-1]]).mean()) if norms else 1.0)
    return values


QUANTITY = Quantity(
    name="norm-gain",
    definition="E[|N(v)|/|v|] of the last norm in block l's last sublayer step (1 where there is none)",
    read=_read,
    first_layer=1,
)
