"""Cells of a claim: one network at several depths, with labels and predictions."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from empirical.measurement import Cell
from tests.claims.ends import predicted
from theory.configuration import Configuration
from theory.finite_width.allowance import correction
from theory.variants import load

Array = np.ndarray


@dataclass(frozen=True)
class Sweep:
    """One variant with one block at several depths.

    Args:
        base_seed: the profile's; every cell mixes it with its label, so that cells are independent of each other.
        engine: see `Cell`; shared weights take the dense one in any case.
        extra: quantities on demand, see `Cell`.
    """

    variant: str
    sublayers: str
    depths: tuple[int, ...]
    base_seed: int
    width: int = 256
    tokens: int = 2
    heads: int = 4
    causal: bool = False
    gain: float = 1.0
    source: str = "isotropic"
    engine: str = "matrix-free"
    dtype: str = "float64"
    extra: tuple[str, ...] = ()

    def configuration(self, depth: int) -> Configuration:
        """The network at one depth."""
        names = tuple(self.sublayers.split(","))
        return Configuration(load(self.variant), names, depth, self.width, self.tokens, self.heads, self.causal, self.gain)

    @property
    def matrices(self) -> tuple[str, ...]:
        """Labels of one block's weight matrices."""
        return self.configuration(self.depths[-1]).matrix_names

    @property
    def name(self) -> str:
        """Label of the sweep in figures and checks."""
        more = [f"gain {self.gain:g}"] if self.gain != 1 else []
        more += [self.source] if self.source != "isotropic" else []
        more += ["causal"] if self.causal else []
        more += [self.dtype] if self.dtype != "float64" else []
        return ", ".join([f"{self.variant} {self.sublayers}", *more])

    def label(self, depth: int) -> str:
        """Label of one cell."""
        return f"{self.name}, d={self.width}, n={self.tokens}, L={depth}"

    @cached_property
    def labels(self) -> tuple[tuple[int, str], ...]:
        """(depth, label) of every cell, rising."""
        return tuple((depth, self.label(depth)) for depth in self.depths)

    @cached_property
    def cells(self) -> dict[str, Cell]:
        """The cells by label."""
        return {label: self._cell(depth, label) for depth, label in self.labels}

    @property
    def names(self) -> tuple[str, ...]:
        """The cells' labels."""
        return tuple(self.cells)

    @property
    def deepest(self) -> str:
        """Label of the deepest cell."""
        return self.labels[-1][1]

    def _cell(self, depth: int, label: str) -> Cell:
        seed, network = (self.base_seed << 32) + zlib.crc32(label.encode()), self.configuration(depth)
        return Cell(network, self.source, "dense" if network.variant.tied else self.engine, self.dtype, seed, self.extra)

    def predicted(self, name: str, depth: int, infinite_width: bool = False) -> Array:
        """Theory's values of a quantity, layer by layer, told of the source's two ends."""
        return predicted(self._cell(depth, self.label(depth)), name, infinite_width)

    def predicted_rows(self, name: str, row: int) -> Array:
        """Theory's value of one row at every depth."""
        return np.array([self.predicted(name, depth)[row] for depth in self.depths])

    def finite_terms(self, depth: int) -> Array:
        """Relative size at every layer of what a finite width does to the law of infinite width, for one depth.

        Raises:
            ValueError: not known for this network.
        """
        terms = correction(self.configuration(depth))
        if terms is None:
            raise ValueError(f"no finite-size term for {self.name}")
        return np.expm1(np.abs(terms))


def transformer(variant: str, base_seed: int, source: str = "isotropic", causal: bool = False) -> Sweep:
    """24 blocks of attention and GELU, d = 128, n = 64, 4 heads: the network of the claims on real text."""
    return Sweep(variant, "attention,gelu", (24,), base_seed, 128, 64, 4, causal, source=source, engine="dense", dtype="float32")


def short_transformer(variant: str, base_seed: int, depth: int = 12) -> Sweep:
    """Blocks of attention and ReLU, d = 128, n = 16, 4 heads: what the papers' laws for their variants are read on."""
    return Sweep(variant, "attention,relu", (depth,), base_seed, 128, 16, 4, dtype="float32")


def cells_of(*sweeps: Sweep) -> dict[str, Cell]:
    """The cells of several sweeps by label."""
    return {label: cell for sweep in sweeps for label, cell in sweep.cells.items()}
