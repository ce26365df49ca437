"""Several arms read as one cell: member m of each has the same weights at first and the same batches, and is compared one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from empirical.training import Arm

Array = np.ndarray
Readings = Mapping[str, Array]
"""Quantity → (members, rows)."""


@dataclass(frozen=True, eq=False)
class Together:
    """Arms of equal seeds.

    Args:
        arms: by name.
        read: from each arm's readings by its name, trained when they are asked for, to the cell's readings.
    """

    arms: Mapping[str, Arm]
    read: Callable[[Mapping[str, Readings]], Readings]

    def readings(self, train: Callable[[Arm], Readings]) -> Readings:
        """The cell's readings; ``train`` gives an arm's."""
        return self.read(_Asked(self.arms, train))


@dataclass(frozen=True)
class _Asked(Mapping[str, Readings]):
    arms: Mapping[str, Arm]
    train: Callable[[Arm], Readings] = field(repr=False)

    def __getitem__(self, name: str) -> Readings:
        return self.train(self.arms[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.arms)

    def __len__(self) -> int:
        return len(self.arms)
