"""Quantities that theory predicts layer by layer, each read from a profile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from theory.boundary import Boundary
from theory.configuration import Configuration
from theory.errors import InvalidInput
from theory.stack import Moments, Profile, profile

Array = np.ndarray


@dataclass(frozen=True)
class Quantity:
    """Something that theory predicts and a probe of the same name measures, layer by layer.

    Args:
        name: as on the command line.
        definition: one line, with the normalisation.
        read: its values from a profile.
        first_layer: layer of the first value: 0 for streams, 1 for blocks.
        tokens: how many tokens a token-wise network needs for it (None: all of the configuration's).
        matrices: one row for every weight matrix instead of one a layer.
        isotropic: it is defined for an isotropic Gaussian gradient at the output only.
        on_demand: its measurement costs passes of its own and is made only where it is asked for.
        infinite_width: its law is one of infinite width, and is read from a profile there.
        fresh: it adds up contributions of weights that are fresh in every block.
    """

    name: str
    definition: str
    read: Callable[[Profile], list[float]]
    first_layer: int = 0
    tokens: int | None = 1
    matrices: bool = False
    isotropic: bool = False
    on_demand: bool = False
    infinite_width: bool = False
    fresh: bool = False

    def require_fresh(self, configuration: Configuration) -> None:
        """Refuse a network whose blocks share their weights, where that would need the sum over a matrix's uses.

        Raises:
            InvalidInput: it is one.
        """
        if self.fresh and configuration.variant.tied:
            raise InvalidInput(
                f"{self.name} adds up blocks with weights of their own, and the blocks of {configuration.variant.name} share "
                "theirs: parameter-gradient has the contribution of every use"
            )

    def labels(self, configuration: Configuration) -> list[dict[str, Any]]:
        """What each row is of: ``{"layer"}``, and ``"matrix"`` (such as ``attention.WQ``) where there is one row a matrix."""
        layers = range(self.first_layer, configuration.depth + 1)
        if not self.matrices:
            return [{"layer": layer} for layer in layers]
        return [{"layer": layer, "matrix": name} for layer in layers for name in configuration.matrix_names]

    def predict(
        self, configuration: Configuration, boundaries: Sequence[Boundary] = (), infinite_width: bool = False
    ) -> list[dict[str, Any]]:
        """Rows ``{"layer", "mean", "low", "high"}`` (with ``"matrix"`` as in `labels`), to first order in 1/width.

        ``low`` and ``high`` equal ``mean``: a law has no sampling error.

        Args:
            configuration: the network.
            boundaries: the two ends of one or more sequences, over which the values are averaged; isotropic without.
            infinite_width: leave the terms of order 1/width out.

        Raises:
            InvalidInput: two tokens are needed and there is one; a sublayer without a law here; shared weights; overflow.
        """
        if self.tokens == 2 and configuration.tokens < 2:
            raise InvalidInput(f"{self.name} compares two tokens: give --tokens 2 or more")
        if boundaries and self.isotropic:
            raise InvalidInput(f"{self.name} is defined for an isotropic gradient at the output: leave the boundary out")
        self.require_fresh(configuration)
        all_tokens = self.tokens is None or not configuration.tokenwise or bool(boundaries)
        tokens = configuration.tokens if all_tokens else self.tokens
        assert tokens is not None
        limit = infinite_width or self.infinite_width
        with np.errstate(all="ignore"):
            profiles = [profile(configuration, tokens, ends, limit) for ends in boundaries or (None,)]
            values = np.mean([self.read(found) for found in profiles], axis=0)
        if not np.all(np.isfinite(values)):
            raise InvalidInput(
                f"{self.name} of {configuration.variant.name} overflows at depth {configuration.depth}: "
                "use fewer blocks or a smaller gain"
            )
        labels = self.labels(configuration)
        return [label | {"mean": v, "low": v, "high": v} for label, v in zip(labels, values.tolist(), strict=True)]

    def predicted(self, configuration: Configuration, boundaries: Sequence[Boundary] = (), infinite_width: bool = False) -> Array:
        """The means of `predict`, one per row."""
        return np.array([row["mean"] for row in self.predict(configuration, boundaries, infinite_width)])


def mean_square(moments: Moments) -> float:
    """Second moment of the stream x, averaged over tokens."""
    return float(np.diagonal(moments["x", "x"]).mean())
