"""Sublayers by name; a sequence such as ``attention,gelu`` is one block."""

from theory.registry import find
from theory.sublayers.attention import Attention
from theory.sublayers.base import Applied, Fluctuations, Matrix, Role, SublayerMaps, Surroundings, Weights
from theory.sublayers.tokenwise import AppliedTokenWise, TokenWise

SUBLAYERS: dict[str, SublayerMaps] = {
    maps.name: maps
    for maps in (
        TokenWise("linear", two_matrices=False),
        TokenWise("relu", two_matrices=True),
        TokenWise("leaky-relu", two_matrices=True),
        TokenWise("gelu", two_matrices=True),
        TokenWise("silu", two_matrices=True),
        TokenWise("tanh", two_matrices=False),
        Attention(),
    )
}


def sublayer(name: str) -> SublayerMaps:
    """The sublayer called ``name``.

    Raises:
        InvalidInput: unknown name.
    """
    return find("sublayer", name, SUBLAYERS)


__all__ = [
    "SUBLAYERS",
    "Applied",
    "AppliedTokenWise",
    "Attention",
    "Fluctuations",
    "Matrix",
    "Role",
    "SublayerMaps",
    "Surroundings",
    "TokenWise",
    "Weights",
    "sublayer",
]
