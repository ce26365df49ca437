"""One cell of a measurement: a network, its input, its numerics; and the readings of some of its members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from empirical.blocks import Pass, forward
from empirical.draws import Draws
from empirical.layers import RandomLinear, Tape, WeightRecord, require_engine
from empirical.probes import PROBES, Observation
from empirical.sources import source
from theory.boundary import Boundary
from theory.configuration import Configuration
from theory.errors import InvalidInput
from theory.quantities import QUANTITIES, quantity

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
_BATCH_BYTES = 600_000_000
_DIRECTIONS = 4  # projections of an optimiser's update: their scatter is then below that between networks


@dataclass(frozen=True)
class Cell:
    """What is measured.

    Args:
        configuration: the network.
        source: ``isotropic``, ``text`` or ``coherent:COSINE`` (see `empirical.sources`).
        engine: ``dense`` or ``matrix-free`` (the same distribution, see `empirical.layers`).
        dtype: ``float64``, ``float32`` or ``bfloat16``.
        seed: base seed; member m of the ensemble is drawn from (seed, m).
        extra: names of quantities that are made on demand (optimiser updates, operator norms).

    Raises:
        InvalidInput: unknown dtype, engine or input; a quantity on demand without matrices or with another gradient; the
            matrix-free engine, or a sum over all weights, where blocks share theirs.
    """

    configuration: Configuration
    source: str = "isotropic"
    engine: str = "dense"
    dtype: str = "float64"
    seed: int = 0
    extra: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        source(self.source)
        if self.dtype not in DTYPES:
            raise InvalidInput(f"unknown dtype {self.dtype!r}: use one of {', '.join(DTYPES)}")
        if self.seed < 0:
            raise InvalidInput(f"seed is {self.seed}: it must be 0 or more")
        require_engine(self.engine, self.configuration.variant.tied)
        for name in self.extra:
            quantity(name).require_fresh(self.configuration)
        dense = [name for name in self.extra if PROBES[quantity(name).name].needs_weights]
        if dense and self.engine != "dense":
            raise InvalidInput(f"{dense[0]} needs the weights themselves: use --engine dense")

    @property
    def quantities(self) -> tuple[str, ...]:
        """What is read: cosines need two tokens, some quantities an isotropic gradient or fresh weights, or a demand."""
        return tuple(
            name
            for name, q in QUANTITIES.items()
            if (q.tokens != 2 or self.configuration.tokens > 1)
            and (not q.isotropic or self.source == "isotropic")
            and (not q.fresh or not self.configuration.variant.tied)
            and (not q.on_demand or name in self.extra)
        )

    @property
    def batch(self) -> int:
        """Members that fit in memory at once (the readings do not depend on it)."""
        c = self.configuration
        matrices = sum(len(maps.matrices) for maps in c.maps)
        drawn = matrices if c.variant.tied else matrices * c.depth
        rows = c.width if self.engine == "dense" else 3 * c.tokens
        numbers = drawn * rows + matrices * c.depth * 4 * c.tokens
        member = numbers * c.width * c.expansion * DTYPES[self.dtype].itemsize
        return max(1, min(512, _BATCH_BYTES // member))


@dataclass(frozen=True)
class Readings:
    """Readings of consecutive members: each quantity's (members, rows), and what was drawn."""

    values: dict[str, np.ndarray]
    weights: tuple[dict[tuple[int, int, str], WeightRecord], ...]
    """One record a matrix, and one a bias, for each batch; a bias's key names it "bias of" its matrix."""

    @property
    def members(self) -> int:
        """How many networks were measured."""
        return len(next(iter(self.values.values())))

    def joined(self, other: Readings) -> Readings:
        """These readings followed by ``other``'s."""
        values = {name: np.concatenate([v, other.values[name]]) for name, v in self.values.items()}
        return Readings(values, self.weights + other.weights)


def device_named(name: str) -> torch.device:
    """``auto``, ``cpu`` or ``cuda`` as a torch device, with float32 products kept in float32.

    Raises:
        InvalidInput: CUDA is asked for and there is none.
    """
    if name not in ("auto", "cpu", "cuda"):
        raise InvalidInput(f"unknown device {name!r}: use auto, cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise InvalidInput(
            "no CUDA device is available: use --device cpu, or install a CUDA build of torch on a machine with a GPU"
        )
    torch.backends.cuda.matmul.allow_tf32 = False
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def measure(cell: Cell, members: Sequence[int], device: torch.device) -> Readings:
    """Draw the networks of ``members``, run each forward and backward once, and read the cell's quantities.

    Raises:
        InvalidInput: too many tokens for the engine, heads that do not divide the width.
    """
    draws = Draws(cell.seed, members, device, DTYPES[cell.dtype])
    keep = any(PROBES[name].matrices for name in cell.extra)
    linear = RandomLinear(draws, cell.engine, keep, cell.configuration.variant.tied)
    feed = source(cell.source)(cell.configuration, draws)
    network = forward(cell.configuration, feed.inputs, linear)
    streams = [layer["x"] for layer in network.streams]
    tape = linear.tape
    directed = any(PROBES[name].directions for name in cell.extra)
    tape.factors = {} if directed else None
    gradients = torch.autograd.grad(feed.objective(network.output), streams, retain_graph=directed)
    directions = tuple(_direction(network, linear, draws) for _ in range(_DIRECTIONS if directed else 0))
    observation = Observation(cell.configuration, network, gradients, tape, directions, linear.matrices, linear.shifts)
    with torch.no_grad():
        values = {name: PROBES[name].read(observation).cpu().numpy() for name in cell.quantities}
    biases = {(layer, index, f"bias of {name}"): record for (layer, index, name), record in tape.biases.items()}
    return Readings(values, (tape.weights | biases,))


def boundaries(cell: Cell, members: Sequence[int], device: torch.device) -> tuple[Boundary, ...]:
    """The two ends of the members' networks, one boundary each: what a prediction is to be told of their data and loss.

    Raises:
        InvalidInput: as `measure`.
    """
    draws = Draws(cell.seed, members, device, DTYPES[cell.dtype])
    feed = source(cell.source)(cell.configuration, draws)
    with torch.no_grad():
        network = forward(cell.configuration, feed.inputs, RandomLinear(draws, cell.engine, tied=cell.configuration.variant.tied))
        ends = [moments.cpu().double().numpy() for moments in feed.ends(network.output)]
    return tuple(Boundary(inputs, gradients) for inputs, gradients in zip(*ends, strict=True))


def _direction(network: Pass, linear: RandomLinear, draws: Draws) -> Tape:
    """A further backward pass with a unit Gaussian gradient of its own at the output."""
    linear.tape = Tape(factors={})
    upstream = draws.normal("upstream", *network.output.shape[1:])
    torch.autograd.grad((network.output * upstream).sum(), network.streams[0]["x"], retain_graph=True)
    return linear.tape
