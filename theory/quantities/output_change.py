"""How far a block's last sublayer moves what would be read out: the network's output, were it to end there."""

import numpy as np

from theory.algebra import Stream
from theory.errors import InvalidInput
from theory.prediction import Profile, Quantity
from theory.propagation import Form, Tokens, Walk


def _read(profile: Profile) -> list[float]:
    return [float(np.diagonal(_change(profile, block[-1].walk)).mean()) for block in profile.blocks]


def _change(profile: Profile, step: Walk) -> np.ndarray:
    """Second moment of the read-out after the step less the read-out before it, both as forms over the step's sources.

    Raises:
        InvalidInput: a read-out that is more than a linear form over the streams.
    """
    names = profile.configuration.variant.streams
    before = {(a, b): step.moment({Stream(a): 1.0}, {Stream(b): 1.0}) for a in names for b in names}
    new, old = _coefficients(profile, step.outgoing()), _coefficients(profile, before)
    change: Form = {Stream(name): -old.get(name, 0.0) for name in names}
    for name, node in step.targets:
        for source, value in step.forms[node].items():
            change[source] = change.get(source, 0.0) + new.get(name, 0.0) * value
    return np.asarray(step.moment(change))


def _coefficients(profile: Profile, streams: dict[tuple[str, str], np.ndarray]) -> dict[str, np.ndarray | float]:
    """What the read-out multiplies each stream with."""
    configuration = profile.configuration
    variant, position = configuration.variant, configuration.last_position
    walk = Walk(
        (("y", variant.read_out),), streams, Tokens(), lambda formula: variant.coefficient(formula, position), _no_sublayer
    )
    form = walk.forms[variant.read_out]
    if not all(isinstance(source, Stream) for source in form):
        raise InvalidInput(f"output-change of {variant.name} is not predicted: its read-out is more than norms, sums and scales")
    return {source.name: value for source, value in form.items()}


def _no_sublayer(*_: object) -> np.ndarray:
    raise AssertionError("a read-out holds no sublayer")


QUANTITY = Quantity(
    name="output-change",
    definition="E|y_l − y_{l-1}|²/(n·d), y_l the read-out of the streams at layer l, across block l's last sublayer",
    read=_read,
    first_layer=1,
    on_demand=True,
    infinite_width=True,
)
