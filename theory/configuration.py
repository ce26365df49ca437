"""The axes of a cell: which network a law is predicted for and a measurement is made on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from theory.algebra import Position, Scale, Variant, walk
from theory.errors import InvalidInput
from theory.initialisations import Place, initialisation
from theory.sublayers import Matrix, SublayerMaps, Weights, sublayer


@dataclass(frozen=True)
class Configuration:
    """One network at initialisation.

    Args:
        variant: the block's equation.
        sublayers: names of the sublayers of one block, in order.
        depth: number of blocks L.
        width: d of the residual stream; hidden layers have ``expansion`` times as many units.
        tokens: n, length of a sequence.
        heads: of attention; must divide the width.
        causal: whether attention masks later tokens.
        gain: factor on every weight variance; with the initialisation ``fan-in`` it is the variance times fan-in.
        expansion: hidden width over width (1: the d × d matrices of Xiong et al. 2020, section 3.3).
        init: name of the initialisation.

    Raises:
        InvalidInput: a value out of range.
    """

    variant: Variant
    sublayers: tuple[str, ...] = ("relu",)
    depth: int = 24
    width: int = 256
    tokens: int = 8
    heads: int = 4
    causal: bool = False
    gain: float = 1.0
    expansion: int = 1
    init: str = "fan-in"

    def __post_init__(self) -> None:
        for axis in ("depth", "width", "tokens", "heads", "expansion"):
            if getattr(self, axis) < 1:
                raise InvalidInput(f"{axis} is {getattr(self, axis)}: it must be at least 1")
        if self.width % self.heads:
            raise InvalidInput(f"{self.heads} heads do not divide the width {self.width}: choose a divisor of {self.width}")
        if not 0 < self.gain < float("inf"):
            raise InvalidInput(f"gain is {self.gain}: a weight variance must be positive and finite")
        initialisation(self.init)
        if not self.sublayers:
            raise InvalidInput("no sublayers: name at least one, such as relu or attention,gelu")
        for name in self.sublayers:
            sublayer(name)

    @property
    def maps(self) -> tuple[SublayerMaps, ...]:
        """The block's sublayers."""
        return tuple(sublayer(name) for name in self.sublayers)

    def position(self, layer: int, index: int) -> Position:
        """Where sublayer ``index`` (from 0) of block ``layer`` stands."""
        kind = "ffn" if self.maps[index].tokenwise else "attention"
        return Position(layer, self.depth, index + 1, len(self.sublayers), kind)  # type: ignore[arg-type]

    @property
    def last_position(self) -> Position:
        """The last sublayer's, where the read-out's coefficients are taken."""
        return self.position(self.depth, len(self.sublayers) - 1)

    def has_closed_gate(self, layer: int) -> bool:
        """Whether a coefficient in the updates of block ``layer`` is exactly 0."""
        places = [self.position(layer, index) for index in range(len(self.sublayers))]
        return any(
            isinstance(node, Scale) and self.variant.coefficient(node.coefficient, place) == 0
            for place in places
            for node in walk(*(update for _, update in self.variant.steps_at(place)))
        )

    @property
    def matrix_names(self) -> tuple[str, ...]:
        """Labels of one block's weight matrices in order: ``attention.WQ``, …; ``relu(2).W1`` for a second relu."""
        names = []
        for index, name in enumerate(self.sublayers):
            before = self.sublayers[:index].count(name)
            label = f"{name}({before + 1})" if before else name
            names += [f"{label}.{matrix.name}" for matrix in sublayer(name).matrices]
        return tuple(names)

    @property
    def tokenwise(self) -> bool:
        """Whether no sublayer mixes tokens."""
        return all(maps.tokenwise for maps in self.maps)

    def weights(self, maps: SublayerMaps) -> Weights:
        """How the matrices of ``maps`` are drawn; the variant's initial gain scales the branch's, and no bias."""
        preset = initialisation(self.init)
        scales = maps.scales(self.gain, self.variant.branch_gain(self.depth))
        places = {matrix.name: self._place(matrix) for matrix in maps.matrices}
        biases = {name: preset.bias(place) for name, place in places.items()}
        return Weights(
            {name: scales[name] * preset.variance(place) for name, place in places.items()},
            {name: bias for name, bias in biases.items() if bias},
            preset.uniform,
        )

    def _place(self, matrix: Matrix) -> Place:
        return Place(matrix.role, *matrix.shape(self.width, self.expansion), projections=self.depth * len(self.sublayers))

    def describe(self) -> dict[str, Any]:
        """The axes as plain JSON values."""
        return {
            "sublayers": ",".join(self.sublayers),
            "depth": self.depth,
            "width": self.width,
            "tokens": self.tokens,
            "heads": self.heads,
            "causal": self.causal,
            "gain": self.gain,
            "expansion": self.expansion,
            "init": self.init,
        }
