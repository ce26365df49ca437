"""Squared gradient of the output matrix of each block's last sublayer (W₂ of an FFN)."""

from theory.algebra import Sublayer
from theory.prediction import Profile, Quantity


def _read(profile: Profile) -> list[float]:
    configuration = profile.configuration
    width, hidden = configuration.width, configuration.width * configuration.expansion
    values = []
    for block in profile.blocks:
        step = block[-1]
        entries = width * (hidden if len(step.maps.matrices) == 2 else width)
        weights = configuration.weights(step.maps)
        ((node, gradient),) = step.gradients.at_sublayers.items()
        assert isinstance(node, Sublayer)
        moments = step.walk.moments[node.argument]
        values.append(entries * step.maps.output_gradient(moments, gradient, weights, configuration.causal))
    return values


QUANTITY = Quantity(
    name="parameter-gradient",
    definition="E‖∂𝓛/∂W‖_F² of the output matrix of block l's last sublayer (W₂ of an FFN, W_O of attention)",
    read=_read,
    first_layer=1,
    tokens=None,
)
