"""Random numbers: one generator a member of the ensemble, so that values depend on neither batch nor device.

Every member owns four independent generators (weights, backward noise of the matrix-free engine, inputs, upstream
gradient), seeded by (seed, member, purpose). Numbers are drawn in float32 on the host and cast, so a cell draws the
same ones in every dtype and on every device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import prod

import numpy as np
import torch

PURPOSES = ("weights", "backward", "inputs", "upstream")
_LARGE = 20_000  # normals per member from which a second thread pays


class Draws:
    """Generators of a batch of members.

    Args:
        seed: the cell's base seed.
        members: indices of the members in this batch.
        device, dtype: of the tensors that are returned.
    """

    def __init__(self, seed: int, members: Sequence[int], device: torch.device, dtype: torch.dtype) -> None:
        self.members, self.device, self.dtype = members, device, dtype
        self._generators = {
            purpose: [np.random.Generator(np.random.SFC64(np.random.SeedSequence([seed, m, k]))) for m in members]
            for k, purpose in enumerate(PURPOSES)
        }

    def normal(self, purpose: str, *shape: int, std: float = 1.0, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Independent N(0, std²) numbers, shape (members, *shape)."""
        buffer = self._drawn(purpose, shape, lambda generator, out: generator.standard_normal(out=out, dtype=np.float32))
        return torch.from_numpy(buffer).to(self.device, dtype or self.dtype).mul_(std)

    def uniform(self, purpose: str, *shape: int, std: float = 1.0) -> torch.Tensor:
        """Independent numbers, uniform between ±√3·std, shape (members, *shape)."""
        buffer = self._drawn(purpose, shape, lambda generator, out: generator.random(out=out, dtype=np.float32))
        buffer = (buffer - np.float32(0.5)) * np.float32(12**0.5)
        return torch.from_numpy(buffer).to(self.device, self.dtype).mul_(std)

    def integers(self, purpose: str, high: int) -> list[int]:
        """One uniform integer in [0, high) a member."""
        return [int(generator.integers(high)) for generator in self._generators[purpose]]

    def _drawn(
        self, purpose: str, shape: tuple[int, ...], fill: Callable[[np.random.Generator, np.ndarray], object]
    ) -> np.ndarray:
        buffer = np.empty((len(self.members), *shape), dtype=np.float32)
        generators = self._generators[purpose]
        _for_each(lambda i: fill(generators[i], buffer[i]), len(generators), prod(shape))
        return buffer


def _for_each(fill: Callable[[int], object], count: int, size: int) -> None:
    if size < _LARGE:
        for i in range(count):
            fill(i)
        return
    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(fill, range(count)))
