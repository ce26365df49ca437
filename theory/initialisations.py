"""Initialisations by name: how the matrices and biases of every sublayer are drawn.

Laws at infinite width see a matrix's variance and a bias's second moment only; the measuring side also draws from the
distribution itself. Uniform numbers have the same variance as the Gaussian ones they stand for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from theory.registry import find
from theory.sublayers.base import Role


@dataclass(frozen=True)
class Place:
    """Where a matrix stands: all that its initialisation may depend on.

    Args:
        role: what the matrix is for.
        fan_in, fan_out: its shape.
        projections: matrices of the whole network that write to the residual stream.
    """

    role: Role
    fan_in: int
    fan_out: int
    projections: int


@dataclass(frozen=True)
class Initialisation:
    """One way of drawing a network.

    Args:
        name: as on the command line.
        source: where it comes from.
        variance: weight variance times fan-in at a place.
        bias: second moment of each entry of the matrix's bias.
        uniform: weights and biases are uniform around 0; Gaussian otherwise.
    """

    name: str
    source: str
    variance: Callable[[Place], float]
    bias: Callable[[Place], float] = lambda place: 0.0
    uniform: bool = False


def _xavier(place: Place) -> float:
    return 2 * place.fan_in / (place.fan_in + place.fan_out)


def _packed(place: Place) -> float:
    """Query, key and value of nn.MultiheadAttention are one matrix of fan-out 3d; its output matrix is an nn.Linear."""
    return _xavier(replace(place, fan_out=3 * place.fan_out)) if place.role.enters_attention else 1 / 3


def _linear_bias(place: Place) -> float:
    return 1 / (3 * place.fan_in)


def _bias_beside_attention(place: Place) -> float:
    return 0.0 if place.role.in_attention else _linear_bias(place)


def _normal_002(place: Place) -> float:
    return 0.02**2 * place.fan_in


_ENCODER_LAYER = Initialisation(
    name="torch-encoder-layer",
    source="torch 2.13, nn.TransformerEncoderLayer: packed Xavier q/k/v and zero biases in attention, nn.Linear elsewhere",
    variance=_packed,
    bias=_bias_beside_attention,
    uniform=True,
)

INITIALISATIONS: dict[str, Initialisation] = {
    preset.name: preset
    for preset in (
        Initialisation("fan-in", "LeCun et al. 1998: N(0, 1/fan_in), no bias", lambda place: 1.0),
        Initialisation("xavier-normal", "Glorot & Bengio 2010, eq. 12, as N(0, 2/(fan_in + fan_out)); zero bias", _xavier),
        Initialisation("xavier-uniform", "Glorot & Bengio 2010, eq. 16; zero bias", _xavier, uniform=True),
        Initialisation(
            name="torch-linear",
            source="torch 2.13, nn.Linear: weights and bias U(-1/sqrt(fan_in), 1/sqrt(fan_in))",
            variance=lambda place: 1 / 3,
            bias=_linear_bias,
            uniform=True,
        ),
        _ENCODER_LAYER,
        replace(_ENCODER_LAYER, name="torch-mha"),  # the name of its attention, for who looks for that
        Initialisation("bert", "Devlin et al. 2019 as in Hugging Face's BertModel: N(0, 0.02^2), zero bias", _normal_002),
        Initialisation(
            name="gpt2",
            source="Radford et al. 2019, section 2.3: N(0, 0.02^2), residual projections over sqrt(their number); zero bias",
            variance=lambda place: _normal_002(place) / (place.projections if place.role.writes_to_stream else 1),
        ),
    )
}


def initialisation(name: str) -> Initialisation:
    """The initialisation called ``name``.

    Raises:
        InvalidInput: unknown name.
    """
    return find("initialisation", name, INITIALISATIONS)
